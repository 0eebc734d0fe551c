// SPDX-License-Identifier: GPL-2.0-only
//! The page of an event that programs map, to read the count without a system call.
//!
//! A program may execute RDPMC while it has the page of an event of one of its own threads mapped (sys/rdpmc.c, which has
//! all that can happen to the right). Then a counter must not tell it what other tasks have counted before:
//! [`hide_others`].
//!
//! All mappings show the same page, so it tells of RDPMC only if all are those of the program that is counted
//! ([`Mappings`]).

use super::{
    attach::with_context,
    event::{Event, Target},
    ring,
    slot::{refresh, set_page, Slots},
    switch::WATCHERS,
};
use crate::{
    cpu::{timestamp, ThisCpu},
    logic::{
        counter::CounterKind,
        user_page::{index, UserPage},
    },
    ownership::Charge,
    percpu::{PageState, UserPagePtr},
    pmu,
    ring::Ring,
    sys::{descriptor::Area, ffi},
};
use core::{
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst},
};
use kernel::{
    bindings, new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{Arc, Mutex},
};

/// The page of an event, from the first mmap(2) on, and its ring.
#[pin_data]
pub(super) struct Page {
    #[pin]
    mapped: Mutex<Mapped>,
    mappings: Mappings,
}

impl Page {
    /// Returns no page yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            mapped <- new_mutex!(Mapped {
                page: None,
                ring: None,
                has_own_ring: false,
            }),
            mappings: Mappings::new(),
        })
    }
}

/// The mappings of a page.
///
/// ATOMICS: sequentially consistent. They are changed under the lock of [`Page::mapped`]; who changes them makes the CPU
/// write the page anew.
struct Mappings {
    all: AtomicU32,
    /// The mappings in `mm`. Their areas are marked ([`Area::mark`]).
    own: AtomicU32,
    /// The address space of the program that was counted when the first of `own` began. A task that has executed another
    /// program has another one: then the page is not its program's.
    mm: AtomicPtr<bindings::mm_struct>,
}

impl Mappings {
    fn new() -> Self {
        Self {
            all: AtomicU32::new(0),
            own: AtomicU32::new(0),
            mm: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns whether there is none.
    fn is_empty(&self) -> bool {
        self.all.load(SeqCst) == 0
    }

    /// Returns whether all are of the program that the event counts.
    fn are_own(&self, event: &Event) -> bool {
        let own = self.own.load(SeqCst);
        own != 0 && own == self.all.load(SeqCst) && is_in(event, self.mm.load(SeqCst))
    }

    /// Adds one of those that are counted to `own`, if it is in the address space of the program that the event counts:
    /// returns whether that is so. The lock is held.
    fn begin_own(&self, event: &Event, mm: *mut bindings::mm_struct) -> bool {
        let is_first = self.own.load(SeqCst) == 0;
        // Mappings of the program before this one may still be there.
        if !is_in(event, mm) || !is_first && self.mm.load(SeqCst) != mm {
            return false;
        }
        self.mm.store(mm, SeqCst);
        self.own.fetch_add(1, SeqCst);
        true
    }
}

/// What programs map.
struct Mapped {
    page: Option<Arc<Memory>>,
    /// The ring that the event writes to.
    ring: Option<Arc<ring::Memory>>,
    /// It is mapped with the page, and not that of another event.
    has_own_ring: bool,
}

impl Mapped {
    /// Returns the bytes of the ring's data; 0 without one.
    fn ring_size(&self) -> usize {
        self.ring.as_ref().map_or(0, |ring| ring.size())
    }

    /// Returns the ring, unless that of another event has ended: then it is as if there were none.
    fn live_ring(&self) -> Option<&Arc<ring::Memory>> {
        self.ring.as_ref().filter(|ring| !ring.ring().has_ended())
    }
}

/// Frees the page and leaves the ring of an event that is closed and has no slot any more. Not left to RCU: a charge ends
/// in a task.
pub(super) fn free(event: &Event) {
    let (_page, ring) = {
        let mut mapped = event.page.mapped.lock();
        let ring = ring::replace(event, &mut mapped.ring, None);
        (mapped.page.take(), ring)
    };
    ring::drop_unused(ring);
}

/// Makes the event write to the ring of another one, or to none.
///
/// # Errors
///
/// EINVAL if the event has a mapping, the other has no ring, or they may not share one.
pub(super) fn set_output(event: &Event, other: Option<&Event>) -> Result {
    let new = match other {
        None => None,
        Some(other) => {
            if core::ptr::eq(event, other) || !ring::may_share(event, other) {
                return Err(EINVAL);
            }
            let mapped = other.page.mapped.lock();
            Some(mapped.live_ring().ok_or(EINVAL)?.clone())
        }
    };
    let old = {
        let mut mapped = event.page.mapped.lock();
        if !event.page.mappings.is_empty() {
            return Err(EINVAL);
        }
        ring::replace(event, &mut mapped.ring, new)
    };
    ring::drop_unused(old);
    Ok(())
}

/// Calls `f` with the ring that the event writes to, if there is one.
pub(super) fn with_ring<R>(event: &Event, f: impl FnOnce(&Ring) -> R) -> Option<R> {
    let mapped = event.page.mapped.lock();
    mapped.live_ring().map(|ring| f(ring.ring()))
}

/// The memory of a page.
///
/// # Invariants
///
/// `start` points to a page from `perfmon_buffer_alloc()`.
pub(super) struct Memory {
    start: NonNull<UserPage>,
    _charge: Charge,
}

// SAFETY: The page may be used and freed by any task.
unsafe impl Send for Memory {}
// SAFETY: As above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates a page, which says that the event counts nowhere.
    ///
    /// # Errors
    ///
    /// ENOMEM. EPERM if the caller may not pin more memory.
    fn new(event: &Event) -> Result<Self> {
        let charge = Charge::new(1)?;
        // SAFETY: The function has no requirements.
        let start = unsafe { ffi::perfmon_buffer_alloc(PAGE_SIZE) };
        let start: NonNull<UserPage> = NonNull::new(start.cast()).ok_or(ENOMEM)?;
        let capabilities = &pmu::common().capabilities;
        let bits = match event.counter.kind() {
            CounterKind::General(_) => capabilities.general_width,
            CounterKind::Fixed(_) => capabilities.fixed_width,
        };
        // SAFETY: The page has just been allocated, all zero, and has no other user.
        unsafe {
            (*start.as_ptr()).capabilities = UserPage::CAP_BIT0_IS_DEPRECATED;
            (*start.as_ptr()).pmc_width = bits.into();
            (*start.as_ptr()).size = UserPage::SIZE;
        }
        // INVARIANT: The page has just been allocated.
        Ok(Self {
            start,
            _charge: charge,
        })
    }
}

impl Memory {
    /// Returns the page.
    pub(super) fn start(&self) -> NonNull<UserPage> {
        self.start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Mappings keep the event, so there is none.
        unsafe { ffi::perfmon_buffer_free(self.start.as_ptr().cast()) };
    }
}

/// Serves mmap(2) of an event's page, and of its ring behind that.
///
/// # Errors
///
/// EINVAL for another size than one page and 0 or a power of 2 pages for the ring, another size than that of other
/// mappings or of the ring that the event writes to, another offset than 0, a private mapping, or an event that is
/// inherited on any CPU. EBUSY if the event writes to the ring of another one. ENOMEM, EPERM.
pub(super) fn map(event: &Event, area: &Area<'_>) -> Result {
    // Of a sum over tasks on any CPU no page can tell: EINVAL, as from perf.
    let is_sum = event.config.inherit && matches!(event.target, Target::Task(_, None));
    let ring_size = area.size() - PAGE_SIZE;
    let is_ring = ring_size / PAGE_SIZE == 0 || (ring_size / PAGE_SIZE).is_power_of_two();
    if is_sum || !area.is_shared() || area.first_page() != 0 || !is_ring {
        return Err(EINVAL);
    }
    area.keep_to_this_program();
    let start = map_memory(event, area, ring_size)?;
    if begin_own(event, area) {
        area.mark();
    }
    publish(event, UserPagePtr::new(start));
    Ok(())
}

/// Lets the caller use RDPMC, if the event counts a thread of its program. Returns whether it may.
fn begin_own(event: &Event, area: &Area<'_>) -> bool {
    let mappings = &event.page.mappings;
    {
        let _mapped = event.page.mapped.lock();
        if !mappings.begin_own(event, area.mm()) {
            return false;
        }
    }
    WATCHERS.fetch_add(1, SeqCst);
    // SAFETY: The mm is the caller's, and locked, since an area is being mapped.
    if unsafe { ffi::perfmon_rdpmc_begin(area.mm()) } {
        return true;
    }
    WATCHERS.fetch_sub(1, SeqCst);
    let _mapped = event.page.mapped.lock();
    mappings.own.fetch_sub(1, SeqCst);
    false
}

/// Maps the page and a ring with so many bytes. Returns the page.
fn map_memory(event: &Event, area: &Area<'_>, ring_size: usize) -> Result<NonNull<UserPage>> {
    let mut mapped = event.page.mapped.lock();
    if mapped.live_ring().is_none() {
        ring::drop_unused(ring::replace(event, &mut mapped.ring, None));
    }
    let is_first = event.page.mappings.is_empty();
    if mapped.ring_size() != ring_size && (!is_first || mapped.ring.is_some()) {
        return Err(EINVAL);
    }
    if is_first && mapped.ring.is_some() {
        return Err(EBUSY);
    }
    let page = match &mapped.page {
        Some(page) => page.clone(),
        None => Arc::new(Memory::new(event)?, GFP_KERNEL)?,
    };
    let new_ring = if is_first && ring_size != 0 {
        let sampling = &event.sampler.sampling;
        let overwrite = !area.is_writable();
        Some(ring::Memory::new(&page, sampling, ring_size, overwrite)?)
    } else {
        None
    };
    // SAFETY: The page is from `perfmon_buffer_alloc()`. It is freed after the last mapping has gone; if this fails, before:
    // the kernel's page tables have references of their own to its pages.
    unsafe { area.insert(0, page.start.cast(), PAGE_SIZE) }?;
    if let Some(ring) = new_ring.as_ref().or(mapped.ring.as_ref()) {
        ring.map(area)?;
    }
    // Nothing fails any more.
    if let Some(ring) = &new_ring {
        ring.ring().show();
        // There was none.
        let _ = ring::replace(event, &mut mapped.ring, new_ring);
        mapped.has_own_ring = true;
    }
    event.page.mappings.all.fetch_add(1, SeqCst);
    Ok(mapped.page.insert(page).start)
}

/// Copies a mapping, for mremap(2), or for a change of a part.
pub(super) fn copied(event: &Event, area: &Area<'_>) {
    let mappings = &event.page.mappings;
    let _mapped = event.page.mapped.lock();
    if area.is_marked() {
        WATCHERS.fetch_add(1, SeqCst);
        // SAFETY: The mm may use RDPMC, since the mapping that is copied says so.
        unsafe { ffi::perfmon_rdpmc_again(area.mm()) };
        mappings.own.fetch_add(1, SeqCst);
    }
    mappings.all.fetch_add(1, SeqCst);
}

/// Counts a mapping less. With the last one the ring ends. Returns the page.
fn end_mapping(event: &Event, area: &Area<'_>) -> Option<NonNull<UserPage>> {
    let mappings = &event.page.mappings;
    let mut mapped = event.page.mapped.lock();
    let start = mapped.page.as_ref().map(|page| page.start);
    if area.is_marked() {
        mappings.own.fetch_sub(1, SeqCst);
    }
    mappings.all.fetch_sub(1, SeqCst);
    if !mappings.is_empty() || !mapped.has_own_ring {
        return start;
    }
    mapped.has_own_ring = false;
    if let Some(ring) = ring::replace(event, &mut mapped.ring, None) {
        // The events that write to it, too, write no more when `wait_for_writers` returns. Under the lock, since the
        // page may have another ring afterwards.
        ring.ring().end_all();
        ring::wait_for_writers();
        ring.ring().hide();
    }
    start
}

/// Ends a mapping.
pub(super) fn unmapped(event: &Event, area: &Area<'_>) {
    // The rest may be the program's own.
    if let Some(start) = end_mapping(event, area) {
        publish(event, UserPagePtr::new(start));
    }
    if area.is_marked() {
        // SAFETY: `map` or `copied` has begun it.
        unsafe { ffi::perfmon_rdpmc_end(area.mm()) };
        WATCHERS.fetch_sub(1, SeqCst);
    }
}

/// Keeps RDPMC from a new task, which does not run yet: mappings are not copied. Also if no program may use it any more:
/// there may have been one when the address space was copied.
pub(super) fn forget(task: *mut bindings::task_struct) {
    // SAFETY: The task has just been made by the current one.
    unsafe { ffi::perfmon_rdpmc_forget(task) };
}

/// Returns whether the event counts a task in this address space.
fn is_in(event: &Event, mm: *mut bindings::mm_struct) -> bool {
    match &event.target {
        // SAFETY: The task is alive, since the event has a reference.
        Target::Task(task, _) => unsafe { ffi::perfmon_task_is_in(task.as_ptr(), mm) },
        Target::Cpu(_) => false,
    }
}

/// Writes the page, and from now on at each switch.
fn publish(event: &Event, page: UserPagePtr) {
    let written = with_context(&event.target, |here, slots| {
        set_page(slots, event, page);
        match here {
            Some(here) => refresh(here, slots, timestamp()),
            None => write_closed(event, page),
        }
    });
    if written.is_none() {
        write_closed(event, page);
    }
}

/// Writes the page of an event that counts nowhere.
fn write_closed(event: &Event, page: UserPagePtr) {
    // SAFETY: The page lives as long as the event, and has no other writer: the caller holds the context, or there is
    // none any more.
    unsafe {
        page.write(&PageState {
            capabilities: capabilities(event),
            index: 0,
            offset: event.count() as i64,
            time: event.time().nanoseconds(),
        });
    }
}

/// Returns whether a program may compute the count with RDPMC.
fn is_readable(event: &Event) -> bool {
    event.page.mappings.are_own(event) && !event.is_broken()
}

/// Returns what `capabilities` of the page says.
fn capabilities(event: &Event) -> u64 {
    let rdpmc = if is_readable(event) {
        UserPage::CAP_USER_RDPMC
    } else {
        0
    };
    UserPage::CAP_BIT0_IS_DEPRECATED | rdpmc
}

/// Shows in their pages that the slots with open windows count.
#[cold]
#[inline(never)]
pub(super) fn show(here: ThisCpu<'_>, slots: &Slots) {
    for slot in slots.iter().filter(|slot| slot.is_open()) {
        let (Some(page), event) = (slot.page(), slot.event()) else {
            continue;
        };
        if !is_readable(event) {
            write_closed(event, page);
            continue;
        }
        // SAFETY: The page lives as long as the event; before that ends, its windows are closed.
        unsafe {
            here.percpu().show_page(
                slot.counter(),
                page,
                slot.base(),
                PageState {
                    capabilities: capabilities(event),
                    index: index(slot.counter()),
                    offset: 0,
                    time: event.time().nanoseconds(),
                },
            );
        }
    }
}

/// Shows in their pages that no slot counts.
#[cold]
#[inline(never)]
pub(super) fn hide(here: ThisCpu<'_>, slots: &Slots) {
    for slot in slots.iter() {
        if let Some(page) = slot.page() {
            here.percpu().hide_page(slot.counter());
            write_closed(slot.event(), page);
        }
    }
}

/// Hides what counters have counted from a task that begins to run here, if its program may use RDPMC. No window is
/// open.
#[cold]
#[inline(never)]
pub(super) fn hide_others(here: ThisCpu<'_>, task: *const bindings::task_struct) {
    // SAFETY: The task is the one that is switched to.
    if unsafe { ffi::perfmon_rdpmc_has(task) } {
        here.pmu().hide_counters(here);
    }
}
