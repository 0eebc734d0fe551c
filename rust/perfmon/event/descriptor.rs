// SPDX-License-Identifier: GPL-2.0-only
//! The calls of an event's descriptor.

use super::{
    attach::{detach, refresh_everywhere},
    context::Context,
    event::{Event, Target},
    page,
    slot::refresh,
    EVENTS,
};
use crate::{
    cpu::{irqs_off, timestamp},
    logic::read_format::{EventTimes, EventValue, MAX_WORDS_OF_ONE},
    ownership::OWNERSHIP,
    sys::{
        descriptor::{Area, Descriptor, Poll},
        error::errno,
        uaccess,
    },
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    ioctl::{_IO, _IOR, _IOW},
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::GlobalGuard,
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
    pub(super) const PAUSE_OUTPUT: u32 = _IOW::<u32>(LETTER, 9);
    pub(super) const MODIFY_ATTRIBUTES: u32 = _IOW::<*mut u8>(LETTER, 11);
}

/// `PERF_IOC_FLAG_GROUP`
const FLAG_GROUP: usize = 1;

impl Descriptor for Event {
    #[inline]
    fn read(&self, to: usize, size: usize) -> Result<usize> {
        if self.config.read_format.is_group() {
            return read_group(self, to, size);
        }
        let needed = self.config.read_format.size(1);
        if size < needed {
            return Err(ENOSPC);
        }
        if !refresh_here(self) {
            refresh_everywhere(self);
        }
        let mut words = [0; MAX_WORDS_OF_ONE];
        let words = (self.config.read_format).encode_one(&mut words, value(self)?, || times(self));
        uaccess::put_words(to, words)?;
        Ok(needed)
    }

    fn ioctl(&self, command: u32, arg: usize) -> Result {
        let whole_group = arg & FLAG_GROUP != 0;
        match command {
            command::ENABLE => change(self, whole_group, |event| event.set_enabled(true)),
            command::DISABLE => change(self, whole_group, |event| event.set_enabled(false)),
            command::RESET => {
                for_group(self, whole_group, |event| {
                    refresh_everywhere(event);
                    event.reset();
                });
            }
            command::ID => return uaccess::put_words(arg, &[self.id]),
            // Of samples, which there are none of.
            command::REFRESH | command::PERIOD | command::SET_OUTPUT | command::PAUSE_OUTPUT => {
                return Err(EINVAL);
            }
            command::MODIFY_ATTRIBUTES => return Err(errno(bindings::EOPNOTSUPP)),
            _ => return Err(ENOTTY),
        }
        Ok(())
    }

    fn poll(&self, poll: Poll) -> u32 {
        // SAFETY: The wait queue is initialized, and lives as long as the event, whose descriptor is polled.
        unsafe { poll.wait(self.wait.get()) };
        if self.is_over() {
            bindings::POLLHUP
        } else {
            0
        }
    }

    fn map(&self, area: &Area<'_>) -> Result {
        page::map(self, area)
    }

    fn copied(&self, area: &Area<'_>) {
        page::copied(self, area);
    }

    fn unmapped(&self, area: &Area<'_>) {
        page::unmapped(self, area);
    }

    fn show(&self, file: &SeqFile) {
        let (pid, cpu) = match &self.target {
            Target::Task(task, cpu) => (task.pid(), cpu.map_or(-1, i64::from)),
            Target::Cpu(cpu) => (-1, i64::from(*cpu)),
        };
        seq_print!(
            file,
            "perfmon-event:\t{}\nselect:\t{:#x}\ncounter:\t{}\npid:\t{}\ncpu:\t{}\n",
            self.id,
            self.select.stopped(),
            self.counter.number(),
            pid,
            cpu,
        );
        seq_print!(
            file,
            "inherit:\t{}\npinned:\t{}\nexclusive:\t{}\nenabled:\t{}\n",
            u8::from(self.config.inherit),
            u8::from(self.config.pinned),
            u8::from(self.config.exclusive),
            u8::from(self.is_enabled(u32::MAX)),
        );
    }

    fn close(this: Pin<KBox<Self>>) {
        {
            let mut events = EVENTS.lock();
            this.close();
            detach(&this);
            leave_group(&this, &mut events);
            let mut ownership = OWNERSHIP.lock();
            ownership.part(this.counter);
            if this.config.exclusive {
                ownership.end_exclusive();
            }
            drop(ownership);
            if matches!(this.target, Target::Task(..)) {
                events.end_task_event();
            }
        }
        // SAFETY: It is closed, and all slots have been removed: no task inherits it. The descriptor has gone.
        unsafe { Self::free_by_rcu(this) };
    }
}

/// Takes an event out of its group. Those that it led are alone from now on.
fn leave_group(event: &Event, events: &mut GlobalGuard<EVENTS>) {
    let this = NonNull::from(event);
    let group = event.group.as_mut(events);
    let (leader, mut siblings) = (group.leader.take(), core::mem::take(&mut group.siblings));
    if let Some(leader) = leader {
        // SAFETY: An event leaves the groups of others before it is freed; both under the lock.
        let group = unsafe { leader.as_ref() }.group.as_mut(events);
        group.siblings.retain(|sibling| *sibling != this);
    }
    while let Some(sibling) = siblings.pop() {
        // SAFETY: As above.
        unsafe { sibling.as_ref() }.group.as_mut(events).leader = None;
    }
}

/// Brings the sum of an event up to date if only a task counts it that runs here. Returns whether it is.
#[inline(always)]
fn refresh_here(event: &Event) -> bool {
    if event.config.inherit {
        return false;
    }
    let irqs_off = irqs_off();
    let here = irqs_off.here();
    let Some(context) = Context::loaded(here.percpu()) else {
        return false;
    };
    // SAFETY: The context is loaded on this CPU, and interrupts are off.
    let slots = unsafe { context.slots() };
    if !slots.iter().any(|slot| slot.is_of(event)) {
        return false;
    }
    refresh(here, slots, timestamp());
    true
}

/// Returns what read(2) tells of an event whose sum is up to date.
#[inline(always)]
fn value(event: &Event) -> Result<EventValue> {
    Ok(EventValue {
        value: event.value()?,
        id: event.id,
        lost: 0,
    })
}

/// Returns the times of an event whose sum is up to date.
fn times(event: &Event) -> EventTimes {
    let time = event.nanoseconds();
    EventTimes {
        enabled: time,
        running: time,
    }
}

/// Serves read(2) of a group: of all its events at one moment, in each task.
fn read_group(event: &Event, to: usize, size: usize) -> Result<usize> {
    let events = EVENTS.lock();
    let leader = leader_of(event, &events);
    let siblings = &leader.group.as_ref(&events).siblings;
    let count = 1 + siblings.len();
    let format = event.config.read_format;
    if size < format.size(count) {
        return Err(ENOSPC);
    }
    // All events of a group are in the same contexts, so this is for all.
    if !refresh_here(leader) {
        refresh_everywhere(leader);
    }
    let mut few = [0; FEW_WORDS];
    let mut many;
    let words: &mut [u64] = match few.get_mut(..format.words(count)) {
        Some(words) => words,
        None => {
            many = KVec::from_elem(0, format.words(count), GFP_KERNEL)?;
            &mut many
        }
    };
    let mut failed = None;
    // SAFETY: An event leaves the groups of others before it is freed; both under the lock.
    let members = siblings.iter().map(|sibling| unsafe { sibling.as_ref() });
    // Not as a method: the trait `Init` has one of this name.
    let values = Iterator::chain(core::iter::once(leader), members).map(|event| {
        value(event).unwrap_or_else(|error| {
            failed = Some(error);
            EventValue {
                value: 0,
                id: event.id,
                lost: 0,
            }
        })
    });
    let words = format
        .encode_group(words, count, values, || times(leader))
        .ok_or(ENOSPC)?;
    let needed = size_of_val(words);
    if let Some(error) = failed {
        return Err(error);
    }
    uaccess::put_words(to, words)?;
    Ok(needed)
}

/// The words for which there is room on the stack: of a group of 8 with all there is to tell.
const FEW_WORDS: usize = 3 + 3 * 8;

/// Returns the leader of an event's group.
fn leader_of<'a>(event: &'a Event, events: &'a GlobalGuard<EVENTS>) -> &'a Event {
    match event.group.as_ref(events).leader {
        // SAFETY: A leader leaves its group before it is freed; both under the lock.
        Some(leader) => unsafe { &*leader.as_ptr() },
        None => event,
    }
}

/// Calls `f` with the event, or with all events of its group, the leader first.
fn for_group(event: &Event, whole_group: bool, f: impl Fn(&Event)) {
    let events = EVENTS.lock();
    if !whole_group {
        f(event);
        return;
    }
    let leader = leader_of(event, &events);
    f(leader);
    for sibling in &leader.group.as_ref(&events).siblings {
        // SAFETY: An event leaves the groups of others before it is freed; both under the lock.
        f(unsafe { sibling.as_ref() });
    }
}

/// Changes an event or its group by `f`, and makes the CPUs look at it again.
fn change(event: &Event, whole_group: bool, f: impl Fn(&Event)) {
    for_group(event, whole_group, f);
    // All events of a group are in the same contexts, so this is for all.
    if !refresh_here(event) {
        refresh_everywhere(event);
    }
}
