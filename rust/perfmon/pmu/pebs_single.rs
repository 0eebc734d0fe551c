// SPDX-License-Identifier: GPL-2.0-only
//! Samples of the processor (PEBS) that need an interrupt each: see [`crate::ring::RecordedPlace`].

use super::{read_sample_parts, SAMPLE_PARTS};
use crate::{
    cpu::{timestamp, tsc_khz, Regs, ThisCpu},
    logic::{
        counter::{each_counter, CounterId},
        event_attr::PERF_SAMPLE_READ,
        pebs::SingleRecord,
        pmu::Pmu,
        precise::MIN_DISTANCE_IN_KERNEL,
    },
    ring::{Interrupt, PmuReadings, RecordedPlace, SampleBranches, Sampler},
};

/// Writes the sample of a record. `regs` are the registers that the record's NMI has interrupted; `None` if the buffer
/// is read outside of NMIs, before that NMI has come.
#[cold]
#[inline(never)]
pub(super) fn write_single(
    here: ThisCpu<'_>,
    counter: CounterId,
    record: SingleRecord<'_>,
    regs: Option<Regs<'_>>,
) {
    let percpu = here.percpu();
    let Some(sampler) = percpu.sampler(counter) else {
        return;
    };
    if percpu.samplers.suspended.get() != 0 {
        return sampler.lose_samples(1);
    }
    let now = timestamp();
    let sampling = &sampler.sampling;
    let parts_to_read = match sampling.recorded_branches {
        Some(_) => PERF_SAMPLE_READ,
        None => SAMPLE_PARTS,
    };
    let mut readings = PmuReadings::EMPTY;
    if sampling.format.has(parts_to_read) {
        let parts = regs.and_then(|_| {
            // SAFETY: `read_sample_parts` must be called in this CPU's overflow handler, while the counter is armed, and
            // not again before its result is dropped. There are registers of an NMI, so this is the overflow handler; the
            // counter is armed, since it has a sampler; and the result is dropped when this function returns.
            unsafe { read_sample_parts(here, counter, sampler, now) }
        });
        let Some(parts) = parts else {
            return sampler.lose_sample();
        };
        readings = parts;
    }
    if let Some(branches) = &sampling.recorded_branches {
        readings.branches = SampleBranches::of_record(branches, record.branches);
    }
    let chain = match regs {
        Some(_) => &percpu.samplers.chain,
        None => &percpu.samplers.chain_outside_nmi,
    };
    sampler.sample_single(Interrupt {
        place: RecordedPlace {
            record,
            regs: regs.map(Regs::get),
            anchor: sampler.anchor(now, tsc_khz()),
        },
        task: percpu.task_of_sample(counter, sampler),
        period: percpu.sampled_counter(counter).period.get(),
        cpu: here.id().as_u32(),
        readings: sampling.format.has(SAMPLE_PARTS).then_some(&readings),
        // SAFETY: `words` must be called by the handler that the words are for, and not again
        // before its result is dropped. `chain` is for the overflow handler if there are registers
        // of an NMI, otherwise for code that runs with interrupts off, such as this function's
        // callers outside of NMIs. The result is dropped when `sample_single` returns.
        chain: unsafe { chain.words() },
    });
}

impl Pmu {
    /// Delays the next records of counters that count in kernel mode, if the records would come within a few events and
    /// few records cause an interrupt. `lose_overdue` counts a counter's overdue samples as lost, and returns the
    /// number of events to the next sample. To be called at the end of the overflow handler, while the counters do not
    /// count.
    ///
    /// Linux perf's handler may run next in the same NMI, and would take the interrupt of such a record for an
    /// interrupt of its own buffer.
    pub(crate) fn delay_kernel_records(
        &self,
        here: ThisCpu<'_>,
        lose_overdue: impl Fn(CounterId, &Sampler, u64) -> u64,
    ) {
        let percpu = here.percpu();
        let Some(format) = self.capabilities.pebs else {
            return;
        };
        let interrupts_often = percpu.pebs.counters_with_interrupt_per_record.get() != 0
            || percpu.pebs.is_small(format);
        if !interrupts_often || percpu.samplers.suspended.get() != 0 {
            return;
        }
        for counter in each_counter(percpu.pebs.armed_counters.get() & percpu.slow_path.get()) {
            let (value, msrs) = (percpu.value(counter), self.msrs(counter));
            let Some(sampler) = percpu.sampler(counter) else {
                continue;
            };
            if value.has_overflowed(here, msrs.read) {
                continue;
            }
            let total = value.update_in_nmi(here, msrs.read);
            let events_left = lose_overdue(counter, sampler, total);
            if events_left < MIN_DISTANCE_IN_KERNEL {
                value.load(here, msrs.write, MIN_DISTANCE_IN_KERNEL, total);
                percpu.pebs.mark_overdue(counter);
            } else if percpu.pebs.overdue_counters.get() & counter.bit() != 0 {
                // The overdue sample, which the counter is loaded for, has just been counted as lost.
                value.load(here, msrs.write, events_left, total);
                percpu.pebs.unmark_overdue(counter);
            }
        }
    }
}
