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
    logic::{
        config::{Config, ConfigEvent, Role},
        counter::{bits, each, CounterId},
        events::EventId,
        lbr::is_kernel_address,
        record::{HEADER, TIME},
    },
    pmu::{lbr, Model},
};
use core::sync::atomic::{compiler_fence, Ordering::SeqCst};

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
    /// Not 0 while sampling is suspended, until the next tick of the timer.
    throttled: Word,
    /// The branch records.
    pub(crate) lbr: lbr::Saved,
}

/// What is to be known of one counter's event to record it, or to leave it alone.
pub(crate) struct Event {
    /// The header of the records that it ticks with, as a number, and above that the fewest events that the
    /// counter may be loaded for.
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
    fn begin(&self, event: &ConfigEvent, longest: u64, least: u32, mark: u64) {
        let kind = if event.pc {
            abi::PERFMON_RECORD_PC
        } else {
            abi::PERFMON_RECORD_TICK
        };
        let rate = match event.role {
            Role::Sampled(rate) => rate.into(),
            Role::Counted | Role::FollowsTimebase => u64::MAX,
        };
        let header: u32 = zerocopy::transmute!(header(kind, event.id.0));
        self.tick.set(u64::from(least) << 32 | u64::from(header));
        self.rate.set(rate);
        self.recorded.set(0);
        self.longest.set(longest);
        self.mark.set(mark);
    }

    /// Events to load the counter for if `left` are left to its next tick. It may overflow some events late.
    #[inline(always)]
    fn to_load(&self, left: u64) -> u64 {
        left.min(self.longest.get()).max(self.tick.get() >> 32)
    }

    /// Events from a tick to the next overflow.
    fn next(&self) -> u64 {
        self.to_load(self.rate.get())
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
fn time(now: u64) -> abi::perfmon_time_record {
    abi::perfmon_time_record {
        header: header(abi::PERFMON_RECORD_TIME, EventId::NONE.0),
        time: now as i64,
    }
}

/// What a CPU needs to know to record.
pub(crate) struct Program<'a> {
    pub(crate) config: &'a Config,
    /// The counters of the config's events, in their order.
    pub(crate) counters: &'a [Option<CounterId>],
    pub(crate) reveal: bool,
}

impl Program<'_> {
    fn events(&self) -> impl Iterator<Item = (CounterId, &ConfigEvent)> {
        self.config
            .events()
            .zip(self.counters)
            .filter_map(|(event, counter)| Some(((*counter)?, event)))
    }

    fn bits(&self, which: impl Fn(&ConfigEvent) -> bool) -> u64 {
        let those = self.events().filter(|(_, event)| which(event));
        bits(those.map(|(counter, _)| counter))
    }
}

/// Begins to record on this CPU. The counters are reserved, and not active.
pub(crate) fn begin(here: &ThisCpu, model: &Model, program: &Program<'_>, buffer: &Buffer) {
    let slot = here.slot();
    let this = &slot.recorder;
    let room = program.config.room();
    let ticks = |event: &ConfigEvent| matches!(event.role, Role::Sampled(_));
    let dependents = program.bits(|event| event.role == Role::FollowsTimebase);
    let timebase = program
        .events()
        .next()
        .map_or(0, |(counter, _)| counter.bit());

    // SAFETY: The buffer is the trace's, which is not recorded yet.
    unsafe { buffer.as_ptr().begin(0) };
    this.buffer.set(buffer.as_ptr().address());
    this.end_at(HEADER);
    this.last
        .set(buffer.size() as u64 - room.stop - room.sample);
    this.limit.set(this.last.get());
    this.full.set(0);
    this.throttled.set(0);
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
        event.begin(
            recorded,
            count.period(),
            model.load_limit.min_events(recorded.select),
            TICKED | followed & counter.bit(),
        );
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
    model.look(here);
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
        } else if is_kernel_address(pc) {
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
        writer.put(time(cpu::timestamp()));
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

    /// The bits of the counters whose overflows are recorded; 0 if there is no trace.
    pub(crate) fn ticking(&self) -> u64 {
        self.ticking.get() & self.counters.get()
    }

    /// Takes note, in the buffer, that events or branches may be missing. Nothing without a trace.
    #[cold]
    pub(crate) fn lose(&self) {
        if self.counters.get() != 0 {
            // SAFETY: The trace is recorded.
            unsafe { self.buffer().mark(abi::PERFMON_BUFFER_FLAG_LOST) };
        }
    }

    /// Suspends sampling until the next tick of the timer. The counters count on.
    #[cold]
    pub(crate) fn suspend(&self) {
        if self.ticking() != 0 && self.full.get() == 0 {
            self.hold();
            // SAFETY: The trace is recorded.
            unsafe { self.buffer().mark(abi::PERFMON_BUFFER_FLAG_THROTTLED) };
        }
    }

    /// Keeps the handler from writing.
    fn hold(&self) {
        // The handler must not take a limit of 0 for a full buffer.
        self.throttled.set(1);
        compiler_fence(SeqCst);
        self.limit.set(0);
    }

    /// Samples again after a PMI has been lost: its counter would not overflow for long.
    pub(crate) fn restart(&self, here: &ThisCpu, model: &Model) {
        self.lose();
        if self.full.get() == 0 {
            self.hold();
            self.resume(here, model);
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

    /// A tick of the timer that watches the CPU: ends a suspension.
    pub(crate) fn tick(&self, here: &ThisCpu, model: &Model) {
        if self.throttled.get() != 0 && self.ticking() != 0 && self.full.get() == 0 {
            self.resume(here, model);
        }
    }
}
