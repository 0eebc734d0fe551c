// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The access to memory that the instruction of a precise sample made: the address of the data, the latency, and where the
//! data came from (PERF_SAMPLE_ADDR, WEIGHT, DATA_SRC).
//!
//! The processor's record has a code for the source of the data, whose meaning depends on the core; samples have the
//! bits of `union perf_mem_data_src`, as in Linux perf (`arch/x86/events/intel/ds.c`). Intel SDM, volume 3B, sections
//! 21.3.4.4.2 and 21.9.2.2.2.

use super::event_attr::{
    PERF_SAMPLE_ADDR, PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_WEIGHT, PERF_SAMPLE_WEIGHT_STRUCT,
};
use super::sample_format::SampleFormat;

/// The parts of samples that describe the access to memory.
pub const MEMORY_PARTS: u64 =
    PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_DATA_SRC;

/// The fields of `union perf_mem_data_src` (`PERF_MEM_*` of `<linux/perf_event.h>`).
#[allow(missing_docs, reason = "the header describes them")]
pub mod data_source {
    pub const OP_NA: u64 = 0x1;
    pub const OP_LOAD: u64 = 0x2;
    pub const OP_STORE: u64 = 0x4;
    /// The bits of the kind of access.
    pub const OP: u64 = 0x1f;

    pub const LVL_NA: u64 = 0x1 << 5;
    pub const LVL_HIT: u64 = 0x2 << 5;
    pub const LVL_MISS: u64 = 0x4 << 5;
    pub const LVL_L1: u64 = 0x8 << 5;
    pub const LVL_LFB: u64 = 0x10 << 5;
    pub const LVL_L2: u64 = 0x20 << 5;
    pub const LVL_L3: u64 = 0x40 << 5;
    pub const LVL_LOC_RAM: u64 = 0x80 << 5;
    pub const LVL_REM_RAM1: u64 = 0x100 << 5;
    pub const LVL_REM_CCE1: u64 = 0x400 << 5;
    pub const LVL_IO: u64 = 0x1000 << 5;
    pub const LVL_UNC: u64 = 0x2000 << 5;
    /// The bits of the level.
    pub const LVL: u64 = 0x3fff << 5;

    pub const SNOOP_NA: u64 = 0x1 << 19;
    pub const SNOOP_NONE: u64 = 0x2 << 19;
    pub const SNOOP_HIT: u64 = 0x4 << 19;
    pub const SNOOP_MISS: u64 = 0x8 << 19;
    pub const SNOOP_HITM: u64 = 0x10 << 19;

    pub const LOCK_NA: u64 = 0x1 << 24;
    pub const LOCK_LOCKED: u64 = 0x2 << 24;

    pub const TLB_NA: u64 = 0x1 << 26;
    pub const TLB_HIT: u64 = 0x2 << 26;
    pub const TLB_MISS: u64 = 0x4 << 26;
    pub const TLB_L1: u64 = 0x8 << 26;
    pub const TLB_L2: u64 = 0x10 << 26;

    pub const LVLNUM_L1: u64 = 0x1 << 33;
    pub const LVLNUM_L2: u64 = 0x2 << 33;
    pub const LVLNUM_L3: u64 = 0x3 << 33;
    pub const LVLNUM_L2_MHB: u64 = 0x5 << 33;
    pub const LVLNUM_MSC: u64 = 0x6 << 33;
    pub const LVLNUM_ANY_CACHE: u64 = 0xb << 33;
    pub const LVLNUM_LFB: u64 = 0xc << 33;
    pub const LVLNUM_RAM: u64 = 0xd << 33;
    pub const LVLNUM_NA: u64 = 0xf << 33;

    pub const REMOTE: u64 = 0x1 << 37;

    pub const SNOOPX_FWD: u64 = 0x1 << 38;

    pub const BLK_NA: u64 = 0x1 << 40;
    pub const BLK_DATA: u64 = 0x2 << 40;
    pub const BLK_ADDR: u64 = 0x4 << 40;

    /// No field is known (`PERF_MEM_NA`).
    pub const NOT_AVAILABLE: u64 = OP_NA | LVL_NA | SNOOP_NA | LOCK_NA | TLB_NA | LVLNUM_NA;
}

use self::data_source::{
    BLK_ADDR, BLK_DATA, BLK_NA, LOCK_LOCKED, LVL, LVLNUM_NA, LVL_HIT, LVL_L1, LVL_MISS,
    NOT_AVAILABLE, OP, OP_LOAD, OP_NA, OP_STORE, SNOOP_NA, TLB_HIT, TLB_L1, TLB_L2, TLB_MISS,
};

/// The part of a processor's record that describes the access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedAccess {
    /// The linear address of the data; 0 if the event has none.
    pub address: u64,
    /// The code of the source of the data, and flags. [`Source`] has their meaning.
    pub source: u64,
    /// The latencies in cycles, as [`Latency`] describes them.
    pub latency: u64,
    /// The transaction that the instruction has aborted, if it has aborted one: bits 31:0 are its cycles.
    pub transaction: u64,
    /// The cycles from the retirement of the previous instruction to the retirement of this
    /// instruction, if the processor records them ([`AccessFormat::has_retire_latency`]).
    pub retire_latency: u16,
}

impl RecordedAccess {
    /// No access.
    pub const NONE: Self = Self {
        address: 0,
        source: 0,
        latency: 0,
        transaction: 0,
        retire_latency: 0,
    };
}

/// The meaning of the source of data in the records of an event, as bits of `union perf_mem_data_src`.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// The meaning of each value of the source's lowest byte, which has the code.
    bytes: &'static ByteMeanings,
    /// The position of the lowest flag. The flags are bits beside the code.
    flags_shift: u32,
    /// The meaning of each combination of the flags, with the kind of access.
    flags: FlagMeanings,
}

/// The bits of `union perf_mem_data_src` for each value of a source's lowest byte.
pub type ByteMeanings = [u64; 256];

/// The bits of `union perf_mem_data_src` for each combination of flags.
type FlagMeanings = [u64; 16];

/// Returns the meaning of each value of a source's lowest byte, whose bits in `code_mask` are the code. `sources` has the
/// level and the snoop bits of each code. Higher codes are reserved.
#[inline(always)]
#[must_use]
pub const fn meanings_of_bytes(sources: &[u64], code_mask: usize) -> ByteMeanings {
    let mut meanings = [RESERVED; 256];
    let mut byte = 0;
    while byte < meanings.len() {
        let code = byte & code_mask;
        if code < sources.len() {
            meanings[byte] = sources[code];
        }
        byte += 1;
    }
    meanings
}

/// The level and the snoop bits of a reserved code.
pub const RESERVED: u64 = LVLNUM_NA | SNOOP_NA;

/// The flags of a source: the bits beside its code. The mask of a flag that the core lacks is 0.
#[derive(Clone, Copy)]
pub struct SourceFlags {
    /// The position of the lowest flag.
    pub shift: u32,
    /// The mask of the flag that is set if the address was not in the TLB of the second level.
    pub tlb_miss: u64,
    /// The mask of the flag of a locked instruction.
    pub locked: u64,
    /// The mask of the flag that is set if the data could not be forwarded from a store.
    pub data_blocked: u64,
    /// The mask of the flag that is set if the address seemed to be the address of an earlier
    /// store.
    pub address_blocked: u64,
}

impl SourceFlags {
    /// Returns the meaning of each combination of the flags. `op` is the kind of access.
    const fn meanings(self, op: u64) -> FlagMeanings {
        let mut meanings = [op; 16];
        let mut combination = 0;
        while combination < meanings.len() {
            let bits = (combination as u64) << self.shift;
            meanings[combination] |= if bits & self.tlb_miss != 0 {
                TLB_MISS | TLB_L2
            } else {
                TLB_HIT | TLB_L1 | TLB_L2
            };
            if bits & self.locked != 0 {
                meanings[combination] |= LOCK_LOCKED;
            }
            meanings[combination] |= match (bits & self.data_blocked, bits & self.address_blocked) {
                (0, 0) => BLK_NA,
                (_, 0) => BLK_DATA,
                (0, _) => BLK_ADDR,
                _ => BLK_DATA | BLK_ADDR,
            };
            combination += 1;
        }
        meanings
    }
}

impl Source {
    /// The source of events whose records do not have the source of the data.
    pub const UNKNOWN: &'static Self = &Self::without_flags(&[NOT_AVAILABLE & !OP; 256], OP_NA);

    /// The source of loads whose records have no other information.
    pub const LOAD: &'static Self = &Self::without_flags(&[NOT_AVAILABLE & !OP; 256], OP_LOAD);

    /// The source of stores whose records show only whether the store hit the L1 cache.
    pub const STORE: &'static Self = &Self::without_flags(
        &meanings_of_bytes(
            &[
                NOT_AVAILABLE & !(OP | LVL) | LVL_L1 | LVL_MISS,
                NOT_AVAILABLE & !(OP | LVL) | LVL_L1 | LVL_HIT,
            ],
            1,
        ),
        OP_STORE,
    );

    const fn without_flags(bytes: &'static ByteMeanings, op: u64) -> Self {
        Self {
            bytes,
            flags_shift: 0,
            flags: [op; 16],
        }
    }

    /// Returns the source of loads whose records have a code.
    #[must_use]
    pub const fn of_loads(bytes: &'static ByteMeanings, flags: SourceFlags) -> Self {
        Self {
            bytes,
            flags_shift: flags.shift,
            flags: flags.meanings(OP_LOAD),
        }
    }

    /// Returns the source of stores whose records have a code.
    #[must_use]
    pub const fn of_stores(bytes: &'static ByteMeanings, flags: SourceFlags) -> Self {
        Self {
            bytes,
            flags_shift: flags.shift,
            flags: flags.meanings(OP_STORE),
        }
    }
}

/// The latency in the records of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Records have no latency.
    None,
    /// The latency of the access alone.
    Access,
    /// The latency of the instruction in bits 15:0, and the latency of the access in bits 47:32.
    InstructionAndAccess,
}

/// The form of a record's access to memory, which depends on the core and on the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessFormat {
    /// The source of the data.
    pub source: &'static Source,
    /// The latencies that the records have.
    pub latency: Latency,
    /// Records have the retire latency.
    pub has_retire_latency: bool,
    /// The event counts only loads with a latency of at least `MSR_PEBS_LD_LAT_THRESHOLD`.
    pub has_threshold: bool,
}

/// The words of a sample that describe the access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessWords {
    /// PERF_SAMPLE_ADDR
    pub address: u64,
    /// PERF_SAMPLE_WEIGHT or PERF_SAMPLE_WEIGHT_STRUCT
    pub weight: u64,
    /// PERF_SAMPLE_DATA_SRC
    pub source: u64,
}

impl AccessWords {
    /// The words of a sample whose access is not known, such as a sample that is not precise.
    pub const NONE: Self = Self {
        address: 0,
        weight: 0,
        source: NOT_AVAILABLE,
    };
}

impl AccessFormat {
    /// The form of records that have only the address of the data.
    pub const NONE: Self = Self {
        source: Source::UNKNOWN,
        latency: Latency::None,
        has_retire_latency: false,
        has_threshold: false,
    };

    /// Returns the parts that both formats have, for an event that several kinds of cores count.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        let (source, latency) = (self.source, self.latency);
        Self {
            source: if source == other.source {
                source
            } else {
                Source::UNKNOWN
            },
            latency: if latency == other.latency {
                latency
            } else {
                Latency::None
            },
            has_retire_latency: self.has_retire_latency && other.has_retire_latency,
            has_threshold: self.has_threshold && other.has_threshold,
        }
    }

    /// Returns the reader of records in this form, for samples with the parts of `format`.
    #[must_use]
    pub const fn reader(self, format: SampleFormat) -> AccessReader {
        let (is_struct, is_split) = (
            format.has(PERF_SAMPLE_WEIGHT_STRUCT),
            matches!(self.latency, Latency::InstructionAndAccess),
        );
        AccessReader {
            bytes: self.source.bytes,
            flags: &self.source.flags,
            flags_shift: self.source.flags_shift,
            latency_shift: if is_split { 32 } else { 0 },
            latency_mask: match self.latency {
                Latency::None => 0,
                Latency::Access if is_struct => 0xffff_ffff,
                Latency::Access => u64::MAX,
                Latency::InstructionAndAccess => 0xffff,
            },
            instruction_mask: if is_struct && is_split { 0xffff } else { 0 },
            retire_mask: if is_struct && self.has_retire_latency {
                0xffff
            } else {
                0
            },
        }
    }
}

/// Converts the access to memory in the processor's records to words of samples. The masks are computed once for all records
/// of an event, so that the conversion of each record is short.
#[derive(Clone, Copy, Debug)]
pub struct AccessReader {
    /// The value of [`Source::bytes`].
    bytes: &'static ByteMeanings,
    /// The value of [`Source::flags`].
    flags: &'static FlagMeanings,
    /// The value of [`Source::flags_shift`].
    flags_shift: u32,
    /// The position of the latency of the access in the record's latency.
    latency_shift: u32,
    /// The mask of the latency of the access after the shift; 0 if records have no latency.
    latency_mask: u64,
    /// The mask of the latency of the instruction; 0 if samples lack this latency.
    instruction_mask: u64,
    /// The mask of the retire latency; 0 if samples lack this latency.
    retire_mask: u64,
}

impl AccessReader {
    /// Returns the words for the sample of a record.
    #[inline(always)]
    #[must_use]
    pub fn words(&self, recorded: &RecordedAccess) -> AccessWords {
        AccessWords {
            address: recorded.address,
            weight: self.weight(recorded),
            source: self.source(recorded),
        }
    }

    /// Returns PERF_SAMPLE_DATA_SRC.
    #[inline(always)]
    #[must_use]
    pub fn source(&self, recorded: &RecordedAccess) -> u64 {
        let flags = recorded.source.wrapping_shr(self.flags_shift) as usize % self.flags.len();
        self.bytes[recorded.source as u8 as usize] | self.flags[flags]
    }

    /// Returns PERF_SAMPLE_WEIGHT: the latency of the access in cycles or, if that is 0, the cycles of an aborted
    /// transaction. In PERF_SAMPLE_WEIGHT_STRUCT, bits 47:32 are the latency of the instruction, and bits 63:48 the retire
    /// latency.
    #[inline(always)]
    #[must_use]
    pub fn weight(&self, recorded: &RecordedAccess) -> u64 {
        let latency = recorded.latency.wrapping_shr(self.latency_shift) & self.latency_mask;
        latency_or_transaction(latency, recorded)
            | (recorded.latency & self.instruction_mask) << 32
            | (u64::from(recorded.retire_latency) & self.retire_mask) << 48
    }

    /// Returns whether the weight has no other parts than the latency of the access: [`Self::latency`] is the weight then.
    #[must_use]
    pub const fn is_latency_only(&self) -> bool {
        self.latency_shift == 0 && self.instruction_mask == 0 && self.retire_mask == 0
    }

    /// Returns [`Self::weight`], faster. Call it only if [`Self::is_latency_only`] is true.
    #[inline(always)]
    #[must_use]
    pub fn latency(&self, recorded: &RecordedAccess) -> u64 {
        latency_or_transaction(recorded.latency & self.latency_mask, recorded)
    }
}

/// Returns `latency` or, if that is 0, the cycles of an aborted transaction.
#[inline(always)]
fn latency_or_transaction(latency: u64, recorded: &RecordedAccess) -> u64 {
    match latency {
        0 => recorded.transaction & 0xffff_ffff,
        latency => latency,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_memory_access))]
mod tests {
    use super::super::cores::Core;
    use super::super::cpuid::Microarchitecture::{
        self, Crestmont, GoldenCove, Gracemont, IceLake, LionCove, RedwoodCove, Skylake,
    };
    use super::super::evtsel::EventSelect;
    use super::data_source::*;
    use super::*;

    const SLOW_LOADS: u64 = 0x01cd;
    const SAMPLED_STORES: u64 = 0x02cd;
    const SLOW_LOADS_OF_SMALL_CORES: u64 = 0x05d0;
    const STORES_OF_SMALL_CORES: u64 = 0x06d0;

    /// Returns the bits of `union perf_mem_data_src` for a record of an event; `None` if the event has no source.
    fn decoded(core: Microarchitecture, event: u64, source: u64) -> Option<u64> {
        let core = Core::for_microarchitecture(core);
        let memory = core.memory_event(EventSelect::from_bits(event))?;
        let format = AccessFormat {
            source: memory.source?,
            ..AccessFormat::NONE
        };
        Some(source_word(format, source))
    }

    fn source_word(format: AccessFormat, source: u64) -> u64 {
        let recorded = RecordedAccess {
            source,
            ..RecordedAccess::NONE
        };
        let parts = SampleFormat::new(PERF_SAMPLE_DATA_SRC, false, true);
        parts.map_or(0, |parts| format.reader(parts).source(&recorded))
    }

    /// A hit in the L1 cache and in the TLB.
    const L1_HIT: u64 = LVL_HIT | LVL_L1 | LVLNUM_L1 | SNOOP_NONE | TLB_HIT | TLB_L1 | TLB_L2;

    #[test]
    fn not_available_is_linuxs_value() {
        assert_eq!(NOT_AVAILABLE, 0x1e_0508_0021);
        assert_eq!(source_word(AccessFormat::NONE, 1), NOT_AVAILABLE);
    }

    #[test]
    fn codes_of_slow_loads_mean_sources() {
        assert_eq!(decoded(Skylake, SLOW_LOADS, 1), Some(0x102_6810_0142));
        assert_eq!(decoded(RedwoodCove, SLOW_LOADS, 1), Some(0x102_6810_0142));
        assert_eq!(decoded(LionCove, SLOW_LOADS, 1), Some(0x102_6810_0142));
        let remote_ram = LVL_HIT | LVLNUM_RAM | REMOTE | SNOOP_NONE;
        let remote_load = OP_LOAD | remote_ram | TLB_HIT | TLB_L1 | TLB_L2 | BLK_NA;
        assert_eq!(decoded(IceLake, SLOW_LOADS, 0xb), Some(remote_load));
        let ram = LVL_HIT | LVL_LOC_RAM | LVLNUM_RAM | SNOOP_NONE;
        let load = OP_LOAD | ram | TLB_HIT | TLB_L1 | TLB_L2 | BLK_NA;
        assert_eq!(decoded(LionCove, SLOW_LOADS, 0x11), Some(load));
        assert_eq!(decoded(GoldenCove, SLOW_LOADS, 1), None);
    }

    #[test]
    fn reserved_codes_have_no_source() {
        let unknown = LVLNUM_NA | SNOOP_NA | TLB_HIT | TLB_L1 | TLB_L2 | BLK_NA;
        for code in [0x04, 0x12, 0xff] {
            assert_eq!(decoded(LionCove, SLOW_LOADS, code), Some(OP_LOAD | unknown));
        }
    }

    #[test]
    fn bits_beside_the_code_depend_on_the_core() {
        let load = OP_LOAD | LVL_HIT | LVL_L1 | LVLNUM_L1 | SNOOP_NONE;
        let tlb_hit = TLB_HIT | TLB_L1 | TLB_L2;
        let locked_miss = load | TLB_MISS | TLB_L2 | LOCK_LOCKED;
        let locked_hit = load | tlb_hit | LOCK_LOCKED;
        let blocked = load | tlb_hit | BLK_DATA | BLK_ADDR;
        let decoded_load = |core, source| decoded(core, SLOW_LOADS, source);
        let decoded_small = |core, source| decoded(core, SLOW_LOADS_OF_SMALL_CORES, source);
        assert_eq!(decoded_load(Skylake, 0x31), Some(locked_miss | BLK_NA));
        assert_eq!(decoded_load(Skylake, 0xc1), Some(load | tlb_hit | BLK_NA));
        assert_eq!(decoded_load(RedwoodCove, 0xc1), Some(blocked));
        assert_eq!(decoded_load(LionCove, 0xc01), Some(locked_miss | BLK_NA));
        assert_eq!(decoded_load(LionCove, 0x3001), Some(blocked));
        assert_eq!(decoded_small(Gracemont, 0x11), Some(locked_hit | BLK_NA));
        assert_eq!(decoded_small(Crestmont, 0x21), Some(locked_hit | BLK_NA));
        assert_eq!(decoded_small(Crestmont, 0x61), Some(locked_miss | BLK_NA));
        assert_eq!(
            decoded_small(Crestmont, 0x81),
            Some(load | tlb_hit | BLK_DATA)
        );
    }

    #[test]
    fn records_of_stores_show_hits_in_the_l1_cache() {
        let store = NOT_AVAILABLE & !(OP | LVL) | OP_STORE | LVL_L1;
        assert_eq!(decoded(Skylake, 0x82d0, 1), Some(store | LVL_HIT));
        assert_eq!(decoded(Skylake, 0x82d0, 0), Some(store | LVL_MISS));
        assert_eq!(decoded(IceLake, 0x22d0, 1), None);
        let l1_hit = OP_STORE | L1_HIT | BLK_NA;
        assert_eq!(decoded(GoldenCove, SAMPLED_STORES, 0xc1), Some(l1_hit));
        assert_eq!(decoded(Gracemont, STORES_OF_SMALL_CORES, 1), Some(l1_hit));
    }

    #[test]
    fn loads_have_no_source() {
        let load = NOT_AVAILABLE & !OP | OP_LOAD;
        assert_eq!(decoded(Skylake, 0x81d0, 1), Some(load));
        assert_eq!(decoded(Skylake, 0x08d1, 1), Some(load));
        assert_eq!(decoded(IceLake, 0x04d4, 1), Some(load));
        assert_eq!(decoded(Skylake, 0x04d4, 1), None);
    }

    #[test]
    fn kinds_of_cores_have_formats_in_common() {
        let big = AccessFormat {
            source: Source::LOAD,
            latency: Latency::InstructionAndAccess,
            has_retire_latency: true,
            ..AccessFormat::NONE
        };
        let small = AccessFormat {
            source: Source::UNKNOWN,
            has_retire_latency: false,
            ..big
        };
        assert_eq!(big.intersection(big), big);
        assert_eq!(big.intersection(small), small);
        assert_eq!(big.intersection(AccessFormat::NONE), AccessFormat::NONE);
    }

    /// Returns the PERF_SAMPLE_WEIGHT and the PERF_SAMPLE_WEIGHT_STRUCT of a record.
    fn weights(format: AccessFormat, recorded: &RecordedAccess) -> [u64; 2] {
        [PERF_SAMPLE_WEIGHT, PERF_SAMPLE_WEIGHT_STRUCT].map(|part| {
            let parts = SampleFormat::new(part, false, true);
            parts.map_or(0, |parts| format.reader(parts).words(recorded).weight)
        })
    }

    #[test]
    fn weights_have_the_latencies() {
        let recorded = RecordedAccess {
            latency: 0x0003_0000_0005,
            ..RecordedAccess::NONE
        };
        let with_latency = |latency| AccessFormat {
            latency,
            ..AccessFormat::NONE
        };
        assert_eq!(weights(with_latency(Latency::None), &recorded), [0, 0]);
        assert_eq!(
            weights(with_latency(Latency::Access), &recorded),
            [0x0003_0000_0005, 5]
        );
        assert_eq!(
            weights(with_latency(Latency::InstructionAndAccess), &recorded),
            [3, 0x0005_0000_0003]
        );
        let aborted = RecordedAccess {
            transaction: 0x0010_0000_0007,
            retire_latency: 9,
            ..RecordedAccess::NONE
        };
        assert_eq!(weights(AccessFormat::NONE, &aborted), [7, 7]);
        let with_retire_latency = AccessFormat {
            has_retire_latency: true,
            ..AccessFormat::NONE
        };
        assert_eq!(weights(with_retire_latency, &aborted), [7, 9 << 48 | 7]);
    }
}
