// SPDX-License-Identifier: GPL-2.0-only
//! What a trace does on one CPU: it writes the records.
//!
//! While a trace runs on a CPU, the CPU's overflow handler writes them ([`Set`]). Before and after, when none
//! of the trace's counters is active, the arbiter's holder does ([`begin`], [`finish`]); in between, a timer
//! does so while [`Recorder::throttled`] tells the handler to write nothing. All of them run on the CPU
//! itself, so there is one writer at a time.

mod set;

pub(crate) use self::set::Set;

use crate::{
    abi,
    buffer::{Buffer, BufferPtr, Writer},
    cpu::{self, Regs, Slot, ThisCpu, Word, ADDRESS_SPACE},
    ffi,
    logic::{
        config::{Config, Recorded, Role},
        counter::{bits, each, CounterId},
        events::EventId,
        lbr::is_kernel,
        record::{HEADER, TIME},
    },
    pmu::{lbr, Model},
};

/// How many ticks of the timer a throttled CPU counts only. So a CPU that gets stuck in overflow handlers
/// does, for most of the time, what it is for.
const PAUSE: u64 = 256;

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
    /// The bits of CR3 that the trace may tell: [`ADDRESS_SPACE`], or if it may not tell of the kernel none.
    aspace: Word,
    /// [`BufferPtr::address`].
    buffer: Word,
    /// Where the next set goes.
    end: Word,
    /// Where the handler's next record goes: behind the TIME of the set, which it writes last.
    next: Word,
    /// Where a set may begin at most.
    last: Word,
    /// The same for the handler: 0 while sampling is suspended.
    limit: Word,
    /// Whether a set did not fit, so that the counters were stopped.
    full: Word,
    /// If not 0, sampling is suspended, for as many ticks of the timer.
    throttled: Word,
    /// Whether the timer runs, that watches.
    watched: Word,
    /// How many sets are allowed from one of its ticks to the next, and how many of them are left.
    max_sets: Word,
    sets_left: Word,
    /// The branch records.
    pub(crate) lbr: lbr::Saved,
}

/// What is to be known of one counter's event to record it, or to leave it alone.
pub(crate) struct Event {
    /// The header of the records that it ticks with, as a number.
    tick: Word,
    /// Events from one tick to the next. What does not tick has the largest of all rates.
    rate: Word,
    /// What of the counter's total has been recorded.
    recorded: Word,
    /// Events after which the counter overflows at the latest.
    longest: Word,
    /// [`TICKED`], and the counter's bit if its ticks come with other records.
    mark: Word,
}

/// Not a counter's bit: a record was written.
const TICKED: u64 = 1 << 63;
/// Not a counter's bit: a record could not be written.
const REFUSED: u64 = 1 << 62;

impl Event {
    /// Does not record the counter, which overflows every `longest` events.
    pub(crate) fn ignore(&self, longest: u64) {
        self.rate.set(u64::MAX);
        self.recorded.set(0);
        self.longest.set(longest);
    }

    /// Begins to record an event.
    fn begin(&self, event: &Recorded, longest: u64, mark: u64) {
        let kind = if event.pc {
            abi::PERFMON_RECORD_PC
        } else {
            abi::PERFMON_RECORD_TICK
        };
        let rate = match event.role {
            Role::Ticks(rate) => rate.into(),
            Role::Tallies | Role::Depends => u64::MAX,
        };
        let header: u32 = zerocopy::transmute!(header(kind, event.id.0));
        self.tick.set(header.into());
        self.rate.set(rate);
        self.recorded.set(0);
        self.longest.set(longest);
        self.mark.set(mark);
    }

    /// Events from a tick to the next overflow.
    fn next(&self) -> u64 {
        self.rate.get().min(self.longest.get())
    }

    /// The header of the records that it ticks with, as a number.
    #[inline(always)]
    fn tick(&self) -> u32 {
        self.tick.get() as u32
    }

    /// The header of another record of it.
    fn header(&self, kind: u32) -> abi::perfmon_record_header {
        let tick: abi::perfmon_record_header = zerocopy::transmute!(self.tick());
        header(kind, tick.event)
    }

    /// A COUNT record of the whole rates in `since`, which has been counted since the last tick.
    #[cold]
    fn surplus(&self, since: u64) -> abi::perfmon_count_record {
        // The rate is not 0: it ticks.
        let whole = since.wrapping_sub(since.checked_rem(self.rate.get()).unwrap_or(0));
        self.count(self.recorded.get().wrapping_add(whole))
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
fn header(kind: u32, event: u16) -> abi::perfmon_record_header {
    abi::perfmon_record_header {
        type_: kind as u8,
        reserved_flags: 0,
        event,
    }
}

/// A TIME record.
#[inline(always)]
fn time() -> abi::perfmon_time_record {
    abi::perfmon_time_record {
        header: header(abi::PERFMON_RECORD_TIME, EventId::NONE.0),
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
        let those = self.events().filter(|(_, event)| which(event));
        bits(those.map(|(counter, _)| counter))
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
    this.end_at(HEADER);
    this.last.set(buffer.size() as u64 - room.stop - room.set);
    this.limit.set(this.last.get());
    this.full.set(0);
    this.throttled.set(0);
    let watched = program
        .events()
        .any(|(_, event)| matches!(event.role, Role::Ticks(rate) if rate < HARMLESS_RATE));
    this.watched.set(watched.into());
    // Nobody would begin to count anew.
    this.max_sets.set(if watched {
        program.max_interrupts.into()
    } else {
        u64::MAX
    });
    this.sets_left.set(this.max_sets.get());
    this.aspace
        .set(if program.reveal { ADDRESS_SPACE } else { 0 });
    this.ticking.set(program.bits(ticks));
    this.dependents.set(dependents);
    this.timebase
        .set(if dependents != 0 { timebase } else { 0 });
    this.branching.set(program.bits(|event| event.last_branch));

    let followed = this.timebase.get() | this.branching.get();
    for (counter, recorded) in program.events() {
        model.program(here, counter, recorded.select);
        let (count, event) = (slot.count(counter), slot.event(counter));
        event.begin(recorded, count.period(), TICKED | followed & counter.bit());
        count.load(
            here,
            model.lines(counter).write,
            event.next(),
            count.total(),
        );
    }
    this.counters.set(program.bits(|_| true));
    if let Some(event) = program.config.last_branch() {
        lbr::start(here, &this.lbr, event.select);
    }
    if watched {
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
    // SAFETY: The trace is recorded, `begin` kept room for this set, and no other writer is left.
    unsafe {
        this.buffer().mark(flags);
        this.put_counts(slot, counters);
    }
    this.counters.set(0);
    this.branching.set(0);
    model.give_back(here, counters);
}

impl Recorder {
    /// What the trace may tell of where an interrupt came: the address space and the instruction. Who may not
    /// know of the kernel learns of no address space, nor of an instruction of the kernel, which a late
    /// interrupt finds.
    #[inline(always)]
    fn place(&self, regs: Regs<'_>) -> (u64, u64) {
        let (aspace, pc) = (self.aspace.get(), regs.ip());
        if aspace != 0 {
            (cpu::cr3() & aspace, pc)
        } else if is_kernel(pc) {
            (0, 0)
        } else {
            (0, pc)
        }
    }

    #[inline(always)]
    fn buffer(&self) -> BufferPtr {
        // SAFETY: Whoever gets here has seen that the trace is recorded, for which it has its buffers.
        unsafe { BufferPtr::from_address(self.buffer.get()) }
    }

    /// The next set begins at the offset `end`.
    #[inline(always)]
    fn end_at(&self, end: u64) {
        self.end.set(end);
        self.next.set(end.wrapping_add(TIME));
    }

    /// Writes what `counters`, which are not active, have counted since their last records.
    ///
    /// # Safety
    ///
    /// The trace is recorded here, there is room for TIME and as many COUNT records, and nobody else writes.
    unsafe fn put_counts(&self, slot: &Slot, counters: u64) {
        // SAFETY: By the requirement; while it is recorded, the trace has its buffers.
        let mut writer = unsafe { Writer::new(self.buffer(), self.end.get() as usize) };
        writer.put(time());
        for counter in each(counters) {
            writer.put(slot.event(counter).count(slot.count(counter).total()));
        }
        self.end_at(writer.end() as u64);
        // SAFETY: As above.
        unsafe { self.buffer().publish(writer.end()) };
    }

    /// Takes note of a set that could not be written: if sampling is not suspended, it did not fit.
    #[cold]
    fn refuse(&self, here: &ThisCpu, model: &Model) {
        if self.throttled.get() == 0 {
            self.stop_for_good(here, model);
        }
    }

    /// Stops the trace's counters: the buffer is full.
    #[cold]
    fn stop_for_good(&self, here: &ThisCpu, model: &Model) {
        self.full.set(1);
        // SAFETY: The trace is recorded.
        unsafe { self.buffer().mark(abi::PERFMON_BUFFER_FLAG_FULL) };
        here.slot().stops.increment();
        for counter in each(self.counters.get() & here.slot().active.get()) {
            model.halt(here, counter);
        }
    }

    /// Suspends sampling for a while, if the trace samples here so often: its counters count on.
    #[cold]
    pub(crate) fn suspend(&self) {
        if self.counters.get() != 0 && self.watched.get() != 0 {
            self.throttled.set(PAUSE);
            self.limit.set(0);
            // SAFETY: The trace is recorded.
            unsafe { self.buffer().mark(abi::PERFMON_BUFFER_FLAG_THROTTLED) };
        }
    }

    /// Lets a throttled CPU sample again: what it has only counted becomes a COUNT record.
    fn resume(&self, here: &ThisCpu, model: &Model) {
        let slot = here.slot();
        let ticking = self.ticking.get();
        if self.end.get() > self.last.get() {
            return self.stop_for_good(here, model);
        }
        // The handler, which extends a counter only, must not come between.
        for counter in each(ticking) {
            model.halt(here, counter);
        }
        // SAFETY: There is room (`last`), and the handler does not write.
        unsafe { self.put_counts(slot, ticking) };
        self.limit.set(self.last.get());
        self.throttled.set(0);
        for counter in each(ticking) {
            let count = slot.count(counter);
            let events = slot.event(counter).next();
            count.load(here, model.lines(counter).write, events, count.total());
            model.start(here, counter);
        }
    }
}

/// A tick of the timer that watches how often a CPU is interrupted. Runs with interrupts off.
pub(crate) fn watch(here: &ThisCpu, model: &Model) {
    let this = &here.slot().recorder;
    this.sets_left.set(this.max_sets.get());
    match this.throttled.get() {
        0 => {}
        1 if this.full.get() == 0 => this.resume(here, model),
        left => this.throttled.set(left - 1),
    }
}
