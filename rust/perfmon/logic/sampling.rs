// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The samples and other records that a `struct perf_event_attr` asks for.

use super::branch_records::BranchRecords;
use super::branches::BranchStack;
use super::event_attr::{
    InvalidAttr, PerfEventAttr, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_CGROUP,
};
use super::mapping::MappingRecords;
use super::memory_access::AccessFormat;
use super::pebs::{PebsFormat, PARTS_OF_RECORDS};
use super::read_format::ReadFormat;
use super::recorded_branches::RecordedBranches;
use super::sample_format::SampleFormat;

/// The condition of a sample: a number of events, or a number of samples per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// No samples: the event only counts.
    Never,
    /// The number of events from one sample to the next; not 0.
    Period(u64),
    /// The approximate number of samples per second; not 0.
    Frequency(u64),
}

/// The condition on which a ring wakes its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// After this number of samples; never if 0.
    Samples(u32),
    /// After this number of bytes; after half of the ring if 0.
    Bytes(u32),
}

/// The clock of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The clock of Linux perf and of the scheduler.
    Local,
    /// `CLOCK_MONOTONIC`
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`
    MonotonicRaw,
}

/// The call chains of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chains {
    /// The largest number of addresses in a chain, not counting marks.
    pub depth: u16,
    /// Functions of the kernel are shown.
    pub kernel: bool,
    /// Functions of the program are shown.
    pub user: bool,
}

impl Chains {
    /// The largest number of addresses in a chain, unless the program asks for fewer: the default of Linux's sysctl
    /// `kernel.perf_event_max_stack`.
    pub const MAX_DEPTH: u16 = 127;

    /// Returns the call chains that `attr` asks for. If `has_chains` is false, samples have no call chains.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::TooDeep`] for chains longer than [`Self::MAX_DEPTH`].
    const fn new(attr: &PerfEventAttr, has_chains: bool) -> Result<Self, InvalidAttr> {
        let depth = match attr.sample_max_stack {
            0 => Self::MAX_DEPTH,
            depth if depth <= Self::MAX_DEPTH => depth,
            _ if !has_chains => 0,
            _ => return Err(InvalidAttr::TooDeep),
        };
        Ok(Self {
            depth,
            kernel: !attr.has(PerfEventAttr::EXCLUDE_CALLCHAIN_KERNEL)
                && !attr.has(PerfEventAttr::EXCLUDE_KERNEL),
            user: !attr.has(PerfEventAttr::EXCLUDE_CALLCHAIN_USER),
        })
    }
}

/// The samples and other records that an event writes into a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The condition of a sample.
    pub trigger: Trigger,
    /// The parts of samples.
    pub format: SampleFormat,
    /// The format of read(2), which is also the format of the counts in samples.
    pub read: ReadFormat,
    /// A task that has inherited the event writes a record of its count when it exits.
    pub read_at_exit: bool,
    /// The condition on which the reader is woken.
    pub wakeup: Wakeup,
    /// The clock of records.
    pub clock: Clock,
    /// The branches, if samples have them.
    pub branches: Option<BranchStack>,
    /// The call chains, if samples have them.
    pub chains: Chains,
    /// The registers of the program in samples, as a mask (`enum perf_event_x86_regs`).
    pub user_registers: u64,
    /// The number of bytes of the program's stack in samples, a multiple of 8.
    pub user_stack: u32,
    /// The registers at the interrupt in samples, as a mask.
    pub registers: u64,
    /// The samples are precise: the processor writes them itself, each at the exact instruction.
    pub is_precise: bool,
    /// The form of the access to memory in the processor's records of precise samples.
    pub access: AccessFormat,
    /// The branches of precise samples, if the branches are taken from the processor's records.
    pub recorded_branches: Option<RecordedBranches>,
    /// Each precise sample has an interrupt of its own, whose handler adds the parts that the processor's record lacks.
    pub needs_interrupt_per_record: bool,
    /// Records are written from the end of the ring to its beginning.
    pub writes_backward: bool,
    /// A new name of a task is recorded.
    pub records_names: bool,
    /// The beginning and the end of tasks are recorded.
    pub records_forks_and_exits: bool,
    /// Context switches are recorded.
    pub records_switches: bool,
    /// New cgroups are recorded.
    pub records_new_cgroups: bool,
    /// The mappings of programs are recorded.
    pub mappings: MappingRecords,
}

impl Wakeup {
    /// Returns the condition that `attr` asks for.
    const fn new(attr: &PerfEventAttr) -> Self {
        if attr.has(PerfEventAttr::WATERMARK) {
            Self::Bytes(attr.wakeup_events)
        } else {
            Self::Samples(attr.wakeup_events)
        }
    }
}

impl Trigger {
    /// Returns the condition that `attr` asks for.
    const fn new(attr: &PerfEventAttr) -> Self {
        match attr.sample_period {
            0 => Self::Never,
            frequency if attr.has(PerfEventAttr::FREQ) => Self::Frequency(frequency),
            period => Self::Period(period),
        }
    }

    /// Checks that a frequency is at most `max_frequency` samples per second; 0 means no limit.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::Invalid`] if the frequency is higher.
    pub const fn check(self, max_frequency: u32) -> Result<(), InvalidAttr> {
        match self {
            Self::Frequency(frequency)
                if max_frequency != 0 && frequency > max_frequency as u64 =>
            {
                Err(InvalidAttr::Invalid)
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the event has samples.
    pub const fn is_sampled(self) -> bool {
        !matches!(self, Self::Never)
    }

    /// Returns the trigger with `number` as its period or frequency.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::Invalid`] if the event has no samples, or if `number` is 0 or has bit 63 set.
    pub const fn with_number(self, number: u64) -> Result<Self, InvalidAttr> {
        match self {
            _ if number == 0 || number >> 63 != 0 => Err(InvalidAttr::Invalid),
            Self::Never => Err(InvalidAttr::Invalid),
            Self::Period(_) => Ok(Self::Period(number)),
            Self::Frequency(_) => Ok(Self::Frequency(number)),
        }
    }
}

impl Sampling {
    /// Checks the members of `attr` that concern records.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::Invalid`] for a clock that can't be read in an NMI, as in Linux perf;
    /// [`InvalidAttr::TooDeep`] for call chains longer than [`Chains::MAX_DEPTH`]; [`InvalidAttr::Unsupported`] for
    /// parts that samples of this module can't have.
    pub const fn new(attr: &PerfEventAttr) -> Result<Self, InvalidAttr> {
        let trigger = Trigger::new(attr);
        let is_sampled = trigger.is_sampled();
        let id_all = attr.has(PerfEventAttr::SAMPLE_ID_ALL);
        let format = match SampleFormat::new(attr.sample_type, id_all, is_sampled) {
            Ok(format) => format,
            Err(error) => return Err(error),
        };
        let read = match ReadFormat::new(attr.read_format) {
            Ok(read) => read,
            Err(error) => return Err(error),
        };
        let clock = match clock(attr) {
            Ok(clock) => clock,
            Err(error) => return Err(error),
        };
        let branches = if is_sampled && format.has(PERF_SAMPLE_BRANCH_STACK) {
            match BranchStack::new(attr) {
                Ok(stack) => Some(stack),
                Err(error) => return Err(error),
            }
        } else {
            None
        };
        let chains = match Chains::new(attr, format.has(PERF_SAMPLE_CALLCHAIN)) {
            Ok(chains) => chains,
            Err(error) => return Err(error),
        };
        let is_precise = is_sampled && attr.has(PerfEventAttr::PRECISE_IP);
        let wakeup = Wakeup::new(attr);
        let writes_backward = attr.has(PerfEventAttr::WRITE_BACKWARD);
        Ok(Self {
            trigger,
            format,
            read,
            read_at_exit: attr.has(PerfEventAttr::INHERIT_STAT),
            wakeup,
            clock,
            branches,
            chains,
            user_registers: attr.sample_regs_user,
            user_stack: attr.sample_stack_user,
            registers: attr.sample_regs_intr,
            is_precise,
            access: AccessFormat::NONE,
            recorded_branches: None,
            needs_interrupt_per_record: is_precise
                && needs_interrupts(attr, PARTS_OF_RECORDS, wakeup, clock, writes_backward),
            writes_backward,
            records_names: attr.has(PerfEventAttr::COMM),
            records_forks_and_exits: attr.has(PerfEventAttr::TASK),
            records_switches: attr.has(PerfEventAttr::CONTEXT_SWITCH),
            records_new_cgroups: attr.has(PerfEventAttr::CGROUP),
            mappings: MappingRecords::new(attr),
        })
    }

    /// Takes the branches of precise samples from the processor's records, if records of this format have the branches of
    /// `records`.
    pub fn use_recorded_branches(
        &mut self,
        attr: &PerfEventAttr,
        format: Option<PebsFormat>,
        records: Option<BranchRecords>,
    ) {
        let (Some(format), Some(records), Some(stack)) = (format, records, &self.branches) else {
            return;
        };
        let recorded_branches = RecordedBranches::new(stack, records);
        if !self.is_precise || !format.is_adaptive() || recorded_branches.is_none() {
            return;
        }
        let parts = PARTS_OF_RECORDS | PERF_SAMPLE_BRANCH_STACK;
        self.recorded_branches = recorded_branches;
        self.needs_interrupt_per_record =
            needs_interrupts(attr, parts, self.wakeup, self.clock, self.writes_backward);
    }

    /// Returns whether samples show branches of the kernel.
    #[must_use]
    pub const fn has_kernel_branches(&self) -> bool {
        match self.branches {
            Some(stack) => stack.branches.has_kernel(),
            None => false,
        }
    }

    /// Returns whether samples show a call stack from the branch records.
    #[must_use]
    pub const fn has_call_stack(&self) -> bool {
        match self.branches {
            Some(stack) => stack.branches.are_calls(),
            None => false,
        }
    }

    /// Returns whether samples have the cgroup.
    #[must_use]
    pub const fn has_cgroups(&self) -> bool {
        self.trigger.is_sampled() && self.format.has(PERF_SAMPLE_CGROUP)
    }

    /// Returns whether the event records names, beginnings, ends, switches or mappings of tasks, or new cgroups.
    #[must_use]
    pub const fn follows_tasks(&self) -> bool {
        self.records_names
            || self.records_forks_and_exits
            || self.records_switches
            || self.records_new_cgroups
            || self.mappings.are_wanted()
    }
}

/// Returns the clock that `attr` asks for.
const fn clock(attr: &PerfEventAttr) -> Result<Clock, InvalidAttr> {
    const CLOCK_MONOTONIC: i32 = 1;
    const CLOCK_MONOTONIC_RAW: i32 = 4;

    if !attr.has(PerfEventAttr::USE_CLOCKID) {
        return Ok(Clock::Local);
    }
    match attr.clockid {
        CLOCK_MONOTONIC => Ok(Clock::Monotonic),
        CLOCK_MONOTONIC_RAW => Ok(Clock::MonotonicRaw),
        _ => Err(InvalidAttr::Invalid),
    }
}

/// Returns the period that gives one sample every `cycles_per_sample` cycles, for an event that was counted `count`
/// times in `elapsed` cycles. The result is between 1 and 2^62.
#[inline]
#[must_use]
pub const fn period_for(count: u64, elapsed: u64, cycles_per_sample: u64) -> u64 {
    const MAX_PERIOD: u64 = 1 << 62;

    // 31 bits of each factor are enough: the bits that are shifted out change the period by less than a thousandth.
    let shift = u64::BITS - (count | cycles_per_sample).leading_zeros();
    let shift = if shift > 31 { shift - 31 } else { 0 };
    let product = (count >> shift).wrapping_mul(cycles_per_sample >> shift);
    let elapsed = if elapsed == 0 { 1 } else { elapsed };
    let period = product / elapsed;
    let period = match period.checked_shl(2 * shift) {
        Some(shifted) if shifted >> (2 * shift) == period && shifted <= MAX_PERIOD => shifted,
        _ => MAX_PERIOD,
    };
    if period == 0 {
        1
    } else {
        period
    }
}

/// Returns whether the last sample, `elapsed` cycles ago, is more than two intervals of `cycles_per_sample` ago. The period
/// of that sample no longer fits the event then.
#[inline(always)]
#[must_use]
pub const fn missed_interval(elapsed: u64, cycles_per_sample: u64) -> bool {
    elapsed / 2 > cycles_per_sample
}

/// Returns whether the precise samples of an event need an interrupt for each record. The samples
/// need such an interrupt in these cases:
///
/// - Samples have parts that are not in `parts`, the parts for which records suffice.
/// - The reader is woken after a number of samples.
/// - The clock is not the local one.
/// - The ring is written backward, so it must have the newest samples whenever it is read.
const fn needs_interrupts(
    attr: &PerfEventAttr,
    parts: u64,
    wakeup: Wakeup,
    clock: Clock,
    writes_backward: bool,
) -> bool {
    let wakes_after_samples = !matches!(wakeup, Wakeup::Samples(0) | Wakeup::Bytes(_));
    // The rate of other clocks may change between a record and the interrupt.
    let has_other_clock = !matches!(clock, Clock::Local);
    attr.sample_type & !parts != 0 || wakes_after_samples || has_other_clock || writes_backward
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_sampling))]
mod tests {
    use super::*;

    fn trigger_of(attr: PerfEventAttr) -> Result<Trigger, InvalidAttr> {
        Sampling::new(&attr).map(|sampling| sampling.trigger)
    }

    const PERIODIC_ATTR: PerfEventAttr = PerfEventAttr {
        sample_period: 97,
        ..PerfEventAttr::ZERO
    };

    #[test]
    fn triggers_follow_period_and_frequency() {
        assert_eq!(trigger_of(PerfEventAttr::ZERO), Ok(Trigger::Never));
        assert_eq!(trigger_of(PERIODIC_ATTR), Ok(Trigger::Period(97)));
        let frequency = PerfEventAttr {
            flags: PerfEventAttr::FREQ,
            ..PERIODIC_ATTR
        };
        assert_eq!(trigger_of(frequency), Ok(Trigger::Frequency(97)));
    }

    #[test]
    fn with_number_changes_period_and_frequency() {
        assert_eq!(Trigger::Period(5).with_number(6), Ok(Trigger::Period(6)));
        assert_eq!(
            Trigger::Frequency(5).with_number(6),
            Ok(Trigger::Frequency(6))
        );
        for number in [0, 1 << 63] {
            assert_eq!(
                Trigger::Period(5).with_number(number),
                Err(InvalidAttr::Invalid)
            );
        }
        assert_eq!(Trigger::Never.with_number(6), Err(InvalidAttr::Invalid));
        assert_eq!(
            Trigger::Frequency(1001).check(1000),
            Err(InvalidAttr::Invalid)
        );
        assert_eq!(Trigger::Frequency(1001).check(0), Ok(()));
        assert_eq!(Trigger::Period(1001).check(1000), Ok(()));
    }

    #[test]
    fn invalid_clocks_chains_and_parts_are_refused() {
        let deep_chain = PerfEventAttr {
            sample_max_stack: 128,
            ..PERIODIC_ATTR
        };
        assert!(trigger_of(deep_chain).is_ok());
        let deep_chain = PerfEventAttr {
            sample_type: PERF_SAMPLE_CALLCHAIN,
            ..deep_chain
        };
        assert_eq!(trigger_of(deep_chain), Err(InvalidAttr::TooDeep));
        let wall_clock = PerfEventAttr {
            flags: PerfEventAttr::USE_CLOCKID,
            ..PERIODIC_ATTR
        };
        assert_eq!(trigger_of(wall_clock), Err(InvalidAttr::Invalid));
        let attr_with_raw_part = PerfEventAttr {
            sample_type: 1 << 10,
            ..PERIODIC_ATTR
        };
        assert_eq!(
            trigger_of(attr_with_raw_part),
            Err(InvalidAttr::Unsupported)
        );
    }

    #[test]
    fn period_for_gives_the_frequency() {
        // 1000 events in 10,000 cycles are 200 in 2,000 cycles.
        assert_eq!(period_for(1000, 10_000, 2_000), 200);
        assert_eq!(period_for(0, 10_000, 2_000), 1);
        assert_eq!(period_for(5, 0, 2_000), 10_000);
        assert_eq!(period_for(1 << 40, 1 << 20, 1 << 10), 1 << 30);
        assert_eq!(period_for(u64::MAX, 1, u64::MAX), 1 << 62);
    }
}
