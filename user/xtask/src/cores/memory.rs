// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the access to memory in precise samples: the events whose samples have an access, the
//! form of the latency, and the source of the data, for each code and each bit beside the code.

use anyhow::Result;
use perfmon_core::logic::core_kinds::CoreKinds;
use perfmon_core::logic::cpuid::{Architecture, Capabilities, Microarchitecture};
use perfmon_core::logic::event_attr::PERF_SAMPLE_DATA_SRC;
use perfmon_core::logic::event_config::EventConfig;
use perfmon_core::logic::memory_access::data_source::{
    BLK_ADDR, BLK_DATA, BLK_NA, LOCK_LOCKED, LVL, LVL_HIT, LVL_L1, LVL_MISS, LVLNUM_NA,
    NOT_AVAILABLE, OP, OP_LOAD, OP_STORE, SNOOP_NA, TLB_HIT, TLB_L1, TLB_L2, TLB_MISS,
};
use perfmon_core::logic::memory_access::{
    AccessFormat, Latency, RecordedAccess, Source as ModuleSource,
};
use perfmon_core::logic::pebs::PebsFormat;
use perfmon_core::logic::sample_format::SampleFormat;

use super::differences::CoreDifferences;
use super::full_pmu::{capabilities, precise_attr, precise_format};
use super::memory_tables::{Access, Decoder, MemoryEvent, RecordBits};
use super::setup::Setup;
use super::source::Source;

/// Exceptions: events for which the module, unlike Linux, shows no source of the data. Golden
/// Cove's records of slow loads have a source only while another counter counts event 0x8203. With
/// Linux, the tool perf opens that event in addition; the module refuses `PERF_SAMPLE_DATA_SRC`
/// instead.
const EVENTS_WITHOUT_SOURCE: [(Microarchitecture, u64); 1] =
    [(Microarchitecture::GoldenCove, 0x01cd)];

/// The event of instructions, which has no access to memory.
const INSTRUCTIONS: u64 = 0xc0;

/// The bits of a record's source that are compared.
const RECORD_WIDTH: u32 = 16;

/// Compares the access to memory of all events, on cores that have a format of records which the module reads.
pub(super) fn compare_memory(
    linux: &Source,
    core: Microarchitecture,
    setup: &Setup,
    differences: &mut CoreDifferences<'_>,
) -> Result<()> {
    let Some(format) = precise_format(core) else {
        return Ok(());
    };
    let capabilities = Capabilities {
        microarchitecture: core,
        pebs: Some(format),
        ..capabilities(Architecture::Intel)
    };
    let kinds = CoreKinds::one(&capabilities);
    let sample_format = SampleFormat::new(PERF_SAMPLE_DATA_SRC, false, true)
        .expect("samples can have the source of the data");
    for event in 0..=0xffff {
        let memory_event = setup.memory_event(event);
        let config = EventConfig::new(&precise_attr(event), &capabilities, &kinds);
        let access = config.map(|config| config.sampling.access);
        if memory_event.is_none()
            && event != INSTRUCTIONS
            && access.map_or(true, lacks_source_and_threshold)
        {
            continue;
        }
        let name = format!("memory access of event {event:#06x}");
        let Ok(access) = access else {
            differences.compare(&name, &None, &memory_event);
            continue;
        };
        let has_threshold = memory_event.is_some_and(MemoryEvent::has_threshold);
        differences.compare(
            &format!("threshold in the {name}"),
            &access.has_threshold,
            &has_threshold,
        );
        // Other events have the same latency as instructions.
        if has_threshold || event == INSTRUCTIONS {
            let latency = match format {
                PebsFormat::Three if !has_threshold => Latency::None,
                _ if setup.memory.has_instruction_latency => Latency::InstructionAndAccess,
                _ => Latency::Access,
            };
            differences.compare(&format!("latency in the {name}"), &access.latency, &latency);
        }
        let source = if EVENTS_WITHOUT_SOURCE.contains(&(core, event)) {
            LinuxSource::Unknown
        } else {
            LinuxSource::new(linux, memory_event, setup)?
        };
        let decode_both = |record| {
            let recorded_access = RecordedAccess {
                source: record,
                ..RecordedAccess::NONE
            };
            let ours = access.reader(sample_format).words(&recorded_access).source;
            (ours, source.decode(record))
        };
        let (ours, linux) = decode_both(0);
        if ours & OP != linux & OP {
            differences.compare(&format!("kind of the {name}"), &(ours & OP), &(linux & OP));
            continue;
        }
        for record in source.records() {
            let (ours, linux) = decode_both(record);
            differences.compare(&format!("source {record:#x} in the {name}"), &ours, &linux);
        }
    }
    Ok(())
}

/// Returns whether the records of an event have neither a source of the data nor a threshold.
fn lacks_source_and_threshold(access: AccessFormat) -> bool {
    access.source == ModuleSource::UNKNOWN && !access.has_threshold
}

/// The form of the source of the data in the records of an event, as Linux decodes it.
enum LinuxSource<'a> {
    /// The record does not tell the source.
    Unknown,
    /// The record of a store tells whether it has hit the L1 cache.
    L1Hit(Access),
    /// The record has a code, and bits beside the code.
    Code(Access, RecordBits, &'a [u64]),
}

impl<'a> LinuxSource<'a> {
    fn new(linux: &Source, event: Option<MemoryEvent>, setup: &'a Setup) -> Result<Self> {
        let Some(MemoryEvent { access, decoder }) = event else {
            return Ok(Self::Unknown);
        };
        let function = match (decoder, access) {
            (Decoder::L1Hit, _) => return Ok(Self::L1Hit(access)),
            (Decoder::Latency, Access::Load) => "load_latency_data",
            (Decoder::Latency, Access::Store) => "store_latency_data",
            (Decoder::HybridLatency, _) => &setup.memory.latency_function,
        };
        let mut bits = RecordBits::of_function(linux, function)?;
        if decoder == Decoder::Latency && !setup.memory.has_blocks {
            bits.data_blocked = 0;
            bits.address_blocked = 0;
        }
        Ok(Self::Code(access, bits, &setup.memory.sources))
    }

    /// Returns the records to compare: each code; code 1 together with each one of the other bits; and all bits set.
    fn records(&self) -> impl Iterator<Item = u64> {
        let codes = match self {
            Self::Unknown => 0,
            Self::L1Hit(_) => 1,
            Self::Code(_, bits, _) => bits.code,
        };
        let bits = (0..RECORD_WIDTH).map(|bit| 1 << bit);
        let bits_beside = bits.filter(move |bit| codes & bit == 0);
        (0..=codes)
            .chain(bits_beside.map(|bit| bit | 1))
            .chain([(1 << RECORD_WIDTH) - 1])
    }

    /// Returns the bits of `union perf_mem_data_src` for the source in a record, as Linux's function returns them.
    fn decode(&self, record: u64) -> u64 {
        match self {
            Self::Unknown => NOT_AVAILABLE,
            Self::L1Hit(Access::Load) => NOT_AVAILABLE & !OP | OP_LOAD,
            Self::L1Hit(Access::Store) => {
                let result = if record & 1 == 0 { LVL_MISS } else { LVL_HIT };
                NOT_AVAILABLE & !OP & !LVL | OP_STORE | LVL_L1 | result
            }
            Self::Code(access, bits, sources) => {
                let op = match access {
                    Access::Load => OP_LOAD,
                    Access::Store => OP_STORE,
                };
                // The table has 0 for unknown codes.
                let code = usize::try_from(record & bits.code);
                let source = match code.map_or(0, |code| sources[code]) {
                    0 => LVLNUM_NA | SNOOP_NA,
                    source => source & !OP,
                };
                let is_set = |bit| record & bit != 0;
                let tlb = if is_set(bits.tlb_miss) {
                    TLB_MISS | TLB_L2
                } else {
                    TLB_HIT | TLB_L1 | TLB_L2
                };
                let lock = if is_set(bits.locked) { LOCK_LOCKED } else { 0 };
                let blocked = match (is_set(bits.data_blocked), is_set(bits.address_blocked)) {
                    (false, false) => BLK_NA,
                    (true, false) => BLK_DATA,
                    (false, true) => BLK_ADDR,
                    (true, true) => BLK_DATA | BLK_ADDR,
                };
                op | source | tlb | lock | blocked
            }
        }
    }
}
