// SPDX-License-Identifier: GPL-2.0-only
//! The system calls on an event's descriptor: read(2), ioctl(2), poll(2), fcntl(2), mmap(2) and close(2).

use super::{
    attach::{detach, mark_broken_on_refused_cpus, refresh_everywhere},
    context::HeldContext,
    event::Event,
    group, hooks, mapping_records, mmap, output, reassign, record,
    resources::{max_sample_rate, release_resources},
    slot::{self, EventCount, Slot, Slots},
    target::Target,
};
use crate::{
    cpu::{irqs_off, pin, timestamp, ThisCpu},
    logic::{
        event_state::Changes,
        precise,
        read_format::{EventTimes, EventValue, ReadFormat, MAX_WORDS_OF_ONE},
    },
    ownership::wait_for_place_holder_end,
    pmu,
    ring::Ring,
    sys::{
        descriptor::{Area, Descriptor, FasyncChange, OpenDescriptor, Poll, ReadTarget},
        error::errno,
        uaccess,
    },
};
use core::cell::Cell;
use kernel::{
    bindings,
    ioctl::{_IO, _IOR, _IOW},
    prelude::*,
    seq_file::SeqFile,
    seq_print,
};

/// The commands of perf_event_open(2): `PERF_EVENT_IOC_*` of `<linux/perf_event.h>`.
mod command {
    use super::*;

    const LETTER: u32 = b'$' as u32;

    pub(super) const ENABLE: u32 = _IO(LETTER, 0);
    pub(super) const DISABLE: u32 = _IO(LETTER, 1);
    pub(super) const REFRESH: u32 = _IO(LETTER, 2);
    pub(super) const RESET: u32 = _IO(LETTER, 3);
    pub(super) const PERIOD: u32 = _IOW::<u64>(LETTER, 4);
    pub(super) const SET_OUTPUT: u32 = _IO(LETTER, 5);
    pub(super) const ID: u32 = _IOR::<*mut u64>(LETTER, 7);
    /// [`ID`] of a 32-bit program: the number contains the size of a pointer.
    pub(super) const ID_32: u32 = _IOR::<u32>(LETTER, 7);
    pub(super) const PAUSE_OUTPUT: u32 = _IOW::<u32>(LETTER, 9);
    pub(super) const MODIFY_ATTRIBUTES: u32 = _IOW::<*mut u8>(LETTER, 11);
    /// [`MODIFY_ATTRIBUTES`] of a 32-bit program.
    pub(super) const MODIFY_ATTRIBUTES_32: u32 = _IOW::<u32>(LETTER, 11);
}

/// `PERF_IOC_FLAG_GROUP`: the command is for all events of the group.
const FLAG_GROUP: usize = 1;

impl Descriptor for Event {
    #[inline]
    fn read(&self, to: impl ReadTarget) -> Result<usize> {
        // The fast path: only the count is read, and the event counts only the task that runs here.
        if self.config.sampling.read.is_count_only()
            && !self.config.inherit
            && to.size() >= size_of::<u64>()
        {
            let count =
                with_slots_here(|here, slots| EventCount::read_here(here, slots.slot_of(self)?, 0))
                    .flatten();
            if let Some(count) = count {
                return to.put_words(&[count.count]).map(|()| size_of::<u64>());
            }
        }
        if self.config.sampling.read.is_group() {
            read_group(self, to)
        } else {
            read_one(self, to)
        }
    }

    #[inline]
    fn ioctl(&self, command: u32, arg: usize) -> Result {
        let whole_group = arg & FLAG_GROUP != 0;
        match command {
            command::ENABLE => set_enabled(self, whole_group, true),
            command::DISABLE => set_enabled(self, whole_group, false),
            command::RESET => {
                // All events of a group are in the same contexts, so refreshing one event's contexts refreshes all.
                refresh(self);
                for_event_or_group(self, whole_group, LeaderPlace::First, Event::reset);
                refresh(self);
            }
            command::ID | command::ID_32 => return uaccess::put_words(arg, &[self.id]),
            command::SET_OUTPUT if arg as c_int == -1 => return output::set_output(self, None),
            command::SET_OUTPUT => {
                let other_event = OpenDescriptor::<Self>::get(arg as c_int)?;
                output::set_output(self, Some(other_event.data()))?;
                if self.config.sampling.is_precise {
                    // The ring determines whether each precise sample has an interrupt of its own.
                    refresh(self);
                }
                return Ok(());
            }
            command::PAUSE_OUTPUT => {
                let set_paused = |ring: &Ring| ring.set_paused(arg != 0);
                return output::with_ring(self, set_paused).ok_or(EINVAL);
            }
            command::PERIOD => return set_period(self, uaccess::get::<u64>(arg)?),
            command::REFRESH => return enable_for_samples(self, arg as u32),
            command::MODIFY_ATTRIBUTES | command::MODIFY_ATTRIBUTES_32 => {
                return Err(errno(bindings::EOPNOTSUPP));
            }
            _ => return Err(ENOTTY),
        }
        Ok(())
    }

    fn poll(&self, poll: Poll) -> u32 {
        // SAFETY: `Wait::poll` requires a wait that exists as long as the descriptor: it is a field of the event, which
        // is freed after the descriptor's last close(2).
        unsafe { self.sampler.notifier.wait.poll(&poll) };
        let hang_up_events = if self.has_ended() {
            bindings::POLLHUP
        } else {
            0
        };
        let read_events = match output::with_ring(self, Ring::consume_wakeup) {
            Some(true) => bindings::POLLIN | bindings::POLLRDNORM,
            _ => 0,
        };
        hang_up_events | read_events
    }

    fn fasync(&self, change: FasyncChange) -> Result {
        check_notifications(self)?;
        self.sampler.notifier.wait.fasync(&change)?;
        self.sampler.notifier.follow_overflows();
        if self.sampler.sampling.is_precise {
            // From now on each record of the processor causes an interrupt.
            refresh(self);
        }
        Ok(())
    }

    fn mmap(&self, area: &Area<'_>) -> Result {
        mmap::map(self, area)
    }

    fn mapping_added(&self, area: &Area<'_>) {
        mmap::mapping_added(self, area);
    }

    fn mapping_ended(&self, area: &Area<'_>) {
        mmap::mapping_ended(self, area);
    }

    fn show_fdinfo(&self, file: &SeqFile) {
        let cpu = self.target.cpu();
        let cpu = cpu.map_or(-1, |cpu| i64::from(cpu.as_u32()));
        let counter = self.counter();
        seq_print!(
            file,
            "perfmon-event:\t{}\nselect:\t{:#x}\ncounter:\t{}\npid:\t{}\ncpu:\t{}\n",
            self.id,
            self.config
                .select_on(counter)
                .without_extra_register()
                .stopped(),
            if counter.is_none() {
                -1
            } else {
                i64::from(counter.number())
            },
            self.pid,
            cpu,
        );
        seq_print!(
            file,
            "inherit:\t{}\npinned:\t{}\nexclusive:\t{}\nenabled:\t{}\nleft:\t{}\nmmap:\t{}\n",
            u8::from(self.config.inherit),
            u8::from(self.config.pinned),
            u8::from(self.config.exclusive),
            u8::from(self.state().is_enabled(Changes::NEVER)),
            self.dropped_task_count(),
            u8::from(mapping_records::are_recorded(self)),
        );
        if let Target::Cgroup(cgroup, _) = &self.target {
            seq_print!(file, "cgroup:\t{}\n", cgroup.id());
        }
    }

    fn close(this: Pin<KBox<Self>>) {
        this.state().close();
        reassign::remove(&this);
        detach(&this);
        group::remove_event(&this);
        release_resources(|| this.counters(), &this.config, this.target.place());
        wait_for_place_holder_end();
        record::end_slow_switches(&this);
        if this.target.follows_tasks(&this.config) {
            hooks::remove_user(this.config.sampling.mappings.are_wanted());
        }
        output::release_memory(&this);
        this.sampler.notifier.wait.wait_for_overflows();
        // SAFETY: `free_by_rcu` requires an event without slots, now and later, that the caller uses no more: `detach`
        // has removed all slots, and no task inherits the event, since it is closed. `this` is moved to the function.
        unsafe { Self::free_by_rcu(this) };
    }
}

/// Calls `f` with the slots of the task that runs here, if the task has events.
#[inline(always)]
fn with_slots_here<R>(f: impl FnOnce(ThisCpu<'_>, &mut Slots) -> R) -> Option<R> {
    let irqs_off = irqs_off();
    let here = irqs_off.here();
    let mut slots = HeldContext::of_task(here)?;
    Some(f(here, &mut slots))
}

/// Closes the event's windows wherever it counts, so that its sum is up to date, and opens the windows that should be
/// open now.
#[inline(never)]
fn refresh(event: &Event) {
    // The fast path: the event counts only the task that runs here.
    let was_refreshed = with_slots_here(|here, slots| {
        let is_here = !event.config.inherit && slots.iter().any(|slot| slot.is_of_event(event));
        if is_here {
            slot::refresh(here, slots, timestamp());
        }
        is_here
    });
    if was_refreshed != Some(true) {
        refresh_everywhere(event);
    }
}

/// Serves PERF_EVENT_IOC_PERIOD: sets the period in events, or the frequency in samples per second if the event was
/// opened with a frequency.
#[cold]
fn set_period(event: &Event, period_or_frequency: u64) -> Result {
    let sampling = &event.sampler.sampling;
    let trigger = sampling.trigger.with_number(period_or_frequency)?;
    trigger.check(max_sample_rate())?;
    if sampling.is_precise {
        let capabilities = &pmu::common().capabilities;
        precise::check_trigger(trigger, event.config.select, capabilities)?;
    }
    event.sampler.set_period_or_frequency(period_or_frequency);
    refresh(event);
    Ok(())
}

/// Serves PERF_EVENT_IOC_REFRESH: enables the event for `samples` more samples.
#[cold]
fn enable_for_samples(event: &Event, samples: u32) -> Result {
    if event.config.inherit || !event.sampler.is_sampled() {
        return Err(EINVAL);
    }
    check_notifications(event)?;
    let (notifier, state) = (&event.sampler.notifier, event.state());
    notifier.allow_samples(samples);
    state.set_enabled(true);
    // If the event was enabled already, its overflows may have spent the new limit between these two steps. Then the
    // event has to be disabled again.
    notifier.disable_if_spent(state);
    refresh(event);
    mark_broken_on_refused_cpus();
    Ok(())
}

/// Checks that each overflow of an event can notify programs.
///
/// # Errors
///
/// EOPNOTSUPP for samples that the virtual PMU merges.
fn check_notifications(event: &Event) -> Result {
    let (sampler, capabilities) = (&event.sampler, &pmu::common().capabilities);
    if precise::merges_samples(&sampler.sampling, sampler.trigger(), capabilities) {
        return Err(errno(bindings::EOPNOTSUPP));
    }
    Ok(())
}

/// Enables or disables an event, or all events of its group.
#[inline(always)]
fn set_enabled(event: &Event, whole_group: bool, enabled: bool) {
    // The fast path: one event, which counts only the task that runs here.
    if !whole_group && !event.config.inherit {
        let was_set = with_slots_here(|here, slots| slots.set_enabled(here, event, enabled));
        if was_set == Some(true) {
            return;
        }
    }
    // No sibling counts while the leader is disabled, so the group begins and ends as a whole, even
    // if a task is switched in while the events change one after the other.
    let leader_place = if enabled {
        LeaderPlace::Last
    } else {
        LeaderPlace::First
    };
    for_event_or_group(event, whole_group, leader_place, |event| {
        event.set_enabled(enabled);
    });
    // All events of a group are in the same contexts, so refreshing one event's contexts refreshes all.
    refresh(event);
    if enabled {
        mark_broken_on_refused_cpus();
    }
}

/// Enables a new event, unless it was opened as disabled.
pub(super) fn enable_unless_disabled(event: &Event) {
    if !event.config.disabled {
        set_enabled(event, false, true);
    }
}

/// The place of a group's leader in an order of the group's events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaderPlace {
    First,
    Last,
}

/// Calls `f` with the event, or with all events of its group.
#[cold]
fn for_event_or_group(
    event: &Event,
    whole_group: bool,
    leader_place: LeaderPlace,
    f: impl Fn(&Event),
) {
    if !whole_group {
        f(event);
        return;
    }
    let group = group::lock(event);
    if leader_place == LeaderPlace::First {
        f(group.leader());
    }
    group.events().skip(1).for_each(&f);
    if leader_place == LeaderPlace::Last {
        f(group.leader());
    }
}

/// Returns the values that read(2) returns for an event with this count.
#[inline(always)]
fn event_value(event: &Event, count: &EventCount) -> EventValue {
    EventValue {
        value: count.count,
        id: event.id,
        lost: event.sampler.lost_samples(),
    }
}

/// Returns the times of an event that never waits: the event counts during all the time in which it
/// is enabled.
fn times_without_waits(count: EventCount) -> EventTimes {
    let time = count.time.nanoseconds();
    EventTimes {
        enabled: time,
        running: time,
    }
}

/// Returns the times of an event whose windows were closed for `count`.
fn event_times(event: &Event, count: EventCount) -> EventTimes {
    let times = times_without_waits(count);
    if !event.config.may_wait() {
        return times;
    }
    EventTimes::of_parts(times.running, event.waited_time().nanoseconds())
}

/// Serves read(2) without PERF_FORMAT_GROUP.
#[inline(never)]
fn read_one(event: &Event, to: impl ReadTarget) -> Result<usize> {
    if to.size() < event.config.sampling.read.size(1) {
        return Err(ENOSPC);
    }
    let mut words = [0; MAX_WORDS_OF_ONE];
    let count_here = with_slots_here(|here, slots| {
        EventCount::read_here(here, slots.slot_of(event)?, timestamp())
    });
    let words = match count_here {
        Some(Some(count)) if !event.config.inherit => encode_one(event, count, &mut words),
        _ => {
            refresh_everywhere(event);
            if event.is_broken() {
                return Err(EIO);
            }
            // The sums go on. Without preemption the count and its times are of almost the same moment.
            let _pinned = pin();
            encode_one(event, EventCount::of_closed_windows(event), &mut words)
        }
    };
    to.put_words(words)?;
    Ok(size_of_val(words))
}

/// Encodes the words that read(2) returns for an event without PERF_FORMAT_GROUP.
#[inline(always)]
fn encode_one<'w>(
    event: &Event,
    count: EventCount,
    words: &'w mut [u64; MAX_WORDS_OF_ONE],
) -> &'w [u64] {
    let format = event.config.sampling.read;
    format.encode_one(words, event_value(event, &count), || {
        event_times(event, count)
    })
}

/// Serves read(2) with PERF_FORMAT_GROUP. In each task all events are read at one moment.
#[inline(never)]
fn read_group(event: &Event, to: impl ReadTarget) -> Result<usize> {
    let format = event.config.sampling.read;
    let mut stack_words = [0; STACK_WORDS];
    // The fast path: the group counts only the task that runs here.
    let words = with_slots_here(|here, slots| {
        if event.config.inherit {
            return None;
        }
        let (group, now) = (slots.group(event), timestamp());
        let read = |slot: &Slot| Some((slot.event(), EventCount::read_here(here, slot, now)?));
        encode_group(
            format,
            &mut stack_words,
            group.iter().map(read),
            times_without_waits,
        )
    });
    if let Some(Some(words)) = words {
        if to.size() < size_of_val(words) {
            return Err(ENOSPC);
        }
        to.put_words(words)?;
        return Ok(size_of_val(words));
    }
    read_any_group(event, to)
}

/// Serves read(2) with PERF_FORMAT_GROUP, for tasks on any CPUs.
#[inline(never)]
fn read_any_group(event: &Event, to: impl ReadTarget) -> Result<usize> {
    let format = event.config.sampling.read;
    let mut buffer = KVec::new();
    let words = {
        let group = group::lock(event);
        let word_count = format.word_count(group.events().count());
        if to.size() < word_count * size_of::<u64>() {
            return Err(ENOSPC);
        }
        buffer.resize(word_count, 0, GFP_KERNEL)?;
        // All events of a group are in the same contexts, so refreshing one event's contexts refreshes all.
        refresh_everywhere(group.leader());
        let event_times = |count| event_times(group.leader(), count);
        // The sums go on. Without preemption they are of almost the same moment.
        let _pinned = pin();
        encode_group(
            format,
            &mut buffer,
            group.events().map(closed_windows_count),
            event_times,
        )
        .ok_or(EIO)?
        // The program's memory is written after the lock is released: a fault may wait for an mmap(2) call, which may
        // wait for this lock.
    };
    to.put_words(words)?;
    Ok(size_of_val(words))
}

/// Returns the event and the count of its closed windows; `None` if the count is not complete.
fn closed_windows_count(event: &Event) -> Option<(&Event, EventCount)> {
    (!event.is_broken()).then(|| (event, EventCount::of_closed_windows(event)))
}

/// Encodes the words that read(2) returns for a group: the leader's times, by `event_times`, and
/// each event's values. Returns `None` if the count of an event is `None`, if there are no events,
/// or if `words` is too small.
#[inline(always)]
fn encode_group<'w, 'a>(
    format: ReadFormat,
    words: &'w mut [u64],
    events: impl Iterator<Item = Option<(&'a Event, EventCount)>>,
    event_times: impl Fn(EventCount) -> EventTimes,
) -> Option<&'w [u64]> {
    let leader = Cell::new(None);
    let values = events.map(|event| {
        let (event, count) = event?;
        if leader.get().is_none() {
            leader.set(Some(count));
        }
        Some(event_value(event, &count))
    });
    let event_times = || leader.get().map_or(ZERO_TIMES, &event_times);
    let words = format.encode_group(words, values, event_times)?;
    leader.get().map(|_| words)
}

/// The times for a group without events.
const ZERO_TIMES: EventTimes = EventTimes {
    enabled: 0,
    running: 0,
};

/// The number of words on the stack for a group's read(2): enough for four events with times and IDs.
const STACK_WORDS: usize = 11;
