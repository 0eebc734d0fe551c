// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of the data section.

use std::path::PathBuf;

use perfmon_core::logic::lbr::is_kernel_address;
use perfmon_core::logic::perf_event::PERF_RECORD_MISC_CPUMODE_MASK;

use super::memory_access::MemoryAccess;

/// The name of the vDSO, the kernel's code that is mapped into all programs.
pub(crate) const VDSO: &str = "[vdso]";

/// The name of the kernel's image. In the record of its mapping, the name of a symbol is appended.
pub(crate) const KERNEL: &str = "[kernel.kallsyms]";

/// A process and one of its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Task {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
}

impl Task {
    /// An unknown task, which perf shows as -1.
    pub(crate) const UNKNOWN: Self = Self {
        pid: u32::MAX,
        tid: u32::MAX,
    };

    /// Returns the first thread of a process.
    pub(crate) const fn leader(pid: u32) -> Self {
        Self { pid, tid: pid }
    }
}

/// Task, time and CPU of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The time in nanoseconds.
    pub(crate) time: u64,
    pub(crate) task: Task,
    pub(crate) cpu: u32,
}

impl Stamp {
    /// The CPU of records without this field, such as those of `perf record` without -a and -C.
    pub(crate) const NO_CPU: u32 = u32::MAX;
}

/// A record of the data section: its stamp and its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) stamp: Stamp,
    pub(crate) body: Body,
}

impl Record {
    /// Returns whether the record is a sample.
    pub(crate) const fn is_sample(&self) -> bool {
        matches!(self.body, Body::Sample(_))
    }
}

/// Content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A task has mapped executable memory, or data.
    Map(Map),
    /// A task has this name from now on. With `exec`, the task got the name by execve(2).
    Comm {
        task: Task,
        name: String,
        exec: bool,
    },
    /// A task has begun.
    Fork {
        child: Task,
        parent: Task,
    },
    /// A task has ended.
    Exit {
        task: Task,
        parent: Task,
    },
    /// A task switch on the CPU of the stamp.
    ///
    /// - Without `out`, the CPU switches to the stamp's task. `other` is the task before it.
    /// - With `out`, the CPU switches away from the stamp's task. `other` is the task after it.
    Switch {
        out: bool,
        other: Task,
    },
    /// The kernel has generated code at run time, such as a BPF program. `kind` and `flags` are those of
    /// `PERF_RECORD_KSYMBOL`.
    Code {
        address: u64,
        length: u32,
        kind: u16,
        flags: u16,
        name: String,
    },
    /// The cgroup with this id has this path from the root of its hierarchy.
    Cgroup {
        id: u64,
        path: String,
    },
    /// The number of records that are missing.
    Lost(u64),
    Sample(Sample),
}

impl Default for Body {
    fn default() -> Self {
        Self::Sample(Sample::default())
    }
}

/// A part of a file that is mapped to be executed, or as data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Map {
    pub(crate) task: Task,
    /// The mapping belongs to the kernel, and not to a task.
    pub(crate) is_kernel: bool,
    /// The mapping can't be executed.
    pub(crate) is_data: bool,
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// Offset of `start` in the file.
    pub(crate) offset: u64,
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    /// The file's build-id, in the place of device and inode; empty if the record has these.
    pub(crate) build_id: Vec<u8>,
    pub(crate) protection: u32,
    pub(crate) flags: u32,
    /// Path of the file, or `//anon`, `[vdso]`, `[kernel.kallsyms]_text`.
    pub(crate) file: PathBuf,
}

/// A sample: the state of a CPU when an event overflowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The event's index.
    pub(crate) event: usize,
    pub(crate) ip: u64,
    /// The number of events since the previous sample.
    pub(crate) period: u64,
    /// The call chain as perf has it: from the sampled address to the outermost caller, with marks between kernel and
    /// program.
    pub(crate) chain: Vec<u64>,
    /// The branches, the newest first.
    pub(crate) branches: Vec<Branch>,
    /// The registers and the stack that the program's part of the call chain is unwound from.
    pub(crate) user_stack: Option<Box<UserStack>>,
    /// The memory access of the instruction.
    pub(crate) access: MemoryAccess,
    /// The id of the task's cgroup; 0 if it was not recorded.
    pub(crate) cgroup: u64,
    /// The mode in which the CPU executed a guest; `None` if it executed the host.
    pub(crate) guest_mode: Option<GuestMode>,
}

impl Sample {
    /// Returns whether the CPU was in the kernel.
    pub(crate) const fn in_kernel(&self) -> bool {
        self.guest_mode.is_none() && is_kernel_address(self.ip)
    }
}

/// The mode of a CPU that executes a guest: `PERF_RECORD_MISC_CPUMODE_MASK` in the header of a sample. Addresses of the
/// guest are not addresses of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GuestMode {
    Hypervisor,
    Kernel,
    User,
}

impl GuestMode {
    const ALL: [(u16, Self); 3] = [(3, Self::Hypervisor), (4, Self::Kernel), (5, Self::User)];

    /// Returns the mode that is in the flags of a sample's header; `None` if the flags have a mode of the host.
    pub(super) fn of_flags(misc: u16) -> Option<Self> {
        let number = misc & PERF_RECORD_MISC_CPUMODE_MASK;
        let mut modes = Self::ALL.into_iter();
        modes.find_map(|(known, mode)| (known == number).then_some(mode))
    }

    /// Returns the flags for the header of a sample.
    pub(super) fn flags(self) -> u16 {
        let mut modes = Self::ALL.into_iter();
        modes
            .find_map(|(number, mode)| (mode == self).then_some(number))
            .unwrap_or(0)
    }

    /// Returns perf's mark of a function in this mode.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::Hypervisor => "[H]",
            Self::Kernel => "[g]",
            Self::User => "[u]",
        }
    }
}

/// The registers of a program, and its stack from the stack pointer on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserStack {
    /// The program has registers of 64 bits.
    pub(crate) is_64_bit: bool,
    /// Values in the order of `enum perf_event_x86_regs`, of the registers in [`Self::REGISTER_MASK`].
    pub(crate) registers: [u64; UserStack::REGISTERS],
    /// The part of the stack that could be read.
    pub(crate) stack: Vec<u8>,
    /// The size in bytes that was requested for the stack.
    pub(crate) requested_bytes: u64,
}

impl UserStack {
    /// Mask of the registers that are recorded, the same as perf's: all but DS, ES, FS and GS.
    pub(crate) const REGISTER_MASK: u64 = 0xff_0fff;
    /// Number of registers in [`Self::REGISTER_MASK`].
    pub(crate) const REGISTERS: usize = Self::REGISTER_MASK.count_ones() as usize;

    /// The default size of a stack in bytes, the same as perf's.
    pub(crate) const DEFAULT_SIZE: u32 = 8192;
    /// The largest size of a stack in bytes, which is limited by the 16 bits for the size of a record.
    pub(crate) const MAX_SIZE: u32 = 65528;
}

/// A branch that was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The processor had predicted another target; `None` if the prediction was not recorded.
    pub(crate) mispredicted: Option<bool>,
    /// The number of cycles since the previous branch; 0 if it is not known.
    pub(crate) cycles: u16,
}
