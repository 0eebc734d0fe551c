// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what was written to what a counter has to be told, on a given PMU.

use std::ops::Range;

use perfmon::{CounterId, EventSelect, Modes};

use super::error::Fault;
use super::modifiers::{Modifiers, modifiers};
use super::names::{self, Meaning, Named};
use super::parse::{Piece, Spec, Term, What};
use crate::pmu::{Pmu, Vendor};

/// Something to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Name that the user wrote.
    pub(crate) label: String,
    /// Meaning, if it has a name.
    pub(crate) meaning: Option<Meaning>,
    pub(crate) modes: Modes,
    /// The select for general counters, if they can count it.
    pub(crate) general: Option<EventSelect>,
    /// The fixed counter that can count it.
    pub(crate) fixed: Option<u8>,
    /// The counter that the user wants for it.
    pub(crate) pinned: Option<CounterId>,
    /// perf's number of an event of a cache, which the driver looks up for the CPU.
    pub(crate) cache: Option<u32>,
    /// Events with the same number are a group.
    pub(crate) group: Option<usize>,
}

impl Event {
    /// An event that this CPU does not have.
    pub(crate) fn absent(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            meaning: None,
            modes: Modes::default(),
            general: None,
            fixed: None,
            pinned: None,
            cache: None,
            group: None,
        }
    }

    /// perf's event of a cache, by its number in `PERF_TYPE_HW_CACHE`.
    pub(crate) fn of_cache(label: &str, number: u32) -> Self {
        Self {
            cache: Some(number),
            ..Self::absent(label)
        }
    }

    /// Returns whether this CPU lacks it.
    pub(crate) const fn is_absent(&self) -> bool {
        self.general.is_none() && self.fixed.is_none() && self.cache.is_none()
    }

    /// Returns the select to write to `counter`.
    pub(crate) fn select_on(&self, counter: CounterId) -> EventSelect {
        let select = match counter {
            CounterId::General(_) => self.general.unwrap_or(EventSelect::fixed()),
            CounterId::Fixed(_) => EventSelect::fixed(),
        };
        select.modes(self.modes)
    }
}

/// An event without its modifiers.
#[derive(Default)]
struct Target {
    label: Option<String>,
    meaning: Option<Meaning>,
    general: Option<EventSelect>,
    fixed: Option<u8>,
}

/// Returns the event of `spec`, which is a part of `text`.
pub(super) fn resolve(spec: &Spec, text: &str, pmu: &Pmu) -> Result<Event, Fault> {
    let target = match &spec.what {
        What::Word(word) => {
            self::word(word, pmu).map_err(|fault| tracepoint(spec, text).unwrap_or(fault))?
        }
        What::Terms(terms) => fields(terms, pmu)?,
    };
    let Modifiers { modes, pinned } = modifiers(&spec.modifiers)?;
    if let Some((counter, span)) = &pinned {
        allow_pin(*counter, span.clone(), &target, pmu)?;
    }
    Ok(Event {
        label: target.label.unwrap_or_else(|| spec.label(text)),
        meaning: target.meaning,
        modes: modes.unwrap_or_default(),
        general: target.general,
        fixed: target.fixed,
        pinned: pinned.map(|(counter, _)| counter),
        cache: None,
        group: spec.group,
    })
}

/// Returns the default events: those of [`names::DEFAULT`] that the CPU has.
pub(crate) fn default_events(pmu: &Pmu) -> Vec<Event> {
    names::DEFAULT
        .iter()
        .filter_map(|name| super::events(name, pmu).ok())
        .flatten()
        .collect()
}

/// A name, `rUUEE` or `fixedN`.
fn word(word: &Piece, pmu: &Pmu) -> Result<Target, Fault> {
    let text = word.text.to_ascii_lowercase();
    if let Some(digits) = text.strip_prefix('r').filter(|rest| is_hexadecimal(rest)) {
        return Ok(Target {
            general: Some(raw(digits, &word.span, pmu)?),
            ..Target::default()
        });
    }
    if let Some(number) = text
        .strip_prefix("fixed")
        .and_then(|rest| rest.parse().ok())
    {
        require_fixed(number, &word.span, pmu)?;
        return Ok(Target {
            fixed: Some(number),
            ..Target::default()
        });
    }
    named(word, pmu)
}

fn is_hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// An event by its name, as far as this PMU counts it.
fn named(word: &Piece, pmu: &Pmu) -> Result<Target, Fault> {
    let Some(event) = names::find(pmu.vendor, &word.text) else {
        return Err(unknown(word, pmu.vendor));
    };
    let (general, fixed) = event.on(pmu);
    if general.is_none() && fixed.is_none() {
        return Err(absent(event, word));
    }
    Ok(Target {
        label: None,
        meaning: Some(event.meaning),
        general: general.map(|(event, unit_mask)| EventSelect::new(event.into(), unit_mask)),
        fixed,
    })
}

/// Returns why an event of the table can't be counted here.
fn absent(event: &Named, word: &Piece) -> Fault {
    let reason = match (event.architectural, event.fixed) {
        (Some(bit), _) => format!("CPUID.0AH:EBX[{bit}] says so"),
        (None, Some(number)) => format!("only fixed counter {number} counts it"),
        (None, None) => "no counter counts it".to_owned(),
    };
    Fault::new(
        word.span.clone(),
        format!("this CPU does not have the event `{}`", word.text),
    )
    .help(format!("{reason}; `pmctl info` lists what it has."))
    .absent()
}

/// A name that has the form of a tracepoint, `sched:sched_switch`; no modifier is that long.
fn tracepoint(spec: &Spec, text: &str) -> Option<Fault> {
    let [modifier, ..] = &spec.modifiers[..] else {
        return None;
    };
    if modifier.text.len() < 5 || modifiers(&spec.modifiers).is_ok() {
        return None;
    }
    let name = &text[spec.span.clone()];
    let fault = Fault::new(spec.span.clone(), format!("no event is called `{name}`"));
    Some(fault.help("A tracepoint is counted by the kernel: `perf stat` shows it."))
}

/// A name that is not in the table: what may be meant.
fn unknown(word: &Piece, vendor: Vendor) -> Fault {
    let fault = Fault::new(
        word.span.clone(),
        format!("no event is called `{}`", word.text),
    );
    let other = match vendor {
        Vendor::Intel => Vendor::Amd,
        Vendor::Amd => Vendor::Intel,
    };
    if let Some(foreign) = names::find(other, &word.text) {
        let here = names::TABLE
            .iter()
            .find(|e| e.vendor == vendor && e.meaning == foreign.meaning);
        return match here {
            Some(event) => fault.help(format!(
                "It is a name of {other:?}'s; on this CPU the same is called `{}`.",
                event.names[0]
            )),
            None => fault.help(format!(
                "It is an event of {other:?}'s CPUs, and this is none."
            )),
        };
    }
    if let Some(reason) = names::of_perf_only(&word.text) {
        return fault.help(reason);
    }
    match names::nearest(vendor, &word.text)[..] {
        [] if word.text.starts_with(['r', 'R']) => fault.help(
            "A raw encoding is an `r` and hexadecimal digits, unit mask and event: `r1c0` is unit mask 0x01, event 0xc0.",
        ),
        [] => fault.help(
            "Events of your CPU model are given by number: `rUUEE` or `cpu/event=..,umask=../`. \
             `pmctl info` lists the names.",
        ),
        [one] => fault.help(format!("Did you mean `{one}`?")),
        ref several => fault.help(format!("Did you mean `{}`?", several.join("`, `"))),
    }
}

/// Fails if the CPU has no such fixed counter.
fn require_fixed(number: u8, span: &Range<usize>, pmu: &Pmu) -> Result<(), Fault> {
    if pmu.has_fixed(number) {
        return Ok(());
    }
    let present: Vec<String> = pmu.fixed().map(|n| format!("`fixed{n}`")).collect();
    let help = match present.len() {
        0 => "It has no fixed counters.".to_owned(),
        _ => format!("It has {}.", present.join(", ")),
    };
    Err(Fault::new(
        span.clone(),
        format!("this CPU has no fixed counter {number}"),
    )
    .help(help))
}

/// The digits of `rUUEE`: the event select, without what the driver sets.
fn raw(digits: &str, span: &Range<usize>, pmu: &Pmu) -> Result<EventSelect, Fault> {
    let width = pmu.select_bits();
    match u64::from_str_radix(digits, 16) {
        Ok(bits) if bits >> width == 0 => select(bits, span),
        _ => Err(Fault::new(
            span.clone(),
            format!("this is more than the {width} bits of an event select"),
        )),
    }
}

/// The bits of an event select that are not the user's.
const RESERVED: &[(u64, &str, &str)] = &[
    (
        3 << 16,
        "bits 16 and 17 are the modes",
        "Write `:u` or `:k` after the event.",
    ),
    (
        1 << 19,
        "bit 19 drives pins of the CPU",
        "The driver does not allow it.",
    ),
    (1 << 20, "bit 20 is the interrupt", "The driver sets it."),
    (
        1 << 21,
        "bit 21 counts the sibling thread too",
        "The driver does not allow it.",
    ),
    (1 << 22, "bit 22 starts the counter", "The driver sets it."),
];

/// `bits`, if they are the user's.
fn select(bits: u64, span: &Range<usize>) -> Result<EventSelect, Fault> {
    if let Some((_, message, help)) = RESERVED.iter().find(|(mask, _, _)| bits & mask != 0) {
        return Err(Fault::new(span.clone(), *message).help(*help));
    }
    EventSelect::from_bits(bits)
        .ok_or_else(|| Fault::new(span.clone(), "the driver does not allow this event select"))
}

/// A field of the event select.
struct Field {
    key: &'static str,
    bits: u32,
    /// Shifts its value to its place in the register.
    place: fn(u64) -> u64,
}

impl Field {
    /// Its largest value.
    fn most(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.bits)
    }
}

/// The fields of a PMU's event selects.
fn fields_of(pmu: &Pmu) -> [Field; 6] {
    let field = |key, bits, place| Field { key, bits, place };
    [
        // Bits 11:8 of a number, which only AMD's have, are at 35:32.
        field("event", pmu.event_bits(), |number| {
            number & 0xff | number >> 8 << 32
        }),
        field("umask", 8, |number| number << 8),
        field("edge", 1, |number| number << 18),
        field("inv", 1, |number| number << 23),
        field("cmask", 8, |number| number << 24),
        field("config", pmu.select_bits(), |number| number),
    ]
}

/// Fields that perf knows and that can't be had here, with the reason.
const REFUSED_FIELDS: &[(&str, &str)] = &[
    (
        "any",
        "it counts what the sibling thread does; the driver does not allow it",
    ),
    (
        "pc",
        "it drives pins of the CPU; the driver does not allow it",
    ),
    (
        "period",
        "`pmctl record -c` gives all events one; counting has none",
    ),
    ("freq", "samples are made by a period: `pmctl record -c`"),
    (
        "offcore_rsp",
        "it needs an extra register, which the driver does not set yet",
    ),
    (
        "ldlat",
        "it needs an extra register, which the driver does not set yet",
    ),
    (
        "frontend",
        "it needs an extra register, which the driver does not set yet",
    ),
];

/// `cpu/.../`.
fn fields(terms: &[Term], pmu: &Pmu) -> Result<Target, Fault> {
    if let [Term { key, value: None }] = terms {
        if names::find(pmu.vendor, &key.text).is_some() {
            return named(key, pmu);
        }
    }
    let known = fields_of(pmu);
    let mut bits = 0;
    let mut set = 0;
    let mut label = None;
    for Term { key, value } in terms {
        if key.text == "name" {
            label = Some(text(key, value.as_ref())?);
            continue;
        }
        let Some(field) = known.iter().find(|field| field.key == key.text) else {
            return Err(unknown_field(key, &known));
        };
        let mask = (field.place)(field.most());
        if set & mask != 0 {
            return Err(Fault::new(
                key.span.clone(),
                "these bits have a value already",
            ));
        }
        set |= mask;
        bits |= (field.place)(number(field, key, value.as_ref())?);
    }
    let last = &terms[terms.len() - 1];
    let all = terms[0].key.span.start..last.value.as_ref().unwrap_or(&last.key).span.end;
    Ok(Target {
        label,
        general: Some(select(bits, &all)?),
        ..Target::default()
    })
}

fn unknown_field(key: &Piece, known: &[Field]) -> Fault {
    if let Some((_, reason)) = REFUSED_FIELDS.iter().find(|(name, _)| *name == key.text) {
        return Fault::new(
            key.span.clone(),
            format!("`{}` can't be used: {reason}", key.text),
        );
    }
    let known: Vec<&str> = known
        .iter()
        .map(|field| field.key)
        .chain(["name"])
        .collect();
    Fault::new(
        key.span.clone(),
        format!("an event has no field `{}`", key.text),
    )
    .help(format!("It has {}.", known.join(", ")))
}

/// The value of a field that is a text.
fn text(key: &Piece, value: Option<&Piece>) -> Result<String, Fault> {
    match value {
        Some(value) if !value.text.is_empty() => Ok(value.text.clone()),
        _ => Err(Fault::new(
            key.span.clone(),
            format!("`{}` needs a value", key.text),
        )),
    }
}

/// The value of a field that is a number; a flag alone is 1.
fn number(field: &Field, key: &Piece, value: Option<&Piece>) -> Result<u64, Fault> {
    let Some(value) = value else {
        return if field.bits == 1 {
            Ok(1)
        } else {
            Err(
                Fault::new(key.span.clone(), format!("`{}` needs a value", key.text))
                    .help(format!("For example: {}=0x1", key.text)),
            )
        };
    };
    let hexadecimal = value.text.strip_prefix("0x");
    let parsed = match hexadecimal.or_else(|| value.text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.text.parse(),
    };
    let most = field.most();
    match parsed {
        Ok(number) if number <= most => Ok(number),
        _ => Err(Fault::new(
            value.span.clone(),
            format!("`{}` takes a number from 0 to {most:#x}", field.key),
        )),
    }
}

/// Fails unless `counter` exists and can count the event.
fn allow_pin(
    counter: CounterId,
    span: Range<usize>,
    target: &Target,
    pmu: &Pmu,
) -> Result<(), Fault> {
    match counter {
        CounterId::General(number) if number >= pmu.general() => Err(Fault::new(
            span,
            format!("this CPU has no general counter {number}"),
        )
        .help(format!("It has {}, the first is PMC0.", pmu.general()))),
        CounterId::General(_) if target.general.is_none() => {
            Err(Fault::new(span, "general counters can't count this event"))
        }
        CounterId::Fixed(number) if target.fixed != Some(number) => {
            require_fixed(number, &span, pmu)?;
            let fault = Fault::new(
                span,
                format!("fixed counter {number} counts something else"),
            );
            Err(match target.fixed {
                Some(right) => fault.help(format!("This event is that of FIXED{right}.")),
                None => fault.help("No fixed counter counts this event."),
            })
        }
        _ => Ok(()),
    }
}
