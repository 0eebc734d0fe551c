// SPDX-License-Identifier: GPL-2.0-only
//! Starting and stopping a trace on one CPU.

use super::buffer::Buffer;
use crate::{
    cpu::{topology, CpuSet, ThisCpu, CR3_ADDRESS_SPACE_MASK},
    logic::{
        branches::Branches,
        counter::{each_counter, mask_of, CounterId},
        trace_config::{Config, ConfigEvent, EventRole},
        trace_record::HEADER_BYTES,
        values::{self, MiscEvent},
    },
    percpu::{CpuTrace, BRANCHES_OF_TRACE, RECORD_WRITTEN},
    pmu::{lbr, values as pmu_values},
};
use kernel::{cpu::CpuId, sync::Arc};

/// The configuration of a trace that is about to start, for all CPUs.
pub(super) struct CpuTraceConfig<'a> {
    pub(super) config: &'a Config,
    /// The CPUs that are used for counting. Among these, the CPUs with a traced buffer record the
    /// trace.
    pub(super) cpus: &'a CpuSet,
    /// A buffer for each CPU number.
    pub(super) buffers: &'a [Arc<Buffer>],
    /// The counters of the config's events, in the order of the events; `None` for an event of `PERFMON_GROUP_MISC`,
    /// which no counter counts.
    pub(super) counters: &'a [Option<CounterId>],
    /// The records may show address spaces and kernel addresses.
    pub(super) allow_kernel_addrs: bool,
}

impl CpuTraceConfig<'_> {
    /// Returns the events that this CPU counts, with their counters.
    fn events(&self, here: ThisCpu<'_>) -> impl Iterator<Item = (CounterId, &ConfigEvent)> {
        let kind = here.percpu().core_kind();
        self.config
            .events()
            .zip(self.counters)
            .filter(move |(event, _)| event.counts_on(kind))
            .filter_map(|(event, counter)| Some(((*counter)?, event)))
    }

    /// Returns the CPUs that record the trace, lowest first. A CPU that came online after its buffer was allocated does
    /// not record.
    fn recording_cpus(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.cpus.iter().filter(|cpu| {
            let buffer = self.buffers.get(cpu.as_u32() as usize);
            buffer.is_some_and(|buffer| buffer.is_traced())
        })
    }

    /// Returns the values of the matching events that this CPU records, as a mask. Among the CPUs of a value's scope
    /// that record the trace, the first one records the value.
    fn values(&self, here: ThisCpu<'_>, matches: impl Fn(EventRole) -> bool) -> u16 {
        let is_first = |id: &MiscEvent| topology::is_first(here, self.recording_cpus(), id.scope());
        values::values_in_set(self.config.values(matches))
            .filter(is_first)
            .fold(0, |set, id| set | id.bit())
    }

    /// Returns the counters of the matching events that this CPU counts, as a mask.
    fn counter_mask(&self, here: ThisCpu<'_>, matches: impl Fn(&ConfigEvent) -> bool) -> u64 {
        let matching = self.events(here).filter(|(_, event)| matches(event));
        mask_of(matching.map(|(counter, _)| counter))
    }
}

/// Starts recording on this CPU. The counters must be reserved for the trace and not active.
///
/// # Safety
///
/// `buffer` must have no writer, must live until [`finish`] has stopped recording on this CPU, and must be written by
/// nothing but this CPU until then.
pub(super) unsafe fn begin(here: ThisCpu<'_>, config: &CpuTraceConfig<'_>, buffer: &Buffer) {
    let trace = &here.percpu().trace;
    let recorded_values = config.values(here, |_| true);
    let following_values = config.values(here, |role| role == EventRole::FollowsTimebase);
    // SAFETY: `prepare_buffer` requires that `buffer` has no writer, lives until `finish` has stopped
    // recording on this CPU, and is written by nothing but this CPU until then: the caller promises
    // all three.
    unsafe { prepare_buffer(trace, config, buffer) };
    set_masks(here, config, following_values != 0);
    program_counters(here, config);
    // `recording` is set before `counters`: an overflow handler that finds sampled counters in `counters` may suspend
    // sampling, and the flag of the suspension is set in the buffer only if `recording` is set.
    trace.recording.set(1);
    trace.counters.set(config.counter_mask(here, |_| true));
    pmu_values::begin_recording(here, recorded_values, following_values);
    start_counters(here, config);
}

/// Empties the buffer, and makes the overflow handler write to this buffer on the CPU that `trace`
/// belongs to.
///
/// # Safety
///
/// `buffer` must have no writer, must live until [`finish`] has stopped recording on that CPU, and must
/// be written by nothing but that CPU until then.
unsafe fn prepare_buffer(trace: &CpuTrace, config: &CpuTraceConfig<'_>, buffer: &Buffer) {
    // SAFETY: `clear` requires a buffer that is alive, as the reference shows, and that nothing else writes to it: the
    // caller promises that it has no writer.
    unsafe { buffer.as_ptr().clear(0) };
    trace.buffer.set(buffer.as_ptr().address());
    trace.set_sample_start(HEADER_BYTES);
    let room = config.config.sample_room();
    trace
        .last_start
        .set(buffer.size() as u64 - room.stop_bytes - room.sample_bytes);
    trace.full.set(0);
    trace.unblock_handler();
}

/// Sets the mask of address spaces in records, and the masks of the counters that are sampled, that follow the
/// timebase, and that record branches.
fn set_masks(here: ThisCpu<'_>, config: &CpuTraceConfig<'_>, has_following_values: bool) {
    let trace = &here.percpu().trace;
    let following_counters =
        config.counter_mask(here, |event| event.role == EventRole::FollowsTimebase);
    // If events or values follow the timebase, this CPU counts the timebase, which is the first event.
    let first_event = config.events(here).next();
    let timebase = first_event.filter(|_| following_counters != 0 || has_following_values);
    trace.aspace_mask.set(if config.allow_kernel_addrs {
        CR3_ADDRESS_SPACE_MASK
    } else {
        0
    });
    trace
        .sampled_counters
        .set(config.counter_mask(here, |event| matches!(event.role, EventRole::Sampled(_))));
    trace.follower_counters.set(following_counters);
    trace
        .timebase
        .set(timebase.map_or(0, |(counter, _)| counter.bit()));
    trace
        .branch_counters
        .set(config.counter_mask(here, |event| event.last_branch));
}

/// Sets the counters up for the first sample of their events, stopped.
fn program_counters(here: ThisCpu<'_>, config: &CpuTraceConfig<'_>) {
    let (percpu, pmu) = (here.percpu(), here.pmu());
    let followed_counters = percpu.trace.timebase.get() | percpu.trace.branch_counters.get();
    for (counter, event) in config.events(here) {
        pmu.program(here, counter, event.select);
        let (value, sampled) = (percpu.value(counter), percpu.sampled_counter(counter));
        sampled.prepare_for_trace(
            event,
            pmu.load_limit.min_events(event.select),
            value.load_distance(),
            RECORD_WRITTEN | followed_counters & counter.bit(),
        );
        value.load(
            here,
            pmu.msrs(counter).write,
            sampled.events_to_load_for_period(),
            value.total(),
        );
    }
}

/// Starts the branch records, if an event needs them, and the counters.
fn start_counters(here: ThisCpu<'_>, config: &CpuTraceConfig<'_>) {
    let (pmu, trace) = (here.pmu(), &here.percpu().trace);
    let mut branch_events = config.events(here).filter(|(_, event)| event.last_branch);
    if let Some((_, event)) = branch_events.next() {
        let (user, kernel) = (event.select.is_user(), event.select.is_kernel());
        let branches = Branches::in_modes(user, kernel);
        lbr::start(here, branches, BRANCHES_OF_TRACE);
    }
    // The counter of the timebase is started last, since its samples read the counters of the events that follow it. A
    // counter that counts in kernel mode may fill the buffer before the others are started.
    let events = config.events(here);
    let events = events.skip(1).chain(config.events(here).take(1));
    for (counter, _) in events.take_while(|_| trace.full.get() == 0) {
        pmu.start(here, counter);
    }
    pmu.stop_trace_if_full(here);
}

/// Stops recording on this CPU, if it records: stops the counters, writes the last counts, marks the buffer with
/// `flags` (`PERFMON_BUFFER_FLAG_*`), and restores the registers.
pub(crate) fn finish(here: ThisCpu<'_>, flags: u32) {
    let (percpu, pmu) = (here.percpu(), here.pmu());
    let trace = &percpu.trace;
    let counters = trace.counters.get();
    if trace.recording.get() == 0 {
        return;
    }
    pmu.repair(here);
    for counter in each_counter(counters & percpu.active_mask.get()) {
        pmu.stop(here, counter);
    }
    // From here on no counter of the trace is active, so the overflow handler writes nothing to the buffer.
    if trace.branch_counters.get() != 0 {
        lbr::stop(here, pmu, BRANCHES_OF_TRACE);
    }
    trace.set_buffer_flags(flags);
    let recorded_values = trace.values.recorded_values();
    if counters != 0 || recorded_values != 0 {
        // SAFETY: `write_counts` requires a trace that is recorded, room for these records, and no other writer.
        // `recording` is set; `last_start` has kept room for the records of STOP free; and without active counters the
        // overflow handler does not write.
        unsafe {
            percpu.write_counts(counters, |writer| {
                pmu_values::write_records(here, writer, recorded_values)
            });
        }
    }
    pmu_values::end_recording(here);
    trace.counters.set(0);
    trace.recording.set(0);
    trace.branch_counters.set(0);
    pmu.restore(here, counters);
}
