// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `struct perf_event_attr` of `<linux/perf_event.h>` (Linux 7.3), and the rules that hold for each event.
//!
//! The constants have the names of that header. The bits of the bit field have the names of its members.

/// The reason why an event is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidAttr {
    /// A member has a value without a meaning: `EINVAL`.
    Invalid,
    /// Linux perf can do this, but events of this module can't: `EOPNOTSUPP`.
    Unsupported,
    /// The CPUs of this machine can't count the event: `ENOENT`.
    NoEvent,
    /// The call chain is longer than the limit: `EOVERFLOW`.
    TooDeep,
}

/// `struct perf_event_attr`, with the members of unions named for events of hardware.
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    zerocopy_derive::FromBytes,
    zerocopy_derive::IntoBytes,
    zerocopy_derive::Immutable,
    zerocopy_derive::KnownLayout,
)]
pub struct PerfEventAttr {
    /// `PERF_TYPE_*`
    pub type_: u32,
    /// The size in bytes of the program's version of the structure.
    pub size: u32,
    /// The event, depending on the type.
    pub config: u64,
    /// The period, or with [`Self::FREQ`] the frequency.
    pub sample_period: u64,
    /// `PERF_SAMPLE_*`
    pub sample_type: u64,
    /// `PERF_FORMAT_*`
    pub read_format: u64,
    /// The bit field.
    pub flags: u64,
    /// The number of samples before a wake-up; with [`Self::WATERMARK`] the number of bytes.
    pub wakeup_events: u32,
    /// The type of a breakpoint.
    pub bp_type: u32,
    /// A value for a register besides the event select.
    pub config1: u64,
    /// A value for a register besides the event select.
    pub config2: u64,
    /// `PERF_SAMPLE_BRANCH_*`
    pub branch_sample_type: u64,
    /// The registers of the program in samples, as a mask.
    pub sample_regs_user: u64,
    /// The number of bytes of the program's stack in samples.
    pub sample_stack_user: u32,
    /// The clock of samples, with [`Self::USE_CLOCKID`].
    pub clockid: i32,
    /// The registers at the interrupt in samples, as a mask.
    pub sample_regs_intr: u64,
    /// The number of bytes of the AUX area before a wake-up.
    pub aux_watermark: u32,
    /// The largest number of addresses in a call chain.
    pub sample_max_stack: u16,
    /// Must be 0.
    pub reserved_2: u16,
    /// The number of bytes of the AUX area in samples.
    pub aux_sample_size: u32,
    /// The action on the AUX area.
    pub aux_action: u32,
    /// The data of SIGTRAP, with [`Self::SIGTRAP`].
    pub sig_data: u64,
    /// A value for a register besides the event select.
    pub config3: u64,
    /// A value for a register besides the event select.
    pub config4: u64,
}

/// Types of events: `enum perf_type_id`.
pub const PERF_TYPE_HARDWARE: u32 = 0;
#[allow(missing_docs)]
pub const PERF_TYPE_SOFTWARE: u32 = 1;
#[allow(missing_docs)]
pub const PERF_TYPE_TRACEPOINT: u32 = 2;
#[allow(missing_docs)]
pub const PERF_TYPE_HW_CACHE: u32 = 3;
#[allow(missing_docs)]
pub const PERF_TYPE_RAW: u32 = 4;

/// The position of the PMU's type in `config`, bits 63:32. With [`PERF_TYPE_RAW`], all bits of `config` are the event.
pub const PERF_PMU_TYPE_SHIFT: u32 = 32;

/// `config` of [`PERF_TYPE_HARDWARE`]: `enum perf_hw_id`.
#[allow(missing_docs)]
mod hardware {
    pub const PERF_COUNT_HW_CPU_CYCLES: u32 = 0;
    pub const PERF_COUNT_HW_INSTRUCTIONS: u32 = 1;
    pub const PERF_COUNT_HW_CACHE_REFERENCES: u32 = 2;
    pub const PERF_COUNT_HW_CACHE_MISSES: u32 = 3;
    pub const PERF_COUNT_HW_BRANCH_INSTRUCTIONS: u32 = 4;
    pub const PERF_COUNT_HW_BRANCH_MISSES: u32 = 5;
    pub const PERF_COUNT_HW_BUS_CYCLES: u32 = 6;
    pub const PERF_COUNT_HW_STALLED_CYCLES_FRONTEND: u32 = 7;
    pub const PERF_COUNT_HW_STALLED_CYCLES_BACKEND: u32 = 8;
    pub const PERF_COUNT_HW_REF_CPU_CYCLES: u32 = 9;
}
pub use hardware::*;

/// `config` of [`PERF_TYPE_SOFTWARE`]: `enum perf_sw_ids`.
#[allow(missing_docs)]
mod software {
    pub const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
    pub const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;
    pub const PERF_COUNT_SW_PAGE_FAULTS: u64 = 2;
    pub const PERF_COUNT_SW_CONTEXT_SWITCHES: u64 = 3;
    pub const PERF_COUNT_SW_CPU_MIGRATIONS: u64 = 4;
    pub const PERF_COUNT_SW_PAGE_FAULTS_MIN: u64 = 5;
    pub const PERF_COUNT_SW_PAGE_FAULTS_MAJ: u64 = 6;
    pub const PERF_COUNT_SW_DUMMY: u64 = 9;
}
pub use software::*;

/// Bits of `sample_type` that the module tests: `enum perf_event_sample_format`.
#[allow(missing_docs)]
mod sample {
    pub const PERF_SAMPLE_IP: u64 = 1 << 0;
    pub const PERF_SAMPLE_TID: u64 = 1 << 1;
    pub const PERF_SAMPLE_TIME: u64 = 1 << 2;
    pub const PERF_SAMPLE_ADDR: u64 = 1 << 3;
    pub const PERF_SAMPLE_READ: u64 = 1 << 4;
    pub const PERF_SAMPLE_CALLCHAIN: u64 = 1 << 5;
    pub const PERF_SAMPLE_ID: u64 = 1 << 6;
    pub const PERF_SAMPLE_CPU: u64 = 1 << 7;
    pub const PERF_SAMPLE_PERIOD: u64 = 1 << 8;
    pub const PERF_SAMPLE_STREAM_ID: u64 = 1 << 9;
    pub const PERF_SAMPLE_RAW: u64 = 1 << 10;
    pub const PERF_SAMPLE_BRANCH_STACK: u64 = 1 << 11;
    pub const PERF_SAMPLE_REGS_USER: u64 = 1 << 12;
    pub const PERF_SAMPLE_STACK_USER: u64 = 1 << 13;
    pub const PERF_SAMPLE_WEIGHT: u64 = 1 << 14;
    pub const PERF_SAMPLE_DATA_SRC: u64 = 1 << 15;
    pub const PERF_SAMPLE_IDENTIFIER: u64 = 1 << 16;
    pub const PERF_SAMPLE_TRANSACTION: u64 = 1 << 17;
    pub const PERF_SAMPLE_REGS_INTR: u64 = 1 << 18;
    pub const PERF_SAMPLE_CGROUP: u64 = 1 << 21;
    pub const PERF_SAMPLE_WEIGHT_STRUCT: u64 = 1 << 24;
    pub const PERF_SAMPLE_MAX: u64 = 1 << 25;

    /// The privilege levels of `branch_sample_type`.
    pub const PERF_SAMPLE_BRANCH_PLM_ALL: u64 = 0b111;
    pub const PERF_SAMPLE_BRANCH_USER: u64 = 1 << 0;
    pub const PERF_SAMPLE_BRANCH_KERNEL: u64 = 1 << 1;
    pub const PERF_SAMPLE_BRANCH_HV: u64 = 1 << 2;
    pub const PERF_SAMPLE_BRANCH_ANY: u64 = 1 << 3;
    pub const PERF_SAMPLE_BRANCH_ANY_CALL: u64 = 1 << 4;
    pub const PERF_SAMPLE_BRANCH_ANY_RETURN: u64 = 1 << 5;
    pub const PERF_SAMPLE_BRANCH_IND_CALL: u64 = 1 << 6;
    pub const PERF_SAMPLE_BRANCH_COND: u64 = 1 << 10;
    pub const PERF_SAMPLE_BRANCH_CALL_STACK: u64 = 1 << 11;
    pub const PERF_SAMPLE_BRANCH_IND_JUMP: u64 = 1 << 12;
    pub const PERF_SAMPLE_BRANCH_CALL: u64 = 1 << 13;
    pub const PERF_SAMPLE_BRANCH_NO_FLAGS: u64 = 1 << 14;
    pub const PERF_SAMPLE_BRANCH_NO_CYCLES: u64 = 1 << 15;
    pub const PERF_SAMPLE_BRANCH_TYPE_SAVE: u64 = 1 << 16;
    pub const PERF_SAMPLE_BRANCH_HW_INDEX: u64 = 1 << 17;
    pub const PERF_SAMPLE_BRANCH_MAX: u64 = 1 << 20;
}
pub use sample::*;

/// Bits of `read_format`: `enum perf_event_read_format`.
#[allow(missing_docs)]
mod format {
    pub const PERF_FORMAT_TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub const PERF_FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub const PERF_FORMAT_ID: u64 = 1 << 2;
    pub const PERF_FORMAT_GROUP: u64 = 1 << 3;
    pub const PERF_FORMAT_LOST: u64 = 1 << 4;
    pub const PERF_FORMAT_MAX: u64 = 1 << 5;
}
pub use format::*;

/// Bits of [`PerfEventAttr::flags`].
#[allow(missing_docs)]
impl PerfEventAttr {
    pub const DISABLED: u64 = 1 << 0;
    pub const INHERIT: u64 = 1 << 1;
    pub const PINNED: u64 = 1 << 2;
    pub const EXCLUSIVE: u64 = 1 << 3;
    pub const EXCLUDE_USER: u64 = 1 << 4;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HV: u64 = 1 << 6;
    pub const EXCLUDE_IDLE: u64 = 1 << 7;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const FREQ: u64 = 1 << 10;
    pub const INHERIT_STAT: u64 = 1 << 11;
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    pub const TASK: u64 = 1 << 13;
    pub const WATERMARK: u64 = 1 << 14;
    /// The lowest level of `precise_ip`.
    pub const PRECISE_LEVEL: u64 = 1 << 15;
    pub const PRECISE_IP: u64 = 0b11 * Self::PRECISE_LEVEL;
    pub const MMAP_DATA: u64 = 1 << 17;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const EXCLUDE_HOST: u64 = 1 << 19;
    pub const EXCLUDE_GUEST: u64 = 1 << 20;
    pub const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
    pub const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    pub const MMAP2: u64 = 1 << 23;
    pub const COMM_EXEC: u64 = 1 << 24;
    pub const USE_CLOCKID: u64 = 1 << 25;
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    pub const WRITE_BACKWARD: u64 = 1 << 27;
    pub const NAMESPACES: u64 = 1 << 28;
    pub const KSYMBOL: u64 = 1 << 29;
    pub const BPF_EVENT: u64 = 1 << 30;
    pub const AUX_OUTPUT: u64 = 1 << 31;
    pub const CGROUP: u64 = 1 << 32;
    pub const TEXT_POKE: u64 = 1 << 33;
    pub const BUILD_ID: u64 = 1 << 34;
    pub const INHERIT_THREAD: u64 = 1 << 35;
    pub const REMOVE_ON_EXEC: u64 = 1 << 36;
    pub const SIGTRAP: u64 = 1 << 37;
    pub const DEFER_CALLCHAIN: u64 = 1 << 38;
    pub const DEFER_OUTPUT: u64 = 1 << 39;
    pub const RESERVED_1: u64 = !0 << 40;
}

/// The part of a program's `struct perf_event_attr` that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttrSize {
    /// The number of bytes to copy. The rest of [`PerfEventAttr`] is 0.
    pub copied: usize,
    /// The number of bytes that follow in the program's memory and must be 0; otherwise the call fails as with a wrong
    /// size.
    pub tail: usize,
}

impl PerfEventAttr {
    /// The size of the first `struct perf_event_attr`.
    pub const SIZE_VER0: u32 = 64;
    /// The size of this version's `struct perf_event_attr`.
    pub const SIZE: u32 = size_of::<Self>() as u32;
    /// The largest accepted size: a page.
    const SIZE_LIMIT: u32 = 4096;

    /// All bytes are 0.
    pub const ZERO: Self = Self {
        type_: 0,
        size: 0,
        config: 0,
        sample_period: 0,
        sample_type: 0,
        read_format: 0,
        flags: 0,
        wakeup_events: 0,
        bp_type: 0,
        config1: 0,
        config2: 0,
        branch_sample_type: 0,
        sample_regs_user: 0,
        sample_stack_user: 0,
        clockid: 0,
        sample_regs_intr: 0,
        aux_watermark: 0,
        sample_max_stack: 0,
        reserved_2: 0,
        aux_sample_size: 0,
        aux_action: 0,
        sig_data: 0,
        config3: 0,
        config4: 0,
    };

    /// Returns the part to copy of a program's structure, given its member `size`.
    ///
    /// Returns `None` for a wrong size: the caller writes [`Self::SIZE`] to that member, and fails with `E2BIG`.
    #[must_use]
    pub const fn copy_size(size: u32) -> Option<AttrSize> {
        let size = if size == 0 { Self::SIZE_VER0 } else { size };
        if size < Self::SIZE_VER0 || size > Self::SIZE_LIMIT {
            return None;
        }
        let tail = size.saturating_sub(Self::SIZE);
        Some(AttrSize {
            copied: (size - tail) as usize,
            tail: tail as usize,
        })
    }

    /// Returns whether any of these [`flags`](Self::flags) is set.
    #[must_use]
    pub const fn has(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }

    /// Checks the members that Linux checks for events of all types. As in Linux, the members for samples are checked
    /// even if the event has no samples.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::Invalid`] if a member has a value that Linux refuses.
    pub const fn check(&self) -> Result<(), InvalidAttr> {
        if self.are_reserved_bits_zero()
            && self.is_sample_type_valid()
            && self.are_flags_consistent()
        {
            Ok(())
        } else {
            Err(InvalidAttr::Invalid)
        }
    }

    const fn are_reserved_bits_zero(&self) -> bool {
        /// `aux_start_paused`, `aux_pause`, `aux_resume`.
        const AUX_ACTIONS: u32 = 0b111;

        !self.has(Self::RESERVED_1)
            && self.reserved_2 == 0
            && self.aux_action & !AUX_ACTIONS == 0
            && self.sample_type < PERF_SAMPLE_MAX
            && self.read_format < PERF_FORMAT_MAX
    }

    const fn is_sample_type_valid(&self) -> bool {
        const WEIGHTS: u64 = PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT;

        if self.has_sample_part(PERF_SAMPLE_BRANCH_STACK)
            && (self.branch_sample_type >= PERF_SAMPLE_BRANCH_MAX
                || self.branch_sample_type & !PERF_SAMPLE_BRANCH_PLM_ALL == 0)
        {
            return false;
        }
        // A record has 16 bits for its size.
        if self.has_sample_part(PERF_SAMPLE_STACK_USER)
            && (self.sample_stack_user >= 0xffff || self.sample_stack_user % 8 != 0)
        {
            return false;
        }
        (!self.has_sample_part(PERF_SAMPLE_REGS_USER) || are_registers_available(self.sample_regs_user))
            && (!self.has_sample_part(PERF_SAMPLE_REGS_INTR) || are_registers_available(self.sample_regs_intr))
            && self.sample_type & WEIGHTS != WEIGHTS
            // Without a thread's number, samples don't show which task's count they have.
            && (!self.has(Self::INHERIT)
                || !self.has_sample_part(PERF_SAMPLE_READ)
                || self.has_sample_part(PERF_SAMPLE_TID))
    }

    const fn are_flags_consistent(&self) -> bool {
        /// The limit of `sample_period`, as in perf. A sysctl sets a lower limit for a frequency.
        const PERIOD_LIMIT: u64 = 1 << 63;

        (self.has(Self::INHERIT) || !self.has(Self::INHERIT_THREAD))
            && !(self.has(Self::REMOVE_ON_EXEC) && self.has(Self::ENABLE_ON_EXEC))
            && (self.has(Self::REMOVE_ON_EXEC) || !self.has(Self::SIGTRAP))
            && self.sample_period < PERIOD_LIMIT
    }

    const fn has_sample_part(&self, bits: u64) -> bool {
        self.sample_type & bits != 0
    }
}

/// Returns whether samples can have these registers (`enum perf_event_x86_regs`): the general ones without DS,
/// ES, FS and GS. Linux has the XMM registers in precise samples only; this module refuses them.
const fn are_registers_available(bits: u64) -> bool {
    const GENERAL: u64 = 0xff_0fff;

    bits != 0 && bits & !GENERAL == 0
}

// The layout of Linux 7.3, with the size of each version.
const _: () = {
    use core::mem::offset_of;

    assert!(PerfEventAttr::SIZE == 144);
    assert!(align_of::<PerfEventAttr>() == 8);
    assert!(offset_of!(PerfEventAttr, type_) == 0);
    assert!(offset_of!(PerfEventAttr, size) == 4);
    assert!(offset_of!(PerfEventAttr, config) == 8);
    assert!(offset_of!(PerfEventAttr, sample_period) == 16);
    assert!(offset_of!(PerfEventAttr, sample_type) == 24);
    assert!(offset_of!(PerfEventAttr, read_format) == 32);
    assert!(offset_of!(PerfEventAttr, flags) == 40);
    assert!(offset_of!(PerfEventAttr, wakeup_events) == 48);
    assert!(offset_of!(PerfEventAttr, bp_type) == 52);
    assert!(offset_of!(PerfEventAttr, config1) == 56);
    assert!(offset_of!(PerfEventAttr, config2) == PerfEventAttr::SIZE_VER0 as usize);
    assert!(offset_of!(PerfEventAttr, branch_sample_type) == 72);
    assert!(offset_of!(PerfEventAttr, sample_regs_user) == 80);
    assert!(offset_of!(PerfEventAttr, sample_stack_user) == 88);
    assert!(offset_of!(PerfEventAttr, clockid) == 92);
    assert!(offset_of!(PerfEventAttr, sample_regs_intr) == 96);
    assert!(offset_of!(PerfEventAttr, aux_watermark) == 104);
    assert!(offset_of!(PerfEventAttr, sample_max_stack) == 108);
    assert!(offset_of!(PerfEventAttr, reserved_2) == 110);
    assert!(offset_of!(PerfEventAttr, aux_sample_size) == 112);
    assert!(offset_of!(PerfEventAttr, aux_action) == 116);
    assert!(offset_of!(PerfEventAttr, sig_data) == 120);
    assert!(offset_of!(PerfEventAttr, config3) == 128);
    assert!(offset_of!(PerfEventAttr, config4) == 136);
};

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_event_attr))]
mod tests {
    use super::*;

    const ZERO: PerfEventAttr = PerfEventAttr::ZERO;

    fn is_valid(attr: PerfEventAttr) -> bool {
        attr.check() == Ok(())
    }

    fn attr_with_flags(flags: u64) -> PerfEventAttr {
        PerfEventAttr { flags, ..ZERO }
    }

    fn attr_with_samples(sample_type: u64) -> PerfEventAttr {
        PerfEventAttr {
            sample_type,
            ..ZERO
        }
    }

    #[test]
    fn copy_size_follows_linux() {
        let copy_parts = |size| PerfEventAttr::copy_size(size).map(|s| (s.copied, s.tail));
        assert_eq!(copy_parts(0), Some((64, 0)));
        assert_eq!(copy_parts(64), Some((64, 0)));
        assert_eq!(copy_parts(65), Some((65, 0)));
        assert_eq!(copy_parts(144), Some((144, 0)));
        assert_eq!(copy_parts(152), Some((144, 8)));
        assert_eq!(copy_parts(4096), Some((144, 3952)));
        assert_eq!(copy_parts(63), None);
        assert_eq!(copy_parts(1), None);
        assert_eq!(copy_parts(4097), None);
        assert_eq!(copy_parts(u32::MAX), None);
    }

    #[test]
    fn flag_bits_match_the_c_bit_field() {
        // These are the bits that `perf stat` sets: disabled, inherit, enable_on_exec, exclude_guest.
        let stat = attr_with_flags(0x0010_1003);
        assert!(stat.has(PerfEventAttr::DISABLED) && stat.has(PerfEventAttr::INHERIT));
        assert!(stat.has(PerfEventAttr::ENABLE_ON_EXEC) && stat.has(PerfEventAttr::EXCLUDE_GUEST));
        assert_eq!(PerfEventAttr::DEFER_OUTPUT << 1, 1 << 40);
        assert_eq!(PerfEventAttr::RESERVED_1.count_ones(), 24);
    }

    #[test]
    fn reserved_bits_are_refused() {
        assert!(is_valid(ZERO));
        assert!(is_valid(attr_with_flags(PerfEventAttr::DEFER_OUTPUT)));
        assert!(!is_valid(attr_with_flags(1 << 40)));
        assert!(!is_valid(attr_with_flags(1 << 63)));
        assert!(!is_valid(PerfEventAttr {
            reserved_2: 1,
            ..ZERO
        }));
        let attr_with_aux_action = |aux_action| PerfEventAttr { aux_action, ..ZERO };
        assert!(is_valid(attr_with_aux_action(7)));
        assert!(!is_valid(attr_with_aux_action(8)));
        let attr_with_read_format = |read_format| PerfEventAttr {
            read_format,
            ..ZERO
        };
        assert!(is_valid(attr_with_read_format(0x1f)));
        assert!(!is_valid(attr_with_read_format(0x20)));
        assert!(is_valid(attr_with_samples(1 << 23)));
        assert!(!is_valid(attr_with_samples(1 << 25)));
    }

    #[test]
    fn sample_members_are_checked() {
        let weights = PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT;
        assert!(is_valid(attr_with_samples(PERF_SAMPLE_WEIGHT)));
        assert!(!is_valid(attr_with_samples(weights)));

        let attr_with_stack = |sample_stack_user| PerfEventAttr {
            sample_stack_user,
            ..attr_with_samples(PERF_SAMPLE_STACK_USER)
        };
        assert!(is_valid(attr_with_stack(0xfff8)));
        assert!(!is_valid(attr_with_stack(0xfffc)));
        assert!(!is_valid(attr_with_stack(0x1_0000)));

        let attr_with_branches = |branch_sample_type| PerfEventAttr {
            branch_sample_type,
            ..attr_with_samples(PERF_SAMPLE_BRANCH_STACK)
        };
        assert!(is_valid(attr_with_branches(0b1001)));
        assert!(!is_valid(attr_with_branches(0b0001)));
        assert!(!is_valid(attr_with_branches(1 << 20)));

        let attr_with_registers = |sample_regs_user| PerfEventAttr {
            sample_regs_user,
            ..attr_with_samples(PERF_SAMPLE_REGS_USER)
        };
        assert!(is_valid(attr_with_registers(0xff_0fff)));
        assert!(!is_valid(attr_with_registers(0)));
        assert!(!is_valid(attr_with_registers(1 << 12)));
        assert!(!is_valid(attr_with_registers(1 << 32)));
        let attr_with_registers = |sample_regs_intr| PerfEventAttr {
            sample_regs_intr,
            ..attr_with_samples(PERF_SAMPLE_REGS_INTR)
        };
        assert!(is_valid(attr_with_registers(1)));
        assert!(!is_valid(attr_with_registers(1 << 24)));
    }

    #[test]
    fn contradictory_flags_are_refused() {
        const INHERIT: u64 = PerfEventAttr::INHERIT;
        const ENABLE_ON_EXEC: u64 = PerfEventAttr::ENABLE_ON_EXEC;
        const REMOVE_ON_EXEC: u64 = PerfEventAttr::REMOVE_ON_EXEC;

        let are_valid = |flags| is_valid(attr_with_flags(flags));
        assert!(!are_valid(PerfEventAttr::INHERIT_THREAD));
        assert!(are_valid(PerfEventAttr::INHERIT_THREAD | INHERIT));
        assert!(!are_valid(REMOVE_ON_EXEC | ENABLE_ON_EXEC));
        assert!(are_valid(REMOVE_ON_EXEC) && are_valid(ENABLE_ON_EXEC));
        assert!(!are_valid(PerfEventAttr::SIGTRAP));
        assert!(are_valid(PerfEventAttr::SIGTRAP | REMOVE_ON_EXEC));

        let inherited_attr = |sample_type| PerfEventAttr {
            sample_type,
            ..attr_with_flags(INHERIT)
        };
        assert!(!is_valid(inherited_attr(PERF_SAMPLE_READ)));
        assert!(is_valid(inherited_attr(PERF_SAMPLE_READ | PERF_SAMPLE_TID)));
        assert!(is_valid(attr_with_samples(PERF_SAMPLE_READ)));
    }

    #[test]
    fn periods_are_checked_and_clocks_are_not() {
        let attr_with_period = |sample_period| PerfEventAttr {
            sample_period,
            ..ZERO
        };
        assert!(is_valid(attr_with_period((1 << 63) - 1)));
        assert!(!is_valid(attr_with_period(1 << 63)));
        let attr_with_clock = |clockid| PerfEventAttr {
            clockid,
            ..attr_with_flags(PerfEventAttr::USE_CLOCKID)
        };
        assert!([0, 1, 2, -1, i32::MAX]
            .map(attr_with_clock)
            .iter()
            .all(|&a| is_valid(a)));
    }
}
