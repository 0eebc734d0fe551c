// SPDX-License-Identifier: GPL-2.0-only
//! The number of users of the slow context switch, which does more than close and open windows. The module `switch` has
//! the switch itself.

use core::sync::atomic::AtomicU32;

/// The number of users of the slow context switch: mappings that allow RDPMC, programs that still have RDPMC from
/// perf, events that record switches, events of cgroups, and precise events of CPUs.
///
/// ATOMICS: relaxed. Before a program may use RDPMC, every CPU is called (sys/rdpmc.c): the CPU's
/// later switches see the new number, and a CPU that runs the program at that moment switches to
/// the program once more. Programs that have RDPMC from perf are counted before the first event of
/// a task counts. A precise event of a CPU is counted before that CPU is called to enable it.
pub(super) static SLOW_SWITCH_USERS: AtomicU32 = AtomicU32::new(0);
