// SPDX-License-Identifier: GPL-2.0-only
//! The registers of the samples that the processor takes ([`crate::logic::pebs`]). [`crate::percpu`] has the buffer.

use super::{lbr, pebs_single::write_single, skid::SKID_TICKS};
use crate::{
    cpu::{msr, Regs, ThisCpu},
    logic::{
        counter::{each_counter, CounterId},
        cpuid::Capabilities,
        evtsel::EventSelect,
        msr::Msr,
        pebs::{PebsFormat, RecordGroups, SingleRecord},
        plan::Step,
        pmu::Pmu,
        precise::min_load,
    },
    ring::Sampler,
    sys::{ffi, time::jiffies},
};
use core::sync::atomic::{compiler_fence, Ordering::SeqCst};
use kernel::pr_warn_once;

/// The bit of the global status that is set when the buffer is filled up to its threshold.
const BUFFER_FULL: u64 = 1 << 62;

/// Returns the format of the samples that this CPU takes; `None` if a register or the DS area is missing.
pub(super) fn probe(here: ThisCpu<'_>, capabilities: &Capabilities) -> Option<PebsFormat> {
    /// The bit of `IA32_MISC_ENABLE` that is set if there is no PEBS.
    const UNAVAILABLE: u64 = 1 << 12;

    let format = capabilities.pebs?;
    let misc = msr::read_safe(here, Msr::MISC_ENABLE).ok()?;
    // SAFETY: `perfmon_pebs_has_area()` has no precondition: it only reads how the kernel maps DS areas.
    let has_ds_area = unsafe { ffi::perfmon_pebs_has_area() };
    let registers = [Msr::DS_AREA, Msr::PEBS_ENABLE];
    let can_read = registers
        .into_iter()
        .all(|msr| msr::read_safe(here, msr).is_ok());
    (misc & UNAVAILABLE == 0 && has_ds_area && can_read).then_some(format)
}

/// Returns whether KVM may run guests on this CPU. If so, the processor must not write records,
/// since it would continue to do so in guests, at the same addresses.
pub(crate) fn may_run_guests(_here: ThisCpu<'_>) -> bool {
    // SAFETY: `perfmon_vmx_is_on()` requires that the caller stays on its CPU, which `_here` proves.
    unsafe { ffi::perfmon_vmx_is_on() }
}

/// Clears the records of the program that runs here, if the page tables of the next program map
/// these records, too. To be called in [`Pmu::with_records_converted`].
fn hide_records(_here: ThisCpu<'_>) {
    // SAFETY: `perfmon_pebs_hide()` requires that the caller stays on the CPU, which `_here` proves, and that the
    // processor writes no records: `with_records_converted` has paused the counters that count in kernel mode, and the
    // others do not count here.
    unsafe { ffi::perfmon_pebs_hide() };
}

/// The counters that are paused while records are read.
#[must_use]
pub(crate) struct PausedCounters(u64);

impl Pmu {
    /// Starts a stopped counter with precise samples: the first sample after `events_left` events,
    /// then one sample every `period` events.
    #[cold]
    pub(crate) fn start_precise(
        &self,
        here: ThisCpu<'_>,
        counter: CounterId,
        events_left: u64,
        period: u64,
    ) {
        let percpu = here.percpu();
        let (pebs, value) = (&percpu.pebs, percpu.value(counter));
        let Some(format) = self.capabilities.pebs else {
            return;
        };
        if !pebs.has_ds_area() {
            self.begin_pebs(here, format);
        }
        if pebs.armed_counters.get() == 0 {
            // A few processors write a record shortly after its counter was stopped. Such a record
            // is of the task before, and must not become a sample of this counter.
            pebs.empty_buffer();
        }
        if matches!(format, PebsFormat::Merged) {
            // The write to `PEBS_ENABLE` below puts merged records of other counters into the buffer, which has to have
            // room for them.
            self.convert_records_so_far(here);
        }
        let sampler = percpu.sampler(counter);
        let groups = sampler.map_or(RecordGroups::NONE, Sampler::record_groups);
        self.select_groups(here, format, groups.union(pebs.kept_groups(jiffies())));
        let select = value.select();
        pebs.set_ds_word(format.reset_word(counter), value.load_value(period));
        self.load_precise(here, counter, format, events_left, period);
        percpu.arm_pebs(counter, format);
        if select.is_kernel() {
            percpu.slow_path.insert(counter.bit());
        }
        self.set_pebs_thresholds(here, format);
        msr::write(here, Msr::PEBS_ENABLE, pebs.enabled_counters());
        if let Some(step) = self.registers.enable_global(counter) {
            msr::execute_step(here, &step);
        }
        self.rmw_shared(here, || {
            msr::execute_step(here, &self.precise_step(here, counter, true));
        });
        self.watch_counters(here);
    }

    /// Returns the smallest number of events that a counter with precise samples of `select` can be loaded for.
    pub(crate) fn min_precise_load(&self, select: EventSelect) -> u32 {
        let min_events = self.load_limit.min_events(select);
        min_events.max(min_load(select, &self.capabilities))
    }

    /// Loads a counter, whose samples the processor takes, for `events_left` events. The counter's
    /// total must be up to date. If the counter can't be loaded for so few events, the sample is
    /// overdue. While sampling is suspended, loads the counter for as many events as possible
    /// instead, since no sample is wanted. This does not apply to merged samples, which cause no
    /// interrupt.
    fn load_precise(
        &self,
        here: ThisCpu<'_>,
        counter: CounterId,
        format: PebsFormat,
        events_left: u64,
        period: u64,
    ) {
        let percpu = here.percpu();
        let (pebs, value) = (&percpu.pebs, percpu.value(counter));
        let load = |events| value.load(here, self.msrs(counter).write, events, value.total());
        let min_load = if format.merges(period) {
            PebsFormat::MERGED_PERIOD
        } else if percpu.samplers.suspended.get() != 0 {
            return load(percpu.sampled_counter(counter).max_load.get());
        } else {
            self.min_precise_load(value.select()).into()
        };
        let events_to_load = events_left.max(min_load);
        load(events_to_load);
        if events_to_load > events_left && period > min_load {
            pebs.mark_overdue(counter);
        }
    }

    /// Loads the counters whose samples the processor takes, each for its next sample.
    /// `events_left` computes the number of events to the next sample of a counter from its total.
    /// The caller must have emptied the buffer, and the counters must not count meanwhile.
    ///
    /// A counter that has overflowed keeps its value: the processor writes the record of this overflow, and loads the
    /// counter, at the next event.
    pub(crate) fn reload_precise(
        &self,
        here: ThisCpu<'_>,
        events_left: impl Fn(CounterId, u64) -> u64,
    ) {
        let percpu = here.percpu();
        let pebs = &percpu.pebs;
        let Some(format) = self.capabilities.pebs else {
            return;
        };
        for counter in each_counter(pebs.armed_counters.get()) {
            let (value, msr) = (percpu.value(counter), self.msrs(counter).read);
            if value.has_overflowed(here, msr) {
                continue;
            }
            let events_left = events_left(counter, value.update_in_nmi(here, msr));
            pebs.unmark_overdue(counter);
            let period = percpu.sampled_counter(counter).period.get();
            self.load_precise(here, counter, format, events_left, period);
        }
    }

    /// Ends the samples that [`Self::start_precise`] began. Leaves the counter stopped, with its value up to date.
    #[cold]
    pub(crate) fn stop_precise(&self, here: ThisCpu<'_>, counter: CounterId) {
        let percpu = here.percpu();
        let Some(format) = self.capabilities.pebs else {
            return;
        };
        self.rmw_shared(here, || {
            msr::execute_step(here, &self.precise_step(here, counter, false));
        });
        // The last events may have filled the buffer, so its PMI may come at any time.
        let expectation = percpu
            .pending_pmi
            .expect(jiffies().wrapping_add(SKID_TICKS));
        let is_full = self.with_records_converted(here, || {
            hide_records(here);
            self.acknowledge_buffer(here)
        });
        if !is_full {
            percpu.pending_pmi.cancel(expectation);
        }
        percpu.slow_path.remove(counter.bit());
        percpu.disarm_pebs(counter, jiffies());
        self.set_pebs_thresholds(here, format);
        msr::write(here, Msr::PEBS_ENABLE, percpu.pebs.enabled_counters());
        if percpu.pebs.armed_counters.get() != 0 {
            let groups = percpu.pebs.groups_without_unused_branches();
            self.select_groups(here, format, groups);
        }
        // Some processors set the counter's bit in IA32_PERF_GLOBAL_STATUS also for an overflow that has become a
        // record.
        if let Some(clear) = self.registers.clear_overflow(counter) {
            msr::execute_step(here, &clear);
        }
        self.update(here, counter);
        let (value, msrs) = (percpu.value(counter), self.msrs(counter));
        let events = percpu.sampled_counter(counter).max_load.get();
        value.load(here, msrs.write, events, value.total());
    }

    /// Converts the records that the processor has written so far to samples, if it takes samples. For tasks, and for
    /// interrupts other than NMIs.
    #[inline(always)]
    pub(crate) fn convert_records_so_far(&self, here: ThisCpu<'_>) {
        if here.percpu().pebs.armed_counters.get() != 0 {
            self.with_records_converted(here, || ());
        }
    }

    /// Converts the records as [`Self::convert_records_so_far`] does, and hides them from the program that is switched
    /// to.
    #[inline(always)]
    pub(crate) fn convert_records_at_switch(&self, here: ThisCpu<'_>) {
        if here.percpu().pebs.armed_counters.get() != 0 {
            self.with_records_converted(here, || hide_records(here));
        }
    }

    /// Converts the records that the processor has written to samples, and calls `f` before the processor can write
    /// more. For tasks, and for interrupts other than NMIs.
    #[cold]
    #[inline(never)]
    pub(crate) fn with_records_converted<R>(&self, here: ThisCpu<'_>, f: impl FnOnce() -> R) -> R {
        let is_reading = &here.percpu().pebs.is_reading;
        // `is_reading` is set only while the counters are paused: an NMI that finds it set acknowledges a full buffer
        // without emptying it, and a counter that still counts would fill the buffer again.
        let paused = self.pause_precise(here);
        let stopped = self.stop_beside_perf(here, &paused);
        is_reading.set(1);
        compiler_fence(SeqCst);
        self.convert_records(here, None);
        let result = f();
        compiler_fence(SeqCst);
        is_reading.set(0);
        self.start_beside_perf(here, stopped);
        self.resume_precise(here, paused);
        result
    }

    /// Converts the records that the processor has written to samples, in the overflow handler, which has interrupted
    /// `regs`. The processor can't write more until [`Self::resume_precise`]. Returns `None`, and does nothing, if the
    /// NMI has interrupted [`Self::with_records_converted`].
    #[cold]
    #[inline(never)]
    pub(crate) fn convert_records_in_nmi(
        &self,
        here: ThisCpu<'_>,
        regs: Regs<'_>,
    ) -> Option<PausedCounters> {
        if here.percpu().pebs.is_reading.get() != 0 {
            return None;
        }
        let paused = self.pause_precise(here);
        self.convert_records(here, Some(regs));
        Some(paused)
    }

    /// Converts the records in the buffer to samples, and empties the buffer. `regs` are the registers that an NMI has
    /// interrupted; `None` outside of NMIs.
    fn convert_records(&self, here: ThisCpu<'_>, regs: Option<Regs<'_>>) {
        let percpu = here.percpu();
        let Some(format) = self.capabilities.pebs.filter(|_| percpu.pebs.has_ds_area()) else {
            return;
        };
        let write_single =
            |counter, record: SingleRecord<'_>| write_single(here, counter, record, regs);
        let has_branches =
            percpu.pebs.counters_with_branches.get() == 0 || lbr::recorded_all_branches(here, self);
        percpu.empty_pebs_buffer(here, format, has_branches, write_single);
        if matches!(format, PebsFormat::Merged) {
            self.convert_merged_records(here, write_single);
        }
        let overdue_counters = percpu.pebs.overdue_counters.get();
        if overdue_counters != 0 {
            self.reload_overdue(here, overdue_counters);
        }
        self.apply_next_periods(here);
        if percpu.samplers.suspended.get() != 0 {
            // The counters are loaded for as many events as possible, so that no record and no interrupt comes before
            // the tick that ends the suspension.
            self.reload_precise(here, |counter, _| {
                percpu.sampled_counter(counter).max_load.get()
            });
        }
    }

    /// Converts the merged records of the virtual PMU to samples. Each write of `IA32_PEBS_ENABLE`
    /// adds as many of these records to the buffer as fit.
    fn convert_merged_records(
        &self,
        here: ThisCpu<'_>,
        write_single: impl Fn(CounterId, SingleRecord<'_>) + Copy,
    ) {
        let percpu = here.percpu();
        loop {
            msr::write(here, Msr::PEBS_ENABLE, percpu.pebs.enabled_counters());
            if !percpu.empty_merged_buffer(here, write_single) {
                return;
            }
        }
    }

    /// Reloads the counters whose overdue sample has come, so that the counters overflow at the
    /// next sample. A counter whose overdue sample is still to come stays marked.
    #[cold]
    fn reload_overdue(&self, here: ThisCpu<'_>, overdue_counters: u64) {
        let percpu = here.percpu();
        for counter in each_counter(overdue_counters) {
            let (value, sampled) = (percpu.value(counter), percpu.sampled_counter(counter));
            let total = value.update_in_nmi(here, self.msrs(counter).read);
            let period = sampled.period.get();
            let events_left = period.saturating_sub(sampled.unrecorded_events(total));
            if events_left >= self.min_precise_load(value.select()).into() {
                percpu.pebs.unmark_overdue(counter);
                value.load(here, self.msrs(counter).write, events_left, total);
            }
        }
    }

    /// Pauses the precise counters that count in kernel mode, which would count this code. The
    /// other counters don't count in the kernel. The result has only the counters that were
    /// enabled, since an NMI may interrupt code that has already paused some counters.
    fn pause_precise(&self, here: ThisCpu<'_>) -> PausedCounters {
        let percpu = here.percpu();
        let counters = percpu.pebs.armed_counters.get() & percpu.slow_path.get();
        let Some(global) = self.registers.global.filter(|_| counters != 0) else {
            return PausedCounters(0);
        };
        let control = msr::read(here, global.control);
        let enabled_counters = control & counters;
        if enabled_counters != 0 {
            msr::write(here, global.control, control & !counters);
        }
        PausedCounters(enabled_counters)
    }

    /// Stops paused counters by their own control registers as well, if there is a place-holder: Linux perf's handler,
    /// which may interrupt, enables all counters in the global register at its end. Returns the counters that were
    /// running.
    fn stop_beside_perf(&self, here: ThisCpu<'_>, paused: &PausedCounters) -> PausedCounters {
        let mut running = 0;
        if self.place_holder.is_none() {
            return PausedCounters(running);
        }
        for counter in each_counter(paused.0) {
            let start_step = self.precise_step(here, counter, true);
            // The code that is closing the counter's window may have stopped the counter already.
            let control = msr::read(here, start_step.msr);
            if start_step.matches(control) {
                running |= counter.bit();
                self.rmw_shared(here, || {
                    msr::execute_step(here, &self.precise_step(here, counter, false));
                });
            }
        }
        PausedCounters(running)
    }

    /// Undoes [`Self::stop_beside_perf`].
    fn start_beside_perf(&self, here: ThisCpu<'_>, PausedCounters(counters): PausedCounters) {
        for counter in each_counter(counters) {
            self.rmw_shared(here, || {
                msr::execute_step(here, &self.precise_step(here, counter, true));
            });
        }
    }

    /// Returns the step that starts or stops a counter with precise samples by its own control register.
    fn precise_step(&self, here: ThisCpu<'_>, counter: CounterId, run: bool) -> Step {
        let select = here.percpu().value(counter).select();
        let is_adaptive = self.capabilities.pebs.is_some_and(PebsFormat::is_adaptive);
        self.registers
            .control_precise(counter, select, run, is_adaptive)
    }

    /// Starts paused counters again.
    #[cold]
    pub(crate) fn resume_precise(
        &self,
        here: ThisCpu<'_>,
        PausedCounters(counters): PausedCounters,
    ) {
        if let Some(global) = self.registers.global.filter(|_| counters != 0) {
            msr::execute_step(here, &Step::set_bits(global.control, counters, counters));
        }
    }

    /// Acknowledges the interrupt of a full buffer. Returns whether there was one.
    pub(crate) fn acknowledge_buffer(&self, here: ThisCpu<'_>) -> bool {
        let Some(global) = &self.registers.global else {
            return false;
        };
        let is_full = msr::read(here, global.status) & BUFFER_FULL != 0;
        if is_full {
            msr::write(here, global.clear, BUFFER_FULL);
        }
        is_full
    }

    /// Ends the processor's samples on this CPU if KVM may run guests here, and marks that their
    /// counters may have missed events.
    #[cold]
    pub(crate) fn yield_to_guests(&self, here: ThisCpu<'_>) {
        if !may_run_guests(here) {
            return;
        }
        let armed_counters = here.percpu().pebs.armed_counters.get();
        for counter in each_counter(armed_counters) {
            self.stop_precise(here, counter);
            self.start(here, counter);
        }
        here.percpu().mark_lost(armed_counters);
        pr_warn_once!(
            "KVM has begun to use CPU {}: precise samples end, since they would go to guests\n",
            here.id().as_u32()
        );
    }

    /// Gives the processor this CPU's DS area.
    fn begin_pebs(&self, here: ThisCpu<'_>, format: PebsFormat) {
        let pebs = &here.percpu().pebs;
        let (mut start, mut end) = (0, 0);
        // SAFETY: `perfmon_pebs_begin()` requires that the caller stays on the CPU, which `here` proves, and pointers
        // that it may write to: both are to local variables.
        let area = unsafe { ffi::perfmon_pebs_begin(&mut start, &mut end) };
        for (saved, msr) in pebs.saved.iter().zip(SAVED_REGISTERS) {
            if msr != Msr::PEBS_DATA_CFG || format.is_adaptive() {
                saved.set(msr::read(here, msr));
            }
        }
        // SAFETY: `set_up_ds_area` requires that only this CPU uses the area and the buffer until `tear_down_ds_area`,
        // which `end_pebs` calls. Both are this CPU's own, and Linux perf does not use them until then: the general
        // counters stay reserved or, with a place-holder, perf's events wait for them.
        unsafe { pebs.set_up_ds_area(area, (start, end), format) };
        msr::write(here, Msr::PEBS_ENABLE, 0);
        msr::write(here, Msr::DS_AREA, area);
        if format.is_adaptive() {
            msr::write(here, Msr::PEBS_DATA_CFG, RecordGroups::NONE.bits());
        }
    }

    /// Makes the processor write records with these groups, if the groups can be selected.
    fn select_groups(&self, here: ThisCpu<'_>, format: PebsFormat, groups: RecordGroups) {
        let pebs = &here.percpu().pebs;
        if format.is_adaptive() && pebs.groups() != groups {
            // All records in the buffer must have the same layout. The processor writes no record
            // while the layout changes.
            self.with_records_converted(here, || {
                msr::write(here, Msr::PEBS_ENABLE, 0);
                pebs.set_groups(groups, format);
                self.set_pebs_thresholds(here, format);
                msr::write(here, Msr::PEBS_DATA_CFG, groups.bits());
                msr::write(here, Msr::PEBS_ENABLE, pebs.enabled_counters());
            });
        }
    }

    /// Takes the DS area away from the processor, if the processor uses it. Must be called with all windows closed.
    pub(super) fn end_pebs(&self, here: ThisCpu<'_>) {
        let pebs = &here.percpu().pebs;
        let (true, Some(format)) = (pebs.has_ds_area(), self.capabilities.pebs) else {
            return;
        };
        for (saved, msr) in pebs.saved.iter().zip(SAVED_REGISTERS).rev() {
            if msr != Msr::PEBS_DATA_CFG || format.is_adaptive() {
                msr::write(here, msr, saved.get());
            }
        }
        pebs.tear_down_ds_area();
        // SAFETY: `perfmon_pebs_end()` requires that the caller stays on the CPU, which `here` proves, and that the
        // processor does not use the area: DS_AREA and PEBS_ENABLE have their saved values again.
        unsafe { ffi::perfmon_pebs_end() };
    }
}

/// The saved registers, in the order of [`PebsState::saved`](crate::percpu::pebs::PebsState::saved). They are restored
/// in the reverse order, the address of the DS area last.
const SAVED_REGISTERS: [Msr; 3] = [Msr::DS_AREA, Msr::PEBS_DATA_CFG, Msr::PEBS_ENABLE];
