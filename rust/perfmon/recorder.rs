// SPDX-License-Identifier: GPL-2.0-only
//! What a trace does on one CPU: it writes the records.
//!
//! While a trace runs on a CPU, the CPU's overflow handler writes them ([`Recorder::sample`]). Before and
//! after, when none of the trace's counters is active, the arbiter's holder does ([`begin`], [`finish`]);
//! in between, a timer does so while the handler is told by [`Recorder::throttled`] to write nothing. All of
//! them run on the CPU itself, so there is one writer at a time.

use crate::{
    abi,
    buffer::{Buffer, BufferPtr, Writer},
    cpu::{self, Regs, ThisCpu, Word},
    ffi,
    logic::{
        config::{Config, Recorded, Role},
        counter::{each, CounterId, MAX_COUNTERS},
        record::HEADER,
    },
    pmu::{lbr, Model},
};

/// How many ticks of the timer a throttled CPU counts only. So a CPU that gets stuck in overflow handlers
/// does, for most of the time, what it is for.
const PAUSE: u64 = 64;

/// With this rate and above, no CPU gets stuck in the handler, which takes far fewer instructions and
/// cycles: there is nothing to watch.
const HARMLESS_RATE: u32 = 1 << 16;

/// The part of a trace that is on one CPU. Zero is a valid value of each field: no trace.
pub(crate) struct Recorder {
    /// Bits of the counters that the trace has.
    pub(crate) counters: Word,
    /// Bits of those whose overflows are recorded.
    ticking: Word,
    /// Bits of those that are recorded with the timebase.
    dependents: Word,
    /// The bit of the timebase, if there is one.
    timebase: Word,
    /// Bits of those whose ticks come with branch records.
    branching: Word,
    /// Bits of those whose ticks come with anything else.
    followed: Word,
    /// Bits of those whose ticks are PC records.
    pc: Word,
    /// Whether the trace may tell about address spaces and the kernel.
    reveal: Word,
    /// [`BufferPtr::address`].
    buffer: Word,
    /// Where the next record goes.
    end: Word,
    /// The room that a set of records needs.
    set: Word,
    /// Where a set may begin at most.
    last: Word,
    /// Whether a set did not fit, so that the counters were stopped.
    full: Word,
    /// If not 0, sampling is suspended, for as many ticks of the timer.
    throttled: Word,
    /// Overflow interrupts since the timer's last tick, and how many it takes to suspend sampling.
    interrupts: Word,
    max_interrupts: Word,
    /// By [`CounterId::index`].
    events: [Event; MAX_COUNTERS],
    /// The branch records.
    pub(crate) lbr: lbr::Saved,
}

/// What is to be known of one event.
struct Event {
    /// Its id.
    id: Word,
    /// Events from one tick to the next.
    rate: Word,
    /// What of the counter's total has been recorded.
    recorded: Word,
    /// Events after which the counter overflows at the latest.
    longest: Word,
}

impl Event {
    #[inline(always)]
    fn header(&self, kind: u32) -> abi::perfmon_record_header {
        abi::perfmon_record_header {
            type_: kind as u8,
            reserved_flags: 0,
            event: self.id.get() as u16,
        }
    }

    /// A COUNT record of all up to `total` that was not recorded yet, and by this is.
    fn count(&self, total: u64) -> abi::perfmon_count_record {
        let count = total.wrapping_sub(self.recorded.get());
        self.recorded.set(total);
        abi::perfmon_count_record {
            header: self.header(abi::PERFMON_RECORD_COUNT),
            count,
        }
    }
}

#[inline(always)]
fn time() -> abi::perfmon_time_record {
    abi::perfmon_time_record {
        header: abi::perfmon_record_header {
            type_: abi::PERFMON_RECORD_TIME as u8,
            reserved_flags: 0,
            event: abi::PERFMON_EVENT_ID_NONE as u16,
        },
        time: cpu::timestamp() as i64,
    }
}

/// What a CPU needs to know to record.
pub(crate) struct Program<'a> {
    pub(crate) config: &'a Config,
    /// The counters of the config's events, in their order.
    pub(crate) counters: &'a [Option<CounterId>],
    pub(crate) reveal: bool,
    pub(crate) max_interrupts: u32,
}

impl Program<'_> {
    fn events(&self) -> impl Iterator<Item = (CounterId, &Recorded)> {
        self.config
            .events()
            .zip(self.counters)
            .filter_map(|(event, counter)| Some(((*counter)?, event)))
    }

    fn bits(&self, which: impl Fn(&Recorded) -> bool) -> u64 {
        self.events()
            .filter(|(_, event)| which(event))
            .fold(0, |bits, (counter, _)| bits | counter.bit())
    }
}

/// Begins to record on this CPU. The counters are reserved, and not active.
pub(crate) fn begin(here: &ThisCpu, model: &Model, program: &Program<'_>, buffer: &Buffer) {
    let slot = here.slot();
    let this = &slot.recorder;
    let room = program.config.room();
    let ticks = |event: &Recorded| matches!(event.role, Role::Ticks(_));
    let dependents = program.bits(|event| event.role == Role::Depends);
    let timebase = program
        .events()
        .next()
        .map_or(0, |(counter, _)| counter.bit());

    // SAFETY: The buffer is the trace's, which is not recorded yet.
    unsafe { buffer.as_ptr().begin(0) };
    this.buffer.set(buffer.as_ptr().address());
    this.end.set(HEADER);
    this.set.set(room.set);
    this.last.set(buffer.size() as u64 - room.stop - room.set);
    this.full.set(0);
    this.throttled.set(0);
    this.interrupts.set(0);
    this.max_interrupts.set(program.max_interrupts.into());
    this.reveal.set(program.reveal.into());
    this.ticking.set(program.bits(ticks));
    this.dependents.set(dependents);
    this.timebase
        .set(if dependents != 0 { timebase } else { 0 });
    this.branching.set(program.bits(|event| event.last_branch));
    this.followed
        .set(this.timebase.get() | this.branching.get());
    this.pc.set(program.bits(|event| event.pc));

    for (counter, recorded) in program.events() {
        let event = &this.events[counter.index()];
        event.id.set(recorded.id.0.into());
        event.recorded.set(0);
        model.program(here, counter, recorded.select);
        let count = &slot.counts[counter.index()];
        event.longest.set(count.period());
        if let Role::Ticks(rate) = recorded.role {
            event.rate.set(rate.into());
            this.load(here, model, counter, rate.into());
        } else {
            event.rate.set(u64::MAX);
        }
    }
    this.counters.set(program.bits(|_| true));
    if let Some(event) = program.config.last_branch() {
        lbr::start(here, &this.lbr, event.select);
    }
    if program
        .events()
        .any(|(_, event)| matches!(event.role, Role::Ticks(rate) if rate < HARMLESS_RATE))
    {
        // SAFETY: The caller stays on the CPU, and the slots outlive the trace.
        unsafe { ffi::perfmon_timer_start() };
    }
    // The timebase last: what depends on it is there when it ticks.
    for (counter, _) in program.events().skip(1) {
        model.start(here, counter);
    }
    if let Some((counter, _)) = program.events().next() {
        model.start(here, counter);
    }
}

/// Ends what [`begin`] began, if it did: stops the counters, writes the last counts, marks the buffer with
/// `flags`, and gives the registers back.
pub(crate) fn finish(here: &ThisCpu, model: &Model, flags: u32) {
    let slot = here.slot();
    let this = &slot.recorder;
    let counters = this.counters.get();
    if counters == 0 {
        return;
    }
    // SAFETY: The caller stays on the CPU. Where no timer runs, there is nothing to do.
    unsafe { ffi::perfmon_timer_stop() };
    for counter in each(counters & slot.active.get()) {
        model.stop(here, counter);
    }
    // From here on the handler writes nothing.
    if this.branching.get() != 0 {
        lbr::stop(here, model, &this.lbr);
    }
    // SAFETY: `begin` kept room for this set, and the trace has its buffers as long as it is recorded. No
    // other writer is left.
    let mut writer = unsafe { Writer::new(this.buffer(), this.end.get() as usize) };
    writer.put(time());
    for counter in each(counters) {
        writer.put(this.events[counter.index()].count(slot.counts[counter.index()].total()));
    }
    // SAFETY: As above.
    unsafe {
        this.buffer().mark(flags);
        this.buffer().publish(writer.end());
    }
    this.counters.set(0);
    this.branching.set(0);
    model.give_back(here, counters);
}

impl Recorder {
    #[inline(always)]
    fn buffer(&self) -> BufferPtr {
        // SAFETY: Whoever gets here has seen that the trace is recorded, for which it has its buffers.
        unsafe { BufferPtr::from_address(self.buffer.get()) }
    }

    /// Loads a counter so that it overflows when its next tick is due, `left` events from now, or for the next
    /// part of it, if that is more than the counter can be loaded with.
    #[inline(always)]
    fn load(&self, here: &ThisCpu, model: &Model, counter: CounterId, left: u64) {
        let longest = self.events[counter.index()].longest.get();
        here.slot().counts[counter.index()].load(
            here,
            model.lines(counter).write,
            left.min(longest),
        );
    }

    /// Records the overflows of `found`, counters of the trace. Runs in the overflow handler; `regs` is where
    /// that came.
    #[inline(always)]
    pub(crate) fn sample(&self, here: &ThisCpu, model: &Model, found: u64, regs: Regs<'_>) {
        let mut due = 0;
        for counter in each(found) {
            let event = &self.events[counter.index()];
            let total =
                here.slot().counts[counter.index()].update_in_nmi(here, model.lines(counter).read);
            // What does not tick has the largest of all rates.
            if total.wrapping_sub(event.recorded.get()) >= event.rate.get() {
                due |= counter.bit();
            }
        }
        if due != 0 && self.throttled.get() == 0 {
            let interrupts = self.interrupts.get() + 1;
            self.interrupts.set(interrupts);
            if self.end.get() > self.last.get() {
                return self.stop_for_good(here, model, found);
            }
            if interrupts > self.max_interrupts.get() {
                self.suspend();
            } else {
                self.write_set(here, model, due, regs);
            }
        }
        let suspended = self.throttled.get() != 0;
        for counter in each(found) {
            let event = &self.events[counter.index()];
            let total = here.slot().counts[counter.index()].total();
            let since = total.wrapping_sub(event.recorded.get());
            let left = if suspended {
                u64::MAX
            } else {
                event.rate.get() - since
            };
            self.load(here, model, counter, left);
        }
    }

    /// Writes the records of one interrupt. They fit.
    #[inline(always)]
    fn write_set(&self, here: &ThisCpu, model: &Model, due: u64, regs: Regs<'_>) {
        let counts = &here.slot().counts;
        // SAFETY: The trace is recorded, there is room (`last`), and this CPU's handler is the writer.
        let mut writer = unsafe { Writer::new(self.buffer(), self.end.get() as usize) };
        writer.put(time());
        let (aspace, pc) = if self.reveal.get() != 0 {
            (cpu::address_space(), regs.ip())
        } else if regs.is_user() {
            (0, regs.ip())
        } else {
            // The interrupt came late, in the kernel.
            (0, 0)
        };
        let mut behind = 0;
        for counter in each(due) {
            let event = &self.events[counter.index()];
            if self.pc.get() & counter.bit() != 0 {
                writer.put(abi::perfmon_pc_record {
                    header: event.header(abi::PERFMON_RECORD_PC),
                    aspace,
                    pc,
                });
            } else {
                writer.put(abi::perfmon_tick_record {
                    header: event.header(abi::PERFMON_RECORD_TICK),
                });
            }
            let rate = event.rate.get();
            let recorded = event.recorded.get().wrapping_add(rate);
            event.recorded.set(recorded);
            if counts[counter.index()].total().wrapping_sub(recorded) >= rate {
                behind |= counter.bit();
            }
        }
        if behind | due & self.followed.get() != 0 {
            self.write_rest(here, model, behind, due, &mut writer, aspace);
        }
        self.end.set(writer.end() as u64);
        // SAFETY: As above.
        unsafe { self.buffer().publish(writer.end()) };
    }

    /// Writes what comes after the ticks of a set.
    fn write_rest(
        &self,
        here: &ThisCpu,
        model: &Model,
        behind: u64,
        due: u64,
        writer: &mut Writer,
        aspace: u64,
    ) {
        let counts = &here.slot().counts;
        // Those that came so late that they should have ticked again.
        for counter in each(behind) {
            let event = &self.events[counter.index()];
            let total = counts[counter.index()].total();
            let since = total.wrapping_sub(event.recorded.get());
            writer.put(event.count(total.wrapping_sub(since % event.rate.get())));
        }
        if due & self.timebase.get() != 0 {
            for counter in each(self.dependents.get()) {
                let total = counts[counter.index()].update_in_nmi(here, model.lines(counter).read);
                writer.put(self.events[counter.index()].count(total));
            }
        }
        if let Some(counter) = each(due & self.branching.get()).next() {
            let header = self.events[counter.index()].header(abi::PERFMON_RECORD_LAST_BRANCH);
            lbr::write(here, &self.lbr, writer, header, aspace);
        }
    }

    /// Lets branches be recorded again, if they are: the interrupt has frozen them.
    #[inline(always)]
    pub(crate) fn unfreeze(&self, here: &ThisCpu, model: &Model) {
        if self.branching.get() != 0 {
            lbr::unfreeze(here, model);
        }
    }

    /// Stops the trace's counters: the buffer is full. The overflows of `found` are being served.
    #[cold]
    fn stop_for_good(&self, here: &ThisCpu, model: &Model, found: u64) {
        self.full.set(1);
        // SAFETY: The trace is recorded.
        unsafe { self.buffer().mark(abi::PERFMON_BUFFER_FLAG_FULL) };
        for counter in each(found) {
            // Else they would still look as if an interrupt were to come.
            self.load(here, model, counter, u64::MAX);
        }
        for counter in each(self.counters.get() & here.slot().active.get()) {
            model.halt(here, counter);
        }
    }

    /// Suspends sampling for a while, if the trace samples here: its counters count on.
    #[cold]
    pub(crate) fn suspend(&self) {
        if self.ticking.get() != 0 && self.counters.get() != 0 {
            self.throttled.set(PAUSE);
            // SAFETY: The trace is recorded.
            unsafe { self.buffer().mark(abi::PERFMON_BUFFER_FLAG_THROTTLED) };
        }
    }

    /// Lets a throttled CPU sample again: what it has only counted becomes a COUNT record.
    fn resume(&self, here: &ThisCpu, model: &Model) {
        let slot = here.slot();
        let ticking = self.ticking.get();
        if self.end.get() > self.last.get() {
            return self.stop_for_good(here, model, 0);
        }
        // SAFETY: The trace is recorded, there is room (`last`), and the handler does not write.
        let mut writer = unsafe { Writer::new(self.buffer(), self.end.get() as usize) };
        writer.put(time());
        for counter in each(ticking) {
            // The handler, which extends the counter only, must not come between.
            model.halt(here, counter);
            writer.put(self.events[counter.index()].count(slot.counts[counter.index()].total()));
        }
        self.end.set(writer.end() as u64);
        // SAFETY: As above.
        unsafe { self.buffer().publish(writer.end()) };
        self.throttled.set(0);
        for counter in each(ticking) {
            self.load(
                here,
                model,
                counter,
                self.events[counter.index()].rate.get(),
            );
            model.start(here, counter);
        }
    }
}

/// A tick of the timer that watches how often a CPU is interrupted. Runs with interrupts off.
pub(crate) fn watch(here: &ThisCpu, model: &Model) {
    let this = &here.slot().recorder;
    this.interrupts.set(0);
    match this.throttled.get() {
        0 => {}
        1 if this.full.get() == 0 => this.resume(here, model),
        left => this.throttled.set(left - 1),
    }
}
