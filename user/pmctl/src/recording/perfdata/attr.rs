// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct perf_event_attr`, which describes an event, in files and for `perf_event_open(2)`.

use perfmon::{Encoding, Modes};
use perfmon_core::logic::event_attr::{self as abi, PerfEventAttr};
use perfmon_core::logic::pebs::PebsFormat;
use zerocopy::IntoBytes;

use super::bytes::Reader;
use super::record::UserStack;
use super::sample_parts::{STAMP_FIELDS, SampleParts};
use crate::events::values::{self, Unit};

/// The size of the structure with all members up to `sample_max_stack`: `PERF_ATTR_SIZE_VER5`.
pub(super) const SIZE: usize = 112;

/// Flags of an event for the records of tasks: mappings, names, beginnings and ends.
const TASK_FLAGS: u64 = PerfEventAttr::MMAP
    | PerfEventAttr::MMAP2
    | PerfEventAttr::COMM
    | PerfEventAttr::COMM_EXEC
    | PerfEventAttr::TASK;

/// [`TASK_FLAGS`], and the flags for records of task switches and of code that the kernel generates at run time.
const SIDEBAND_FLAGS: u64 = TASK_FLAGS | PerfEventAttr::CONTEXT_SWITCH | PerfEventAttr::KSYMBOL;

/// Bits of `branch_sample_type` that leave out predictions and cycles.
const BRANCH_PLAIN: u64 = abi::PERF_SAMPLE_BRANCH_NO_FLAGS | abi::PERF_SAMPLE_BRANCH_NO_CYCLES;

/// Kinds of branches that are recorded: bits of `branch_sample_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BranchKinds(u64);

impl BranchKinds {
    /// All branches.
    pub(crate) const ANY: Self = Self(abi::PERF_SAMPLE_BRANCH_ANY);

    /// The program's call stack, without predictions and cycles.
    pub(crate) const CALL_STACK: Self =
        Self(abi::PERF_SAMPLE_BRANCH_USER | abi::PERF_SAMPLE_BRANCH_CALL_STACK | BRANCH_PLAIN);

    /// perf's names of the kinds of branches that the driver can select.
    const NAMES: [(&str, u64); 11] = [
        ("any", abi::PERF_SAMPLE_BRANCH_ANY),
        ("any_call", abi::PERF_SAMPLE_BRANCH_ANY_CALL),
        ("any_ret", abi::PERF_SAMPLE_BRANCH_ANY_RETURN),
        ("ind_call", abi::PERF_SAMPLE_BRANCH_IND_CALL),
        ("cond", abi::PERF_SAMPLE_BRANCH_COND),
        ("ind_jmp", abi::PERF_SAMPLE_BRANCH_IND_JUMP),
        ("call", abi::PERF_SAMPLE_BRANCH_CALL),
        ("no_flags", abi::PERF_SAMPLE_BRANCH_NO_FLAGS),
        ("no_cycles", abi::PERF_SAMPLE_BRANCH_NO_CYCLES),
        ("u", abi::PERF_SAMPLE_BRANCH_USER),
        ("k", abi::PERF_SAMPLE_BRANCH_KERNEL),
    ];

    /// Parses names that are separated by commas; without a kind among them, all kinds are recorded. The error is a
    /// message for the user, with the names that exist.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const KINDS: u64 = (abi::PERF_SAMPLE_BRANCH_NO_FLAGS - 1)
            & !(abi::PERF_SAMPLE_BRANCH_USER | abi::PERF_SAMPLE_BRANCH_KERNEL);
        let mut bits = 0;
        for word in text.split(',') {
            let entry = Self::NAMES.iter().find(|(name, _)| *name == word.trim());
            let (_, bit) = entry.ok_or_else(|| {
                let names: Vec<&str> = Self::NAMES.iter().map(|(name, _)| *name).collect();
                format!(
                    "no kind of branches is called `{word}`; there are: {}",
                    names.join(" ")
                )
            })?;
            bits |= bit;
        }
        Ok(Self(if bits & KINDS == 0 {
            bits | abi::PERF_SAMPLE_BRANCH_ANY
        } else {
            bits
        }))
    }
}

/// Type and number of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A generic event, `PERF_COUNT_HW_*`.
    Hardware(u64),
    /// An event of the processor, as the value of an event select register.
    Raw(u64),
    /// A register that is not a counter, such as an energy meter, by its number in `PERFMON_GROUP_MISC`. The period of
    /// a sample is its growth since the sample before.
    Value(u64),
    /// An event that never happens, opened for the records that come with it.
    Dummy,
    /// An event of another of Linux's PMUs, as type and config.
    Other(u32, u64),
}

/// The type of [`EventKind::Value`], in files only. PMUs of the kernel have lower numbers.
const TYPE_VALUE: u32 = 0x706d_7600;

/// perf's names of `PERF_COUNT_SW_*`, in their order.
const SOFTWARE_EVENT_NAMES: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

/// Returns perf's name of an event that is neither a generic nor a raw event of the processor.
fn perf_name(kind: u32, config: u64) -> Option<String> {
    match kind {
        abi::PERF_TYPE_SOFTWARE => {
            let index = usize::try_from(config).ok()?;
            SOFTWARE_EVENT_NAMES
                .get(index)
                .map(|name| (*name).to_owned())
        }
        abi::PERF_TYPE_HW_CACHE => {
            let number = u32::try_from(config).ok()?;
            Some(Encoding::Cache(number).to_string())
        }
        // The number of a tracepoint differs from boot to boot.
        abi::PERF_TYPE_TRACEPOINT => Some(format!("tracepoint {config}")),
        _ => None,
    }
}

/// The attributes of an event: the members of `struct perf_event_attr` that pmctl uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) kind: EventKind,
    /// The period in events; 0 if it differs from sample to sample. After [`Self::with_frequency`],
    /// the frequency in Hz.
    pub(crate) period: u64,
    /// The fields of the samples: bits of `sample_type`.
    pub(crate) fields: u64,
    /// Bits of `fields` that were recorded only for other events of the file. This event's samples have these fields,
    /// too, but without meaning.
    unrecorded: u64,
    flags: u64,
    pub(super) branches: u64,
    /// The number of bytes of the program's stack in each sample.
    stack: u32,
    /// The `clockid` of the times; unused with perf's own clock.
    clock: i32,
    /// `config1` and `config2`.
    more_configs: [u64; 2],
}

/// Members of `struct perf_event_attr` that are the same in all files of pmctl, and may differ in files of perf.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherFields {
    pub(super) read_format: u64,
    /// Mask of the program's registers in samples.
    pub(super) registers: u64,
}

impl Attr {
    /// Describes an event that was sampled in these modes.
    pub(crate) fn sampled(kind: EventKind, period: u64, modes: Modes, parts: SampleParts) -> Self {
        let (exclude_flag, branch_modes) = match modes {
            Modes::User => (PerfEventAttr::EXCLUDE_KERNEL, abi::PERF_SAMPLE_BRANCH_USER),
            Modes::Kernel => (PerfEventAttr::EXCLUDE_USER, abi::PERF_SAMPLE_BRANCH_KERNEL),
            Modes::Both => (
                0,
                abi::PERF_SAMPLE_BRANCH_USER | abi::PERF_SAMPLE_BRANCH_KERNEL,
            ),
        };
        Self {
            kind,
            period,
            fields: parts.fields(),
            unrecorded: 0,
            // The program's part of the call chain is unwound from its stack.
            flags: PerfEventAttr::SAMPLE_ID_ALL
                | exclude_flag
                | if parts.has_user_stack {
                    PerfEventAttr::EXCLUDE_CALLCHAIN_USER
                } else {
                    0
                },
            branches: if parts.has_branches {
                abi::PERF_SAMPLE_BRANCH_ANY | branch_modes
            } else {
                0
            },
            stack: if parts.has_user_stack {
                UserStack::DEFAULT_SIZE
            } else {
                0
            },
            clock: 0,
            more_configs: [0; 2],
        }
    }

    /// Sets `config1` and `config2`.
    pub(crate) const fn with_configs(self, more_configs: [u64; 2]) -> Self {
        Self {
            more_configs,
            ..self
        }
    }

    /// Sets how many bytes of the program's stack a sample has, if samples have a stack.
    pub(crate) const fn with_stack(self, bytes: u32) -> Self {
        let stack = if self.parts().has_user_stack {
            bytes
        } else {
            0
        };
        Self { stack, ..self }
    }

    /// Returns the period of all samples; `None` if it differs from sample to sample.
    pub(crate) fn fixed_period(&self) -> Option<u64> {
        let is_frequency = self.flags & PerfEventAttr::FREQ != 0;
        (!is_frequency && self.period != 0).then_some(self.period)
    }

    /// Returns whether every single event is sampled. The virtual PMU then merges the samples of an
    /// address: the period of a merged sample is the number of samples that it stands for.
    pub(crate) fn samples_each_event(&self) -> bool {
        self.fixed_period() == Some(PebsFormat::MERGED_PERIOD) && self.is_precise()
    }

    /// Returns whether samples are precise.
    pub(crate) const fn is_precise(&self) -> bool {
        self.flags & PerfEventAttr::PRECISE_IP != 0
    }

    /// Returns whether records other than samples have a stamp.
    pub(super) fn has_stamps(&self) -> bool {
        self.flags & PerfEventAttr::SAMPLE_ID_ALL != 0
    }

    /// Returns whether the program's part of a call chain comes in a record of its own.
    pub(super) fn has_deferred_chains(&self) -> bool {
        self.flags & PerfEventAttr::DEFER_OUTPUT != 0
    }

    /// Marks the period as a frequency in Hz.
    pub(crate) fn with_frequency(self) -> Self {
        let flags = self.flags | PerfEventAttr::FREQ;
        Self { flags, ..self }
    }

    /// Sets `precise_ip`, 0 to 3.
    pub(crate) const fn with_precision(self, level: u8) -> Self {
        const SHIFT: u32 = PerfEventAttr::PRECISE_IP.trailing_zeros();
        let flags = self.flags | (level as u64) << SHIFT & PerfEventAttr::PRECISE_IP;
        Self { flags, ..self }
    }

    /// Records branches of these kinds. If they include no mode (`u`, `k`), the event's modes apply.
    pub(crate) const fn with_branches(self, kinds: BranchKinds) -> Self {
        const MODES: u64 = abi::PERF_SAMPLE_BRANCH_USER | abi::PERF_SAMPLE_BRANCH_KERNEL;
        let modes = if kinds.0 & MODES == 0 {
            self.branches & MODES
        } else {
            0
        };
        let branches = kinds.0 | modes;
        Self { branches, ..self }
    }

    /// Returns whether the branches are the program's call stack (`PERF_SAMPLE_BRANCH_CALL_STACK`).
    pub(crate) const fn has_call_stack(&self) -> bool {
        self.branches & abi::PERF_SAMPLE_BRANCH_CALL_STACK != 0
    }

    /// Returns whether the kernel's branches are recorded, too.
    pub(crate) const fn has_kernel_branches(&self) -> bool {
        self.branches & abi::PERF_SAMPLE_BRANCH_KERNEL != 0
    }

    /// Returns the kinds of branches: `branch_sample_type`.
    pub(crate) const fn branches(&self) -> u64 {
        self.branches
    }

    /// Describes a dummy event that brings the records of tasks: with `all`, of every task; otherwise of the tasks that
    /// the event is opened for, and with `inherit` also of their children. Without `all`, the kernel is excluded, so
    /// that users need no privilege for their own tasks.
    pub(crate) fn for_task_records(inherit: bool, all: bool) -> Self {
        let (inherit_flag, kernel_flag) = match (inherit, all) {
            (_, true) => (0, PerfEventAttr::KSYMBOL),
            (true, false) => (PerfEventAttr::INHERIT, PerfEventAttr::EXCLUDE_KERNEL),
            (false, false) => (0, PerfEventAttr::EXCLUDE_KERNEL),
        };
        Self {
            flags: PerfEventAttr::SAMPLE_ID_ALL | TASK_FLAGS | inherit_flag | kernel_flag,
            ..Self::sideband(None)
        }
    }

    /// Asks for the records of mappings that can't be executed, too.
    pub(crate) const fn with_data_mappings(self) -> Self {
        let flags = self.flags | PerfEventAttr::MMAP_DATA;
        Self { flags, ..self }
    }

    /// Describes a dummy event that brings the records of tasks, of their memory and of their switches. The times are by
    /// this `clockid`, or by perf's own clock.
    pub(crate) fn sideband(clock: Option<i32>) -> Self {
        Self {
            kind: EventKind::Dummy,
            period: 0,
            fields: STAMP_FIELDS,
            unrecorded: 0,
            flags: PerfEventAttr::SAMPLE_ID_ALL
                | SIDEBAND_FLAGS
                | clock.map_or(0, |_| PerfEventAttr::USE_CLOCKID),
            branches: 0,
            stack: 0,
            clock: clock.unwrap_or(0),
            more_configs: [0; 2],
        }
    }

    /// Returns the `clockid` of the times; `None` for perf's own clock.
    pub(crate) const fn clock(&self) -> Option<i32> {
        if self.flags & PerfEventAttr::USE_CLOCKID != 0 {
            Some(self.clock)
        } else {
            None
        }
    }

    /// Adds those of `parts` that the event's samples lack. `parts` are all parts that the samples
    /// of at least one event of the file have: in the file, all samples have the same parts.
    pub(super) fn with_parts_of_all(self, parts: SampleParts) -> Self {
        let own_fields = self.parts().fields();
        Self {
            fields: parts.fields(),
            unrecorded: parts.fields() & !own_fields,
            ..self
        }
    }

    /// Returns the event as a reader of pmctl's file decodes it. All samples of such a file have the same parts, and the
    /// file does not say which of these parts an event's samples lack.
    pub(crate) const fn as_written(self) -> Self {
        Self {
            unrecorded: 0,
            ..self
        }
    }

    /// Returns the parts that were recorded for this event. Its samples can have further parts, of other events of the file.
    pub(crate) const fn recorded_parts(&self) -> SampleParts {
        SampleParts::of(self.fields & !self.unrecorded)
    }

    /// Returns the parts that the samples have.
    pub(crate) const fn parts(&self) -> SampleParts {
        SampleParts::of(self.fields)
    }

    /// Returns the unit of an [`EventKind::Value`]; counts have none.
    pub(crate) fn unit(&self) -> Option<Unit> {
        match self.kind {
            EventKind::Value(number) => Some(values::by_number(number)?.unit),
            _ => None,
        }
    }

    /// Returns the modes in which the event was sampled.
    pub(crate) const fn modes(&self) -> Modes {
        match (
            self.flags & PerfEventAttr::EXCLUDE_USER,
            self.flags & PerfEventAttr::EXCLUDE_KERNEL,
        ) {
            (0, 0) => Modes::Both,
            (0, _) => Modes::User,
            _ => Modes::Kernel,
        }
    }

    /// Makes a name for an event whose file has no names.
    pub(super) fn name(&self) -> String {
        let name = match self.kind {
            // The upper half may name a kind of core.
            EventKind::Hardware(number) => {
                let number = number & u64::from(u32::MAX);
                Encoding::Hardware(u32::try_from(number).unwrap_or(u32::MAX)).to_string()
            }
            EventKind::Raw(select) => format!("r{select:x}"),
            EventKind::Value(number) => match values::by_number(number) {
                Some(value) => value.name.to_owned(),
                None => format!("value {number}"),
            },
            EventKind::Dummy => "dummy".to_owned(),
            EventKind::Other(kind, config) => match perf_name(kind, config) {
                Some(name) => name,
                None => format!("event {kind}:{config:#x}"),
            },
        };
        match self.modes() {
            Modes::Both => name,
            Modes::User => name + ":u",
            Modes::Kernel => name + ":k",
        }
    }

    /// Returns the registers that are recorded: `sample_regs_user`.
    const fn registers(&self) -> u64 {
        if self.fields & abi::PERF_SAMPLE_REGS_USER == 0 {
            0
        } else {
            UserStack::REGISTER_MASK
        }
    }

    /// Encodes the structure.
    pub(crate) fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes.copy_from_slice(&self.to_abi().as_bytes()[..SIZE]);
        bytes
    }

    /// Returns the structure, whose `size` is [`SIZE`].
    pub(crate) fn to_abi(self) -> PerfEventAttr {
        let (type_, config) = match self.kind {
            EventKind::Hardware(config) => (abi::PERF_TYPE_HARDWARE, config),
            EventKind::Raw(select) => (abi::PERF_TYPE_RAW, select),
            EventKind::Value(number) => (TYPE_VALUE, number),
            EventKind::Dummy => (abi::PERF_TYPE_SOFTWARE, abi::PERF_COUNT_SW_DUMMY),
            EventKind::Other(kind, config) => (kind, config),
        };
        let [config1, config2] = self.more_configs;
        PerfEventAttr {
            type_,
            size: 112,
            config,
            sample_period: self.period,
            sample_type: self.fields,
            flags: self.flags,
            config1,
            config2,
            branch_sample_type: self.branches,
            sample_regs_user: self.registers(),
            sample_stack_user: self.stack,
            clockid: self.clock,
            ..PerfEventAttr::ZERO
        }
    }

    /// Decodes the members that pmctl uses. Returns `None` if the samples have other registers than
    /// pmctl records, since pmctl can't decode such samples.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (attr, others) = Self::decode_any(bytes)?;
        (others.registers == attr.registers()).then_some(attr)
    }

    /// Decodes the structure, whichever program wrote it.
    pub(super) fn decode_any(bytes: &[u8]) -> Option<(Self, OtherFields)> {
        let mut reader = Reader(bytes);
        let (kind, _size) = (reader.u32()?, reader.u32()?);
        let config = reader.u64()?;
        let (period, fields) = (reader.u64()?, reader.u64()?);
        let (read_format, flags) = (reader.u64()?, reader.u64()?);
        reader.take(8)?; // wakeup_events, bp_type
        let more_configs = [reader.u64()?, reader.u64()?];
        let branches = reader.u64()?;
        let registers = reader.u64()?;
        let stack = reader.u32()?;
        let clock = i32::from_le_bytes(reader.take(4)?.try_into().ok()?);
        let kind = match (kind, config) {
            (abi::PERF_TYPE_HARDWARE, _) => EventKind::Hardware(config),
            (abi::PERF_TYPE_RAW, _) => EventKind::Raw(config),
            (TYPE_VALUE, _) => EventKind::Value(config),
            (abi::PERF_TYPE_SOFTWARE, abi::PERF_COUNT_SW_DUMMY) => EventKind::Dummy,
            _ => EventKind::Other(kind, config),
        };
        let attr = Self {
            kind,
            period,
            fields,
            unrecorded: 0,
            flags,
            branches,
            stack,
            clock,
            more_configs,
        };
        let other_fields = OtherFields {
            read_format,
            registers,
        };
        Some((attr, other_fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units_and_names_in_any_file() {
        for (name, unit) in [("energy-pkg", Unit::Joules), ("temperature", Unit::Celsius)] {
            let (_, values) = values::split(&[name.to_owned()]);
            let kind = EventKind::Value(u64::from(values[0].event as u32));
            let attr = Attr::sampled(kind, 0, Modes::Both, SampleParts::default());
            assert_eq!(Attr::decode(&attr.encode()), Some(attr));
            assert_eq!((attr.name(), attr.unit()), (name.to_owned(), Some(unit)));
        }
    }

    #[test]
    fn events_without_a_description_have_perfs_names() {
        let attr = |kind| Attr {
            kind,
            ..Attr::sideband(None)
        };
        let name = |kind, config| attr(EventKind::Other(kind, config)).name();
        assert_eq!(name(1, 0), "cpu-clock");
        assert_eq!(name(1, 3), "context-switches");
        assert_eq!(name(1, 99), "event 1:0x63");
        assert_eq!(name(2, 312), "tracepoint 312");
        assert_eq!(name(3, 0x1_0002), "LLC-load-misses");
        assert_eq!(name(42, 1), "event 42:0x1");
    }

    #[test]
    fn parts_of_other_events_are_not_recorded() {
        let latency = SampleParts {
            has_weight: true,
            ..SampleParts::default()
        };
        let both = SampleParts {
            has_data_source: true,
            ..latency
        };
        let attr = Attr::sampled(EventKind::Raw(1), 1, Modes::Both, latency);
        assert_eq!(attr.recorded_parts(), latency);
        let attr = attr.with_parts_of_all(both);
        assert_eq!(attr.parts(), both);
        assert_eq!(attr.recorded_parts(), latency);
    }

    #[test]
    fn samples_with_other_registers_are_not_read() {
        let parts = SampleParts {
            has_user_stack: true,
            ..SampleParts::default()
        };
        let attr = Attr::sampled(EventKind::Raw(1), 1, Modes::Both, parts).with_stack(64);
        let mut bytes = attr.encode();
        assert_eq!(Attr::decode(&bytes), Some(attr));
        // sample_regs_user
        bytes[80] ^= 1;
        assert_eq!(Attr::decode(&bytes), None);
    }

    #[test]
    fn kinds_of_branches_have_perfs_names() {
        let parse_bits = |text: &str| BranchKinds::parse(text).map(|kinds| kinds.0);
        assert_eq!(parse_bits("any"), Ok(0b1000));
        assert_eq!(parse_bits("u"), Ok(0b1001), "of all kinds");
        assert_eq!(parse_bits("any_call,u"), Ok(0b1_0001));
        assert_eq!(parse_bits("cond, k"), Ok(0b100_0000_0010));
        assert_eq!(parse_bits("no_flags"), Ok(1 << 14 | 1 << 3));
        assert!(parse_bits("stack").is_err_and(|error| error.contains("ind_jmp")));
        assert!(parse_bits("").is_err());
        let parts = SampleParts {
            has_branches: true,
            ..SampleParts::default()
        };
        let attr = Attr::sampled(EventKind::Raw(1), 1, Modes::User, parts);
        let with = |text| attr.with_branches(BranchKinds::parse(text).expect("it is one"));
        assert_eq!(attr.branches(), 0b1001);
        assert_eq!(with("any_ret").branches(), 1 << 5 | 1);
        assert_eq!(with("any_ret,k").branches(), 1 << 5 | 2);
    }
}
