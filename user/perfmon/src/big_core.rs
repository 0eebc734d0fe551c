// SPDX-License-Identifier: MIT OR Apache-2.0
//! The big cores of a hybrid processor. The module counts raw events on these cores, so their CPUID says which events
//! exist.

use std::fs;
use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::thread;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use raw_cpuid::{CpuIdReader, CpuIdReaderNative, CpuIdResult};

use crate::cpu_list;

/// CPUID of a big core; on a processor that is not hybrid, CPUID of the current CPU.
///
/// If the calling program may run on small cores only, this is CPUID of a small core.
#[derive(Clone, Copy, Debug)]
pub struct BigCoreCpuid;

impl CpuIdReader for BigCoreCpuid {
    fn cpuid2(&self, leaf: u32, subleaf: u32) -> CpuIdResult {
        on_big_core(|| CpuIdReaderNative.cpuid2(leaf, subleaf))
    }
}

/// Calls `f` on a big core of a hybrid processor, in a thread of its own. On other processors, calls `f` in the calling
/// thread.
pub(crate) fn on_big_core<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    match *BIG_CORES {
        // If the process may not run on the big cores, `f` runs on any CPU.
        Some(cpus) => on_cpus(&cpus, |_| f()),
        None => f(),
    }
}

/// Calls `f` in a thread of its own that runs on `cpus` only. The argument of `f` is `false` if the process may not run on
/// these CPUs; `f` then runs on any CPU.
pub(crate) fn on_cpus<T: Send>(cpus: &CpuSet, f: impl FnOnce(bool) -> T + Send) -> T {
    const THIS_THREAD: Pid = Pid::from_raw(0);

    let result = thread::scope(|scope| {
        let run_on_cpus = move || f(sched_setaffinity(THIS_THREAD, cpus).is_ok());
        scope.spawn(run_on_cpus).join()
    });
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The big cores. They never change, so they are looked up once: [`BigCoreCpuid`] needs them for
/// each leaf that it reads.
static BIG_CORES: LazyLock<Option<CpuSet>> = LazyLock::new(big_cores);

/// Returns the big cores that Linux has found; `None` on a processor that is not hybrid.
fn big_cores() -> Option<CpuSet> {
    cpu_list::to_set(&fs::read_to_string("/sys/devices/cpu_core/cpus").ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_called_once() {
        let mut calls = 0;
        on_big_core(|| calls += 1);
        assert_eq!(calls, 1);
    }
}
