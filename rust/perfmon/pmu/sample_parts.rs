// SPDX-License-Identifier: GPL-2.0-only
//! The parts of a sample that are read from the PMU: counts and branches.

use super::lbr;
use crate::{
    cpu::ThisCpu,
    logic::{
        counter::CounterId,
        event_attr::{PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_READ},
    },
    ring::{PmuReadings, SampleBranches, Sampler},
};

/// The parts of a sample that are read from the PMU.
pub(crate) const SAMPLE_PARTS: u64 = PERF_SAMPLE_READ | PERF_SAMPLE_BRANCH_STACK;

/// Reads the counts of a sample, and the branches unless they are in the processor's record. The buffer of the
/// processor's samples (PEBS) must be empty, or the totals must include its records. Returns `None` if a count that the
/// sample needs is not available.
///
/// # Safety
///
/// To be called in this CPU's overflow handler, while `counter` is armed, and not again before the result is dropped.
#[inline(always)]
pub(crate) unsafe fn read_sample_parts<'a>(
    here: ThisCpu<'a>,
    counter: CounterId,
    sampler: &Sampler,
    now: u64,
) -> Option<PmuReadings<'a>> {
    let (percpu, sampling) = (here.percpu(), &sampler.sampling);
    let mut readings = PmuReadings::EMPTY;
    if sampling.format.has(PERF_SAMPLE_READ) {
        // SAFETY: `counts_in_nmi` must be called in this CPU's overflow handler, while the counter is armed, and not
        // again before its result is dropped: the caller promises all three for this function, whose result has the
        // counts.
        let counts = unsafe { percpu.counts_in_nmi(here, here.pmu(), counter, sampling.read, now) };
        readings.counts = counts?;
    }
    if let (Some(stack), None) = (sampling.branches, &sampling.recorded_branches) {
        // SAFETY: `lbr::read` must be called in this CPU's overflow handler, and not again before its result is
        // dropped: the caller promises both for this function, whose result has the branches.
        let stack = unsafe { lbr::read(here, here.pmu(), stack.info_mask) };
        readings.branches = SampleBranches::Read {
            words: stack.words,
            newest: stack.newest,
        };
    }
    Some(readings)
}
