// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux's tables of the access to memory in precise samples: the events whose records have an
//! access, the source of the data by its code, and the bits beside the code.

use anyhow::{Context, Result, bail, ensure};
use perfmon_core::logic::memory_access::data_source;

use super::source::{Source, number};

/// The kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Load,
    Store,
}

/// An event whose precise samples have an access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryEvent {
    pub(super) access: Access,
    pub(super) decoder: Decoder,
}

/// Linux's function that decodes the source of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoder {
    /// `precise_datala_hsw()`
    L1Hit,
    /// `load_latency_data()` or `store_latency_data()`
    Latency,
    /// `x86_pmu.pebs_latency_data()`
    HybridLatency,
}

impl MemoryEvent {
    /// Returns the kind of access of a macro of constraints; `None` if it is no macro of memory
    /// events. Macros that only cores before Skylake use are left out: the module takes no precise
    /// samples on these cores.
    pub(super) fn of_macro(name: &str) -> Option<Self> {
        let (access, decoder) = match name {
            "INTEL_PLD_CONSTRAINT" => (Access::Load, Decoder::Latency),
            "INTEL_PSD_CONSTRAINT" => (Access::Store, Decoder::Latency),
            "INTEL_HYBRID_LDLAT_CONSTRAINT" => (Access::Load, Decoder::HybridLatency),
            "INTEL_HYBRID_STLAT_CONSTRAINT" => (Access::Store, Decoder::HybridLatency),
            "INTEL_FLAGS_UEVENT_CONSTRAINT_DATALA_LD"
            | "INTEL_FLAGS_EVENT_CONSTRAINT_DATALA_LD"
            | "INTEL_FLAGS_EVENT_CONSTRAINT_DATALA_LD_RANGE" => (Access::Load, Decoder::L1Hit),
            "INTEL_FLAGS_UEVENT_CONSTRAINT_DATALA_ST" => (Access::Store, Decoder::L1Hit),
            _ => return None,
        };
        Some(Self { access, decoder })
    }

    /// Returns whether the event counts loads of at least a given latency.
    pub(super) fn has_threshold(self) -> bool {
        self.access == Access::Load && self.decoder != Decoder::L1Hit
    }
}

/// Linux's tables and settings for decoding the precise samples of a core.
#[derive(Clone, Default)]
pub(super) struct MemorySetup {
    /// The bits of `union perf_mem_data_src` by the code of the source; 0 for reserved codes.
    pub(super) sources: Vec<u64>,
    /// `x86_pmu.pebs_latency_data`; empty if there is none.
    pub(super) latency_function: String,
    /// The records of slow loads tell whether a load was blocked.
    pub(super) has_blocks: bool,
    /// The records have the latency of the instruction, besides the latency of the access.
    pub(super) has_instruction_latency: bool,
}

impl MemorySetup {
    /// Returns Linux's settings before any case of a model changes them.
    pub(super) fn new(linux: &Source) -> Result<Self> {
        Ok(Self {
            sources: sources(linux, "pebs_data_source")?,
            ..Self::default()
        })
    }

    /// Executes a statement if it is about the records. The statement has no white space.
    pub(super) fn execute(&mut self, linux: &Source, statement: &str) -> Result<()> {
        if statement.ends_with("x86_pmu.pebs_block=true") {
            self.has_blocks = true;
        } else if statement.ends_with("x86_pmu.flags|=PMU_FL_INSTR_LATENCY") {
            self.has_instruction_latency = true;
        } else if let Some(copied) = statement.strip_prefix("memcpy(data_source,") {
            let name = copied.split(',').next().unwrap_or(copied);
            self.sources = sources(linux, name)?;
        } else if let Some((code, terms)) = statement
            .split_once("data_source[")
            .and_then(|(_, assignment)| assignment.split_once("]="))
        {
            let code = usize::try_from(number(code)?)?;
            let source = self.sources.get_mut(code);
            *source.with_context(|| format!("`{statement}` is beyond the sources"))? =
                source_bits(linux, terms)?;
        }
        Ok(())
    }
}

/// `PERF_PEBS_DATA_SOURCE_MASK`: the mask of a source's code in the records of Lion Cove, which has the longest codes.
const LONGEST_CODE: u64 = 0xff;

/// `PERF_PEBS_DATA_SOURCE_GRT_MASK`: the mask of a source's code in the records of small cores.
const CODE_OF_SMALL_CORES: u64 = 0xf;

/// Terms of Linux's tables for which the module has other bits than Linux.
const TERM_EXCEPTIONS: [(&str, u64); 1] = [
    // From Skylake to Redwood Cove, Linux's term means persistent memory on servers, and a cache of
    // the fourth level on other processors. The module has one table for all processors, so it
    // shows no level.
    ("pmem_or_l4", data_source::LVLNUM_NA),
];

/// Returns constants of the module with their names.
macro_rules! with_names {
    ($($name:ident)*) => { &[$((stringify!($name), data_source::$name)),*] };
}

/// The bits of Linux's `PERF_MEM_*`.
const BITS: &[(&str, u64)] = with_names! {
    OP_LOAD
    LVL_HIT LVL_MISS LVL_L1 LVL_LFB LVL_L2 LVL_L3 LVL_LOC_RAM LVL_REM_RAM1 LVL_REM_CCE1 LVL_IO LVL_UNC
    SNOOP_NA SNOOP_NONE SNOOP_HIT SNOOP_MISS SNOOP_HITM
    LVLNUM_L1 LVLNUM_L2 LVLNUM_L3 LVLNUM_L2_MHB LVLNUM_MSC LVLNUM_ANY_CACHE LVLNUM_LFB LVLNUM_RAM LVLNUM_NA
    SNOOPX_FWD
};

/// Returns one of Linux's tables of sources by code, with 0 for codes beyond the end of Linux's
/// table.
fn sources(linux: &Source, name: &str) -> Result<Vec<u64>> {
    let body = linux.body(&format!("static u64 {name}["))?;
    let mut parentheses = 0;
    // The terms have commas of their own in parentheses.
    let entries = body.split(|character| {
        match character {
            '(' => parentheses += 1,
            ')' => parentheses -= 1,
            _ => (),
        }
        character == ',' && parentheses == 0
    });
    let mut sources = entries
        .filter(|entry| !entry.is_empty())
        .map(|entry| source_bits(linux, entry))
        .collect::<Result<Vec<_>>>()
        .with_context(|| name.to_owned())?;
    let length = usize::try_from(LONGEST_CODE)? + 1;
    ensure!(sources.len() <= length, "{name} has too many sources");
    sources.resize(length, 0);
    Ok(sources)
}

/// Returns the bits of terms like `OP_LH|P(LVL,L1)|LEVEL(L1)`.
fn source_bits(linux: &Source, terms: &str) -> Result<u64> {
    let mut bits = 0;
    for term in terms.split('|') {
        bits |= term_bits(linux, term)?;
    }
    Ok(bits)
}

/// Returns the bits of a term: `0`, `P(field,value)`, `LEVEL(value)`, or the name of other terms.
fn term_bits(linux: &Source, term: &str) -> Result<u64> {
    let mut exceptions = TERM_EXCEPTIONS.iter();
    if let Some((_, bits)) = exceptions.find(|(name, _)| *name == term) {
        return Ok(*bits);
    }
    let name = match term.trim_end_matches(')').split_once('(') {
        None if term == "0" => return Ok(0),
        None => return source_bits(linux, &linux.definition(term)?),
        Some(("P", "REMOTE,REMOTE")) => return Ok(data_source::REMOTE),
        Some(("P", field_and_value)) => field_and_value.replace(',', "_"),
        Some(("LEVEL", level)) => format!("LVLNUM_{level}"),
        Some(_) => bail!("`{term}` has an unknown form"),
    };
    let known = BITS.iter().find(|(known, _)| *known == name);
    let (_, bits) = known.with_context(|| format!("`{term}` is not among the known bits"))?;
    Ok(*bits)
}

/// Returns the function that Linux's function `name` calls for a kind of core, or `name` itself if it does not depend
/// on the kind. `kind` is the name of the kind in `enum hybrid_pmu_type`.
pub(super) fn function_for_kind(linux: &Source, name: &str, kind: &str) -> Result<String> {
    let body = function_body(linux, name)?;
    if body.contains("dse.") {
        return Ok(name.to_owned());
    }
    let parts: Vec<&str> = body.split("return").collect();
    let called = parts.windows(2).find_map(|parts| {
        let [before, call] = parts else { return None };
        // The last call has no condition.
        let is_called = match before.rsplit_once("if(pmu->pmu_type==") {
            Some((_, condition)) => condition.strip_suffix(')') == Some(kind),
            None => true,
        };
        let (function, _) = call.split_once("(event,status)")?;
        is_called.then_some(function)
    });
    let called = called.with_context(|| format!("{name} calls no function for {kind}"))?;
    function_for_kind(linux, called, kind)
}

/// Returns the body of a function that decodes the source of the data.
fn function_body(linux: &Source, name: &str) -> Result<String> {
    linux.body(&format!(
        "u64 {name}(struct perf_event *event, u64 status)\n"
    ))
}

/// The bits of a record that one of Linux's functions reads. Bits that the function does not read
/// are 0.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecordBits {
    pub(super) code: u64,
    pub(super) tlb_miss: u64,
    pub(super) locked: u64,
    pub(super) data_blocked: u64,
    pub(super) address_blocked: u64,
}

impl RecordBits {
    /// Returns the bits that a function reads. All functions read the fields of a record in the
    /// order of the fields of [`RecordBits`].
    pub(super) fn of_function(linux: &Source, name: &str) -> Result<Self> {
        let body = function_body(linux, name)?;
        let mut names = Vec::new();
        for text in body.split("dse.").skip(1) {
            let is_end = |character: char| !character.is_alphanumeric() && character != '_';
            let field = text.split(is_end).next().unwrap_or(text);
            if field != "val" && !names.contains(&field) {
                names.push(field);
            }
        }
        let masks = names.iter().map(|field| record_field(linux, field));
        let mut masks = masks.collect::<Result<Vec<_>>>()?;
        if body.contains("status&PERF_PEBS_DATA_SOURCE_MASK") {
            masks.insert(0, LONGEST_CODE);
        }
        let [code, tlb_miss, locked, ref blocked @ ..] = masks[..] else {
            bail!("{name} reads too few fields");
        };
        let (data_blocked, address_blocked) = match *blocked {
            [] => (0, 0),
            [data] => (data, 0),
            [data, address] => (data, address),
            _ => bail!("{name} reads too many fields"),
        };
        Ok(Self {
            code: if body.contains("__grt_latency_data(") {
                code & CODE_OF_SMALL_CORES
            } else {
                code
            },
            tlb_miss,
            locked,
            data_blocked,
            address_blocked,
        })
    }
}

/// Returns the bits of a field of `union intel_x86_pebs_dse`.
fn record_field(linux: &Source, name: &str) -> Result<u64> {
    let body = linux.body("union intel_x86_pebs_dse")?;
    for fields in body.split("struct{").skip(1) {
        let mut position = 0;
        let members = fields.split(';').map_while(|member| member.split_once(':'));
        for (declaration, width) in members {
            let width = number(width)?;
            if declaration.strip_prefix("unsignedint") == Some(name) {
                return Ok(((1 << width) - 1) << position);
            }
            position += width;
        }
    }
    bail!("records have no field {name}")
}
