// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Numbers of `<linux/perf_event.h>` (Linux 7.3) besides the numbers of `struct perf_event_attr`:
//! the flags of perf_event_open(2), the types of records and the flags in their headers, and the
//! marks in call chains.
//!
//! The constants have the names of that header.

/// Flags of perf_event_open(2).
#[allow(missing_docs)]
mod open_flag {
    pub const PERF_FLAG_FD_NO_GROUP: u32 = 1 << 0;
    pub const PERF_FLAG_FD_OUTPUT: u32 = 1 << 1;
    pub const PERF_FLAG_PID_CGROUP: u32 = 1 << 2;
    pub const PERF_FLAG_FD_CLOEXEC: u32 = 1 << 3;
}
pub use open_flag::*;

/// Types of records: `enum perf_event_type`.
#[allow(missing_docs)]
mod record_type {
    pub const PERF_RECORD_MMAP: u32 = 1;
    pub const PERF_RECORD_LOST: u32 = 2;
    pub const PERF_RECORD_COMM: u32 = 3;
    pub const PERF_RECORD_EXIT: u32 = 4;
    pub const PERF_RECORD_THROTTLE: u32 = 5;
    pub const PERF_RECORD_UNTHROTTLE: u32 = 6;
    pub const PERF_RECORD_FORK: u32 = 7;
    pub const PERF_RECORD_READ: u32 = 8;
    pub const PERF_RECORD_SAMPLE: u32 = 9;
    pub const PERF_RECORD_MMAP2: u32 = 10;
    pub const PERF_RECORD_LOST_SAMPLES: u32 = 13;
    pub const PERF_RECORD_SWITCH: u32 = 14;
    pub const PERF_RECORD_SWITCH_CPU_WIDE: u32 = 15;
    pub const PERF_RECORD_KSYMBOL: u32 = 17;
    pub const PERF_RECORD_CGROUP: u32 = 19;
    pub const PERF_RECORD_CALLCHAIN_DEFERRED: u32 = 22;
}
pub use record_type::*;

/// Flags in the headers of records. The meaning of the bits from 13 on depends on the type.
#[allow(missing_docs)]
mod record_misc {
    pub const PERF_RECORD_MISC_CPUMODE_MASK: u16 = 0b111;
    pub const PERF_RECORD_MISC_KERNEL: u16 = 1;
    pub const PERF_RECORD_MISC_USER: u16 = 2;

    /// The mapping can't be executed.
    pub const PERF_RECORD_MISC_MMAP_DATA: u16 = 1 << 13;
    /// The task got the name by an exec.
    pub const PERF_RECORD_MISC_COMM_EXEC: u16 = 1 << 13;
    /// The perf tool made the record, for a task that it found in `/proc`.
    pub const PERF_RECORD_MISC_FORK_EXEC: u16 = 1 << 13;
    /// The task stops running. Without this flag, the task starts running.
    pub const PERF_RECORD_MISC_SWITCH_OUT: u16 = 1 << 13;
    /// The address of the sample is the address of the exact instruction.
    pub const PERF_RECORD_MISC_EXACT_IP: u16 = 1 << 14;
    /// The mapping's record has a build-id in the place of device and inode.
    pub const PERF_RECORD_MISC_MMAP_BUILD_ID: u16 = 1 << 14;
    /// The task was preempted: it did not go to sleep.
    pub const PERF_RECORD_MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    /// A BPF filter dropped the samples, and they are not lost.
    pub const PERF_RECORD_MISC_LOST_SAMPLES_BPF: u16 = 1 << 15;
}
pub use record_misc::*;

/// Words in a call chain that say whether addresses of the kernel or of the program follow: `enum perf_callchain_context`.
#[allow(missing_docs)]
mod chain_mark {
    pub const PERF_CONTEXT_KERNEL: u64 = 128_u64.wrapping_neg();
    pub const PERF_CONTEXT_USER: u64 = 512_u64.wrapping_neg();
    /// A cookie follows. A later record with the same cookie has the program's part of the chain.
    pub const PERF_CONTEXT_USER_DEFERRED: u64 = 640_u64.wrapping_neg();
    /// The smallest mark: all words from here on are marks and not addresses.
    pub const PERF_CONTEXT_MAX: u64 = 4095_u64.wrapping_neg();
}
pub use chain_mark::*;
