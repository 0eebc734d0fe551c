// SPDX-License-Identifier: GPL-2.0-only
//! The number of those that need the slow context switch, which does more than to close and open windows. The switch
//! itself is in `switch`.

use core::sync::atomic::AtomicU32;

/// The users of the slow context switch: mappings through which programs may use RDPMC, programs that perf has left it
/// to, events that record switches, and events of cgroups.
///
/// ATOMICS: relaxed. Before a program may use RDPMC, every CPU is called (sys/rdpmc.c). Its later switches see the new
/// number, and a CPU that runs the program at that moment switches to it once more. Programs that perf has left RDPMC to
/// are counted before the first event of a task counts.
pub(super) static SLOW_SWITCH_USERS: AtomicU32 = AtomicU32::new(0);
