// SPDX-License-Identifier: GPL-2.0-only
//! The calls of an event's descriptor.

use super::{
    attach::{detach, mark_missed_on_refused_cpus, refresh_everywhere},
    context::Held,
    event::Event,
    group, hooks, mappings, mmap, output, record,
    resources::{max_sample_rate, release},
    slot::{self, EventCount, Slot, Slots},
    target::Target,
};
use crate::{
    cpu::{irqs_off, timestamp, ThisCpu},
    logic::{
        precise,
        read_format::{EventTimes, EventValue, ReadFormat, MAX_WORDS_OF_ONE},
    },
    ownership::wait_for_release,
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
    /// [`ID`] of a program of 32 bits: the size in the number is that of a pointer.
    pub(super) const ID_32: u32 = _IOR::<u32>(LETTER, 7);
    pub(super) const PAUSE_OUTPUT: u32 = _IOW::<u32>(LETTER, 9);
    pub(super) const MODIFY_ATTRIBUTES: u32 = _IOW::<*mut u8>(LETTER, 11);
    /// [`MODIFY_ATTRIBUTES`] of a program of 32 bits.
    pub(super) const MODIFY_ATTRIBUTES_32: u32 = _IOW::<u32>(LETTER, 11);
}

/// `PERF_IOC_FLAG_GROUP`
const FLAG_GROUP: usize = 1;

impl Descriptor for Event {
    #[inline]
    fn read(&self, to: impl ReadTarget) -> Result<usize> {
        // The usual case: a number, and all of it is here.
        if self.config.sampling.read.is_plain()
            && !self.config.inherit
            && to.size() >= size_of::<u64>()
        {
            let count =
                with_slots_here(|here, slots| EventCount::read_here(here, slots.slot_of(self)?, 0))
                    .flatten();
            if let Some(count) = count {
                return to.put(&[count.count]).map(|()| size_of::<u64>());
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
                // All events of a group are in the same contexts, so this is for all.
                refresh(self);
                for_group(self, whole_group, Event::reset);
                refresh(self);
            }
            command::ID | command::ID_32 => return uaccess::put_words(arg, &[self.id]),
            command::SET_OUTPUT if arg as c_int == -1 => return output::set_output(self, None),
            command::SET_OUTPUT => {
                let other = OpenDescriptor::<Self>::get(arg as c_int)?;
                return output::set_output(self, Some(other.data()));
            }
            command::PAUSE_OUTPUT => {
                let paused = |ring: &Ring| ring.pause(arg != 0);
                return output::with_ring(self, paused).ok_or(EINVAL);
            }
            command::PERIOD => return set_period(self, uaccess::get::<u64>(arg)?),
            command::REFRESH => return allow_samples(self, arg as u32),
            command::MODIFY_ATTRIBUTES | command::MODIFY_ATTRIBUTES_32 => {
                return Err(errno(bindings::EOPNOTSUPP));
            }
            _ => return Err(ENOTTY),
        }
        Ok(())
    }

    fn poll(&self, poll: Poll) -> u32 {
        // SAFETY: It lives as long as the event, whose descriptor is polled.
        unsafe { self.sampler.notifier.wait.poll(&poll) };
        let over = if self.has_ended() {
            bindings::POLLHUP
        } else {
            0
        };
        let ready = match output::with_ring(self, Ring::take_woken) {
            Some(true) => bindings::POLLIN | bindings::POLLRDNORM,
            _ => 0,
        };
        over | ready
    }

    fn fasync(&self, change: FasyncChange) -> Result {
        if self.sampler.sampling.precise {
            // Its samples come long after the overflows.
            return Err(errno(bindings::EOPNOTSUPP));
        }
        self.sampler.notifier.set();
        self.sampler.notifier.wait.fasync(&change)
    }

    fn map(&self, area: &Area<'_>) -> Result {
        mmap::map(self, area)
    }

    fn copied(&self, area: &Area<'_>) {
        mmap::copied(self, area);
    }

    fn unmapped(&self, area: &Area<'_>) {
        mmap::unmapped(self, area);
    }

    fn show(&self, file: &SeqFile) {
        let cpu = self.target.cpu();
        let cpu = cpu.map_or(-1, |cpu| i64::from(cpu.as_u32()));
        seq_print!(
            file,
            "perfmon-event:\t{}\nselect:\t{:#x}\ncounter:\t{}\npid:\t{}\ncpu:\t{}\n",
            self.id,
            self.select.stopped(),
            if self.counter.is_none() {
                -1
            } else {
                i64::from(self.counter.number())
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
            u8::from(self.state().is_enabled(u64::MAX)),
            self.tasks_left_at_exec(),
            u8::from(mappings::are_recorded(self)),
        );
        if let Target::Cgroup(cgroup, _) = &self.target {
            seq_print!(file, "cgroup:\t{}\n", cgroup.id());
        }
    }

    fn close(this: Pin<KBox<Self>>) {
        this.state().close();
        detach(&this);
        group::leave(&this);
        release(this.counters, &this.config, this.target.kind());
        wait_for_release();
        record::end(&this);
        if this.target.follows_tasks(&this.config) {
            hooks::end(this.config.sampling.mappings.are_wanted());
        }
        output::free(&this);
        this.sampler.notifier.wait.sync();
        // SAFETY: It is closed, and all slots have been removed: no task inherits it. The descriptor has gone.
        unsafe { Self::free_by_rcu(this) };
    }
}

/// Calls `f` with the slots of the task that runs here, if it has any.
#[inline(always)]
fn with_slots_here<R>(f: impl FnOnce(ThisCpu<'_>, &mut Slots) -> R) -> Option<R> {
    let irqs_off = irqs_off();
    let here = irqs_off.here();
    let mut slots = Held::of_task(here)?;
    Some(f(here, &mut slots))
}

/// Closes the event's windows, wherever it counts, and opens those that should be open now, so that its sum is up to
/// date.
#[inline(never)]
fn refresh(event: &Event) {
    // The usual case: it counts the task that runs here, and no other.
    let done = with_slots_here(|here, slots| {
        let is_here = !event.config.inherit && slots.iter().any(|slot| slot.is_of_event(event));
        if is_here {
            slot::refresh(here, slots, timestamp());
        }
        is_here
    });
    if done != Some(true) {
        refresh_everywhere(event);
    }
}

/// Serves PERF_EVENT_IOC_PERIOD: sets the period, or of an event that has one, the frequency.
#[cold]
fn set_period(event: &Event, number: u64) -> Result {
    let sampling = &event.sampler.sampling;
    sampling.trigger.with(number)?.check(max_sample_rate())?;
    if sampling.precise {
        let capabilities = &pmu::common().capabilities;
        precise::check_period(number, event.config.select, capabilities)?;
    }
    event.sampler.set_period_or_frequency(number);
    refresh(event);
    Ok(())
}

/// Serves PERF_EVENT_IOC_REFRESH: enables the event for so many samples more.
#[cold]
fn allow_samples(event: &Event, number: u32) -> Result {
    if event.config.inherit || !event.sampler.is_sampled() {
        return Err(EINVAL);
    }
    if event.sampler.sampling.precise {
        return Err(errno(bindings::EOPNOTSUPP));
    }
    event.sampler.notifier.allow_samples(number);
    event.state().set_enabled(true);
    refresh(event);
    mark_missed_on_refused_cpus();
    Ok(())
}

/// Enables or disables an event, or its group.
#[inline(always)]
fn set_enabled(event: &Event, whole_group: bool, enabled: bool) {
    // The usual case: an event alone, of the task that runs here.
    if !whole_group && !event.config.inherit {
        let done = with_slots_here(|here, slots| slots.set_enabled(here, event, enabled));
        if done == Some(true) {
            return;
        }
    }
    for_group(event, whole_group, |event| event.set_enabled(enabled));
    // All events of a group are in the same contexts, so this is for all.
    refresh(event);
    if enabled {
        mark_missed_on_refused_cpus();
    }
}

/// Makes a new event count, unless it was opened as disabled.
pub(super) fn start(event: &Event) {
    if !event.config.disabled {
        set_enabled(event, false, true);
    }
}

/// Calls `f` with the event, or with all events of its group, the leader first.
#[cold]
fn for_group(event: &Event, whole_group: bool, f: impl Fn(&Event)) {
    if !whole_group {
        f(event);
        return;
    }
    group::lock(event).events().for_each(f);
}

/// Returns what read(2) returns for an event with this count.
#[inline(always)]
fn value(event: &Event, count: &EventCount) -> EventValue {
    EventValue {
        value: count.count,
        id: event.id,
        lost: event.sampler.lost(),
    }
}

/// Returns the times of an event that does not take turns.
fn usual_times(count: EventCount) -> EventTimes {
    let time = count.time.nanoseconds();
    EventTimes {
        enabled: time,
        running: time,
    }
}

/// Returns the times of an event whose windows are closed.
fn times(event: &Event, count: EventCount) -> EventTimes {
    let usual = usual_times(count);
    if !event.config.takes_turns {
        return usual;
    }
    // Loaded after `running`, and so not less.
    EventTimes {
        enabled: event.enabled_time().nanoseconds(),
        ..usual
    }
}

/// Serves read(2) of one event.
#[inline(never)]
fn read_one(event: &Event, to: impl ReadTarget) -> Result<usize> {
    let format = event.config.sampling.read;
    if to.size() < format.size(1) {
        return Err(ENOSPC);
    }
    let count = match with_slots_here(|here, slots| {
        EventCount::read_here(here, slots.slot_of(event)?, timestamp())
    }) {
        Some(Some(count)) if !event.config.inherit => count,
        _ => {
            refresh_everywhere(event);
            if event.is_broken() {
                return Err(EIO);
            }
            EventCount::closed(event)
        }
    };
    let mut words = [0; MAX_WORDS_OF_ONE];
    let words = format.encode_one(&mut words, value(event, &count), || times(event, count));
    to.put(words)?;
    Ok(size_of_val(words))
}

/// Serves read(2) of a group: of all its events at one moment, in each task.
#[inline(never)]
fn read_group(event: &Event, to: impl ReadTarget) -> Result<usize> {
    let format = event.config.sampling.read;
    let mut few = [0; STACK_WORDS];
    // The usual case: all of it is here.
    let words = with_slots_here(|here, slots| {
        if event.config.inherit {
            return None;
        }
        let (group, now) = (slots.group(event), timestamp());
        let read = |slot: &Slot| Some((slot.event(), EventCount::read_here(here, slot, now)?));
        encode_group(format, &mut few, group.map(read), usual_times)
    });
    if let Some(Some(words)) = words {
        if to.size() < size_of_val(words) {
            return Err(ENOSPC);
        }
        to.put(words)?;
        return Ok(size_of_val(words));
    }
    read_any_group(event, to)
}

/// Serves read(2) of a group whose tasks are anywhere.
#[inline(never)]
fn read_any_group(event: &Event, to: impl ReadTarget) -> Result<usize> {
    let format = event.config.sampling.read;
    let mut room = KVec::new();
    let words = {
        let group = group::lock(event);
        let needed = format.words(group.events().count());
        if to.size() < needed * size_of::<u64>() {
            return Err(ENOSPC);
        }
        room.resize(needed, 0, GFP_KERNEL)?;
        // All events of a group are in the same contexts, so this is for all.
        refresh_everywhere(group.leader());
        let times = |count| times(group.leader(), count);
        encode_group(format, &mut room, group.events().map(closed_count), times).ok_or(EIO)?
        // Programs' memory is not touched under the lock: a fault may wait for a mmap(2), which may wait for it.
    };
    to.put(words)?;
    Ok(size_of_val(words))
}

/// Returns what the closed windows of an event have counted, unless events were missed.
fn closed_count(event: &Event) -> Option<(&Event, EventCount)> {
    (!event.is_broken()).then(|| (event, EventCount::closed(event)))
}

/// Encodes what read(2) returns for a group: the id and the count of each event, and the leader's `times`. `None` if a
/// count is missing, there is none, or there is no room.
#[inline(always)]
fn encode_group<'w, 'a>(
    format: ReadFormat,
    words: &'w mut [u64],
    events: impl Iterator<Item = Option<(&'a Event, EventCount)>>,
    times: impl Fn(EventCount) -> EventTimes,
) -> Option<&'w [u64]> {
    let leader = Cell::new(None);
    let values = events.map(|event| {
        let (event, count) = event?;
        if leader.get().is_none() {
            leader.set(Some(count));
        }
        Some(value(event, &count))
    });
    let times = || leader.get().map_or(ZERO_TIMES, &times);
    let words = format.encode_group(words, values, times)?;
    leader.get().map(|_| words)
}

/// The times of nothing.
const ZERO_TIMES: EventTimes = EventTimes {
    enabled: 0,
    running: 0,
};

/// The words of a group for which there is room on the stack: of four events with times and ids, of more without.
const STACK_WORDS: usize = 11;
