// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux's tables: which counters count an event, which events need an extra register, cache events and hardware events.

use anyhow::{Context, Result, bail};

use super::memory_tables::MemoryEvent;
use super::source::{Source, items, number};

/// The hardware events in the order of `enum perf_hw_id`.
pub(super) const HARDWARE: [&str; 10] = [
    "CPU_CYCLES",
    "INSTRUCTIONS",
    "CACHE_REFERENCES",
    "CACHE_MISSES",
    "BRANCH_INSTRUCTIONS",
    "BRANCH_MISSES",
    "BUS_CYCLES",
    "STALLED_CYCLES_FRONTEND",
    "STALLED_CYCLES_BACKEND",
    "REF_CPU_CYCLES",
];

/// The caches in the order of `enum perf_hw_cache_id`.
pub(super) const CACHES: [&str; 7] = ["L1D", "L1I", "LL", "DTLB", "ITLB", "BPU", "NODE"];
/// The operations in the order of `enum perf_hw_cache_op_id`.
pub(super) const OPERATIONS: [&str; 3] = ["OP_READ", "OP_WRITE", "OP_PREFETCH"];
/// The results in the order of `enum perf_hw_cache_op_result_id`.
pub(super) const RESULTS: [&str; 2] = ["RESULT_ACCESS", "RESULT_MISS"];

/// Event selects by the number of the event; 0 if there is none.
pub(super) type EventMap = [u64; HARDWARE.len()];

/// Event selects by cache, operation and result: 0 if the CPU has no such event, and all ones if
/// the combination makes no sense.
pub(super) type CacheTable = [[[u64; 2]; 3]; 7];

/// The counters of the events whose value, under a mask, is in a range.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Constraint {
    mask: u64,
    first: u64,
    last: u64,
    pub(super) counters: Counters,
    pub(super) memory_event: Option<MemoryEvent>,
}

/// Counters of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counters {
    /// All general counters, and the fixed counter with this number.
    Fixed(u8),
    /// The general counters of this mask.
    General(u64),
}

/// Linux's macros that limit an event, given by number and unit mask, to some general counters. A constraint that also
/// has other bits of the event select applies to none of the compared events.
const UNIT_MASK_MACROS: [&str; 12] = [
    "INTEL_UEVENT_CONSTRAINT",
    "INTEL_FLAGS_UEVENT_CONSTRAINT",
    "INTEL_FLAGS_UEVENT_CONSTRAINT_DATALA_LD",
    "INTEL_FLAGS_UEVENT_CONSTRAINT_DATALA_ST",
    "INTEL_FLAGS_UEVENT_CONSTRAINT_DATALA_XLD",
    "INTEL_FLAGS_UEVENT_CONSTRAINT_DATALA_XST",
    "INTEL_FLAGS_UEVENT_CONSTRAINT_DATALA_NA",
    "INTEL_PLD_CONSTRAINT",
    "INTEL_PSD_CONSTRAINT",
    "INTEL_PST_CONSTRAINT",
    "INTEL_HYBRID_LDLAT_CONSTRAINT",
    "INTEL_HYBRID_STLAT_CONSTRAINT",
];

/// Linux's macros that limit all events with a number, whatever their unit mask, to some general counters.
const NUMBER_MACROS: [&str; 5] = [
    "INTEL_EVENT_CONSTRAINT",
    "INTEL_EXCLEVT_CONSTRAINT",
    "INTEL_FLAGS_EVENT_CONSTRAINT",
    "INTEL_FLAGS_EVENT_CONSTRAINT_DATALA_LD",
    "INTEL_FLAGS_EVENT_CONSTRAINT_DATALA_XLD",
];

/// Linux's macros that limit all events in a range of numbers to some general counters.
const RANGE_MACROS: [&str; 2] = [
    "INTEL_EVENT_CONSTRAINT_RANGE",
    "INTEL_FLAGS_EVENT_CONSTRAINT_DATALA_LD_RANGE",
];

/// Returns the constraints of Linux's array `name`.
pub(super) fn constraints(source: &Source, name: &str) -> Result<Vec<Constraint>> {
    const EVENT: u64 = 0xff;
    const EVENT_AND_UNIT_MASK: u64 = 0xffff;

    let body = source.body(&format!("struct event_constraint {name}[]"))?;
    let mut list = Vec::new();
    for (macro_name, arguments) in items(&body) {
        let numbers = arguments.iter().map(|argument| number(argument));
        // Skips this macro, because it is for pseudo-events with the number 0, which are not
        // compared.
        if macro_name == "METRIC_EVENT_CONSTRAINT" {
            continue;
        }
        let numbers = numbers
            .collect::<Result<Vec<_>>>()
            .with_context(|| name.to_owned())?;
        let (mask, first, last, counters) = match (macro_name, &numbers[..]) {
            ("FIXED_EVENT_CONSTRAINT", &[code, counter]) => {
                let counter = Counters::Fixed(u8::try_from(counter)?);
                (EVENT_AND_UNIT_MASK, code, code, counter)
            }
            ("INTEL_UBIT_EVENT_CONSTRAINT", &[code, counters]) => {
                (EVENT | code, code, code, Counters::General(counters))
            }
            ("INTEL_ALL_EVENT_CONSTRAINT", &[_, counters]) => {
                (0, 0, 0, Counters::General(counters))
            }
            (_, &[code, counters]) if UNIT_MASK_MACROS.contains(&macro_name) => {
                (EVENT_AND_UNIT_MASK, code, code, Counters::General(counters))
            }
            (_, &[code, counters]) if NUMBER_MACROS.contains(&macro_name) => {
                (EVENT, code, code, Counters::General(counters))
            }
            (_, &[first, last, counters]) if RANGE_MACROS.contains(&macro_name) => {
                (EVENT, first, last, Counters::General(counters))
            }
            _ => bail!("{name} has an unknown {macro_name}"),
        };
        list.push(Constraint {
            mask,
            first,
            last,
            counters,
            memory_event: MemoryEvent::of_macro(macro_name),
        });
    }
    Ok(list)
}

/// Returns the counters of an event, by the first constraint that applies.
pub(super) fn constrained_counters(constraints: &[Constraint], event: u64) -> Option<Counters> {
    let mut constraints = constraints.iter();
    let constraint = constraints.find(|constraint| constraint.applies(event))?;
    Some(constraint.counters)
}

impl Constraint {
    /// Returns whether the constraint applies to an event, which is given by its number and unit mask.
    pub(super) fn applies(&self, event: u64) -> bool {
        (self.first..=self.last).contains(&(event & self.mask))
    }
}

/// An event (number and unit mask) that needs an extra register, the name of the register, and the mask of its bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExtraEvent {
    pub(super) event: u64,
    pub(super) register: String,
    pub(super) mask: u64,
}

/// Returns the events that need an extra register.
pub(super) fn extra_register_events(source: &Source, name: &str) -> Result<Vec<ExtraEvent>> {
    let body = source.body(&format!("struct extra_reg {name}[]"))?;
    items(&body)
        .map(|(macro_name, arguments)| {
            let (register, mask) = match (macro_name, &arguments[..]) {
                ("INTEL_UEVENT_EXTRA_REG", [_, register, mask, _]) => {
                    ((*register).to_owned(), number(mask)?)
                }
                ("INTEL_UEVENT_PEBS_LDLAT_EXTRA_REG", [_]) => {
                    ("MSR_PEBS_LD_LAT_THRESHOLD".to_owned(), 0xffff)
                }
                _ => bail!("{name} has an unknown {macro_name}"),
            };
            Ok(ExtraEvent {
                event: number(arguments[0])?,
                register,
                mask,
            })
        })
        .collect()
}

/// Returns a table of cache events.
pub(super) fn cache_table(source: &Source, name: &str) -> Result<CacheTable> {
    let body = source.body(&format!("const u64 {name}\n"))?;
    let mut table = CacheTable::default();
    let (mut cache, mut operation) = (0, 0);
    for item in body.split("[C(").skip(1) {
        let (word, rest) = item
            .split_once(")]=")
            .with_context(|| format!("{name} has an unknown form"))?;
        if let Some(index) = CACHES.iter().position(|cache| *cache == word) {
            cache = index;
        } else if let Some(index) = OPERATIONS.iter().position(|operation| *operation == word) {
            operation = index;
        } else {
            let value = rest.split([',', '}']).next().unwrap_or(rest);
            *cell(&mut table, cache, operation, word)? = number(value)?;
        }
    }
    Ok(table)
}

/// Returns the cell of a result.
fn cell<'a>(
    table: &'a mut CacheTable,
    cache: usize,
    operation: usize,
    result: &str,
) -> Result<&'a mut u64> {
    let result = RESULTS.iter().position(|known| *known == result);
    let result = result.context("a cell is neither accesses nor misses")?;
    Ok(&mut table[cache][operation][result])
}

/// Sets a cell by a statement's `[C(ITLB)][C(OP_READ)][C(RESULT_ACCESS)]=-1`.
pub(super) fn set_cell(table: &mut CacheTable, statement: &str) -> Result<()> {
    let (place, value) = statement
        .split_once('=')
        .context("a cell is not set by a value")?;
    let words: Vec<&str> = place
        .split("[C(")
        .skip(1)
        .map(|word| word.trim_end_matches(")]"))
        .collect();
    let position = |names: &[&str], word| names.iter().position(|name| *name == word);
    let [cache, operation, result] = words[..] else {
        bail!("`{statement}` names no cell");
    };
    let cache = position(&CACHES, cache).context("a cell is of an unknown cache")?;
    let operation =
        position(&OPERATIONS, operation).context("a cell is of an unknown operation")?;
    *cell(table, cache, operation, result)? = number(value)?;
    Ok(())
}

/// Returns a map of hardware events.
pub(super) fn event_map(source: &Source, name: &str) -> Result<EventMap> {
    let body = source.body(&format!("const u64 {name}["));
    let body = body.or_else(|_| source.body(&format!("u64 {name}[")))?;
    let mut map = EventMap::default();
    for item in body.split(',').filter(|item| !item.is_empty()) {
        set_event(&mut map, item)?;
    }
    Ok(map)
}

/// Sets an event by `[PERF_COUNT_HW_CPU_CYCLES]=0x003c` or by the fields of `X86_CONFIG(.event=0x3c,.umask=0)`.
pub(super) fn set_event(map: &mut EventMap, item: &str) -> Result<()> {
    let (name, value) = item
        .split_once("[PERF_COUNT_HW_")
        .and_then(|(_, item)| item.split_once("]="))
        .with_context(|| format!("`{item}` sets no event"))?;
    let event = HARDWARE.iter().position(|known| *known == name);
    let event = event.with_context(|| format!("{name} is an unknown event"))?;
    map[event] = match value.strip_prefix("X86_CONFIG(") {
        Some(fields) => select(fields.trim_end_matches(')'))?,
        None => number(value)?,
    };
    Ok(())
}

/// Returns the event select of fields, as in `.event=0x0e,.umask=0x01`.
fn select(fields: &str) -> Result<u64> {
    let mut select = 0;
    for field in fields.split(',') {
        let (name, value) = field
            .split_once('=')
            .context("a field of an event select has no value")?;
        let shift = match name {
            ".event" => 0,
            ".umask" => 8,
            ".edge" => 18,
            ".inv" => 23,
            ".cmask" => 24,
            _ => bail!("an event select has an unknown field {name}"),
        };
        select |= number(value)? << shift;
    }
    Ok(select)
}
