// SPDX-License-Identifier: GPL-2.0-only
//! CPUs: staying on one, calling all, hearing of those that come and go, and memory for each.

use crate::{
    count::Count,
    ffi,
    logic::counter::{CounterId, MAX_COUNTERS},
    overflow::{budget::Budget, late::PendingPmi, watch::Watch},
    pmu::{ModelCell, SavedRegisters},
    recorder::{Event, Recorder},
};
use core::{
    arch::{asm, x86_64},
    marker::PhantomData,
    ops::{Deref, Range},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use kernel::{
    bindings,
    cpu::{nr_cpu_ids, CpuId},
    error::to_result,
    ffi::{c_int, c_uint, c_void},
    prelude::*,
    time::{msecs_to_jiffies, Msecs},
    types::NotThreadSafe,
};

/// What is kept for each CPU. Zero is a valid value of each field.
///
/// Every field may be read on any CPU. It is written on its own CPU, or, while that is not counted on,
/// under the arbiter's lock; only `alone` always so.
pub(crate) struct Slot {
    /// Whether the CPU is in the set of those that are counted on.
    pub(crate) counted: Word,
    /// Whether no other CPU ever was: then the values here are those of the machine.
    pub(crate) alone: Word,
    /// Bits of the counters that are set up here and not [`Self::tampered`] with, for PMIOREAD.
    pub(crate) readable: Word,
    /// What its PMU is, while its registers are ours: [`Self::saved`] is to be put back.
    pub(crate) model: ModelCell,
    /// Bits of the counters that run here: those whose overflows are ours.
    pub(crate) active: Word,
    /// What the overflow handler has to heed beside overflows, all that is rare in one word: `HEED_*`, and
    /// bits of the active counters that count in kernel mode, and so the handler itself.
    pub(crate) heed: Word,
    /// How often the overflow handler has stopped counters.
    pub(crate) stops: Word,
    /// Bits of the counters whose registers were found to hold something else.
    pub(crate) tampered: Word,
    /// Whether counters were found switched off that should have run.
    pub(crate) interrupted: Word,
    /// The PMIs that may arrive late.
    pub(crate) pending: PendingPmi,
    /// What overflow interrupts may still take of the CPU's time.
    pub(crate) budget: Budget,
    /// The timer that watches the CPU.
    pub(crate) watch: Watch,
    /// Bits in a general and in a fixed-function counter of this CPU.
    pub(crate) widths: [Word; 2],
    /// Its [`Capabilities::arch_events`](crate::logic::cpuid::Capabilities::arch_events).
    pub(crate) arch_events: Word,
    /// What its registers held before the first counter was set up.
    pub(crate) saved: SavedRegisters,
    /// What the trace does here.
    pub(crate) recorder: Recorder,
    /// By [`CounterId::index`].
    counters: [Counter; MAX_COUNTERS],
}

/// [`Slot::heed`]: branches are recorded, and frozen by the interrupt.
pub(crate) const HEED_BRANCHES: u64 = 1 << 63;
/// [`Slot::heed`]: the CPU is AMD's.
pub(crate) const HEED_AMD: u64 = 1 << 61;
/// [`Slot::heed`]: counters of kernel mode.
pub(crate) const HEED_KERNEL: u64 = !(HEED_BRANCHES | HEED_AMD);

/// What is kept of one counter, in two cache lines of its own: the overflow handler needs all of it.
#[repr(align(128))]
struct Counter {
    count: Count,
    event: Event,
}

const _: () = assert!(size_of::<Counter>() == 128);

impl Slot {
    /// The value of a counter.
    #[inline(always)]
    pub(crate) fn count(&self, counter: CounterId) -> &Count {
        &self.counters[counter.index()].count
    }

    /// What is recorded of it.
    #[inline(always)]
    pub(crate) fn event(&self, counter: CounterId) -> &Event {
        &self.counters[counter.index()].event
    }

    /// Marks counters as tampered with: their values can't be relied on.
    #[cold]
    pub(crate) fn spoil(&self, counters: u64) {
        self.tampered.insert(counters);
        self.readable.remove(counters);
    }
}

/// A word that is written on one CPU, and read there by interrupts too, or by other CPUs.
///
/// ATOMICS: all accesses are relaxed. A task and the overflow handler that interrupts it run on the
/// same CPU, which keeps its own order; between CPUs the arbiter's lock and the calls from one to
/// another are full barriers. The types of `kernel::sync::atomic` are not used because each of their
/// accesses is a function call, which would double what a counter read costs.
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Adds one.
    #[inline(always)]
    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Sets the bits of `mask`.
    #[inline(always)]
    pub(crate) fn insert(&self, mask: u64) {
        self.0.fetch_or(mask, Relaxed);
    }

    /// Clears the bits of `mask`.
    #[inline(always)]
    pub(crate) fn remove(&self, mask: u64) {
        self.0.fetch_and(!mask, Relaxed);
    }

    /// Stores `new` if the word still holds `old`, and tells whether it did.
    #[inline(always)]
    pub(crate) fn replace(&self, old: u64, new: u64) -> bool {
        self.0.compare_exchange(old, new, Relaxed, Relaxed).is_ok()
    }
}

/// The memory of all slots.
///
/// # Invariants
///
/// While a value of this type exists, the C side holds a zero-initialized [`Slot`] for every possible
/// CPU. There is at most one value.
pub(crate) struct Slots(());

impl Slots {
    /// Allocates the slots.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life. The result outlives every use of the rest of this
    /// file.
    pub(crate) unsafe fn new() -> Result<Self> {
        // SAFETY: By the requirement, no slots are there that would be lost.
        to_result(unsafe { ffi::perfmon_slots_alloc(size_of::<Slot>(), align_of::<Slot>()) })?;
        // INVARIANT: They have just been allocated, and per-CPU memory is zero at first.
        Ok(Self(()))
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: By the type invariant there is something to free, and by the requirement of `new`
        // nobody uses it any more.
        unsafe { ffi::perfmon_slots_free() };
    }
}

/// The slot of the current CPU. A reference to it is the proof that the holder can't leave the CPU that it
/// runs on.
///
/// # Invariants
///
/// Who has a reference runs on the slot's CPU, and stays there for as long as it can be reached.
#[repr(transparent)]
pub(crate) struct ThisCpu {
    slot: Slot,
    _not_sync: NotThreadSafe,
}

impl ThisCpu {
    /// # Safety
    ///
    /// The caller must not leave the CPU while the result can be reached, and `slot` must be what C gives
    /// as the current CPU's.
    #[inline(always)]
    pub(crate) unsafe fn from_slot<'a>(slot: *mut c_void) -> &'a Self {
        // INVARIANT: By the requirement of this function.
        // SAFETY: The slots live as long as anything that can get here (see `Slots::new`), only shared
        // references to them are ever made, and this type is nothing but a slot.
        unsafe { &*slot.cast::<Self>() }
    }

    /// # Safety
    ///
    /// The caller must not leave the CPU while the result can be reached.
    #[inline]
    pub(crate) unsafe fn assume<'a>() -> &'a Self {
        // SAFETY: The caller stays on the CPU, so the slot is this CPU's; always callable.
        unsafe { Self::from_slot(ffi::perfmon_this_slot()) }
    }

    /// The memory kept for this CPU.
    #[inline(always)]
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Its number, for people.
    pub(crate) fn number(&self) -> u32 {
        CpuId::current().as_u32()
    }
}

/// Keeps the current task on its CPU: it can't be preempted while this exists.
pub(crate) struct Pinned(&'static ThisCpu);

/// Stays on the current CPU.
#[inline(always)]
pub(crate) fn pin() -> Pinned {
    // SAFETY: Preemption is off from here until the value is dropped.
    Pinned(unsafe { ThisCpu::from_slot(ffi::perfmon_pin()) })
}

impl Deref for Pinned {
    type Target = ThisCpu;

    #[inline(always)]
    fn deref(&self) -> &ThisCpu {
        self.0
    }
}

impl Drop for Pinned {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: Ends what `pin` began.
        unsafe { ffi::perfmon_unpin() };
    }
}

/// Runs `f` on the current CPU, which does nothing else meanwhile but serve NMIs.
///
/// For tasks: interrupts are on before and afterwards.
#[inline(always)]
pub(crate) fn undisturbed<R>(f: impl FnOnce(&ThisCpu) -> R) -> R {
    // SAFETY: Interrupts are off until `f` has returned, and with them preemption.
    let here = unsafe { ThisCpu::from_slot(ffi::perfmon_interrupts_off()) };
    let result = f(here);
    // SAFETY: Ends what the first call began; `here` is not used any more.
    unsafe { ffi::perfmon_interrupts_on() };
    result
}

/// The slot of a CPU, for reading.
pub(crate) fn slot(cpu: CpuId) -> &'static Slot {
    // SAFETY: A `CpuId` that this file hands out is of a possible CPU; the slots live as long as
    // anything that can get here (see `Slots::new`).
    unsafe { &*ffi::perfmon_slot(cpu.as_u32()).cast::<Slot>() }
}

/// The numbers of all possible CPUs, lowest first.
pub(crate) fn ids() -> impl Iterator<Item = CpuId> {
    // SAFETY: Each number is below the number of CPU ids.
    (0..nr_cpu_ids()).map(|n| unsafe { CpuId::from_u32_unchecked(n) })
}

/// Words of a CPU mask.
const MASK_WORDS: usize = bindings::NR_CPUS.div_ceil(u64::BITS) as usize;

/// A set of CPUs.
pub(crate) struct CpuSet {
    mask: bindings::cpumask,
    /// How many are in it.
    count: usize,
}

impl CpuSet {
    pub(crate) const fn new() -> Self {
        Self {
            mask: bindings::cpumask {
                bits: [0; MASK_WORDS],
            },
            count: 0,
        }
    }

    /// The set, as C has it.
    pub(crate) fn as_ptr(&self) -> *const bindings::cpumask {
        &self.mask
    }

    fn place(cpu: CpuId) -> (usize, usize) {
        let n = cpu.as_u32();
        ((n / u64::BITS) as usize, 1 << (n % u64::BITS))
    }

    /// Adds a CPU.
    pub(crate) fn add(&mut self, cpu: CpuId) {
        let (word, bit) = Self::place(cpu);
        let new = self.mask.bits[word] & bit == 0;
        self.mask.bits[word] |= bit;
        self.count += usize::from(new);
    }

    /// Moves all CPUs of another set into this one.
    pub(crate) fn append(&mut self, other: &mut Self) {
        // Not by a copy: with 8192 CPUs a set takes a kilobyte, which is too much for a stack.
        for cpu in ids() {
            if other.remove(cpu) {
                self.add(cpu);
            }
        }
    }

    /// Whether a CPU is in the set.
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = Self::place(cpu);
        self.mask.bits[word] & bit != 0
    }

    /// Takes a CPU out; false if it was not there.
    pub(crate) fn remove(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = Self::place(cpu);
        let old = self.mask.bits[word] & bit != 0;
        self.mask.bits[word] &= !bit;
        self.count -= usize::from(old);
        old
    }

    /// Those in the set whose numbers are in `range`, lowest first.
    pub(crate) fn within<'a>(&'a self, range: &'a Range<u32>) -> impl Iterator<Item = CpuId> + 'a {
        self.iter().filter(|cpu| range.contains(&cpu.as_u32()))
    }

    /// The CPUs in the set, lowest first.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        ids().filter(|&cpu| self.contains(cpu))
    }
}

/// Runs `f` if the set is the current CPU alone, and tells whether it did.
#[inline(always)]
fn run_here_if_only(cpus: &CpuSet, f: impl FnOnce(&ThisCpu)) -> bool {
    cpus.count == 1
        && undisturbed(|here| {
            let counted = here.slot().counted.get() != 0;
            if counted {
                f(here);
            }
            counted
        })
}

/// Runs `f` on every CPU of the set at once, and returns when all have.
///
/// `f` runs with interrupts off, so that the timer of the CPU ([`Watch`]) comes before it or after it. Where the
/// set is the current CPU alone, no other is disturbed. The CPUs stay online meanwhile if the arbiter's lock is
/// held: [`Callbacks::offline`] takes it.
#[inline(always)]
pub(crate) fn on_each<F: Fn(&ThisCpu) + Sync>(cpus: &CpuSet, f: F) {
    if !run_here_if_only(cpus, &f) {
        call_each(cpus, None, &f);
    }
}

/// Runs `f` on the CPUs of the set whose numbers are in `range`, as [`on_each`] does, and interrupts no
/// other CPU.
pub(crate) fn on_each_within<F: Fn(&ThisCpu) + Sync>(cpus: &CpuSet, range: &Range<u32>, f: F) {
    let done = run_here_if_only(cpus, |here| {
        if range.contains(&here.number()) {
            f(here);
        }
    });
    if !done {
        call_each(cpus, Some(range), &f);
    }
}

/// What [`call_each`] hands to the CPUs.
struct Work<'a, F> {
    f: &'a F,
    /// The numbers of the CPUs to run on, if not all of the set are meant.
    range: Option<&'a Range<u32>>,
}

/// Not inlined: keeps what it needs off the stack of the calls on one CPU.
#[inline(never)]
fn call_each<F: Fn(&ThisCpu) + Sync>(cpus: &CpuSet, range: Option<&Range<u32>>, f: &F) {
    /// # Safety
    ///
    /// `work` points to a `Work<F>`, and interrupts are off.
    unsafe extern "C" fn call<F: Fn(&ThisCpu)>(work: *mut c_void) {
        // SAFETY: `work` points to a `Work<F>`, by this function's requirement.
        let work = unsafe { &*work.cast::<Work<'_, F>>() };
        // SAFETY: Interrupts are off, so that the task stays on the CPU.
        (work.f)(unsafe { ThisCpu::assume() });
    }

    /// # Safety
    ///
    /// `work` points to a `Work<F>`.
    unsafe extern "C" fn is_wanted<F>(cpu: c_int, work: *mut c_void) -> bool {
        // SAFETY: `work` points to a `Work<F>`, by this function's requirement.
        let work = unsafe { &*work.cast::<Work<'_, F>>() };
        let cpu = cpu.unsigned_abs();
        work.range.is_none_or(|range| range.contains(&cpu))
    }

    let work = Work { f, range };
    let is_wanted: unsafe extern "C" fn(c_int, *mut c_void) -> bool = is_wanted::<F>;
    // SAFETY: `call` and `is_wanted` get a pointer to a `Work<F>`, and `F` is `Sync`; `call` runs with
    // interrupts off. `wait` is set, so that neither uses the pointer when this has returned.
    unsafe {
        bindings::on_each_cpu_cond_mask(
            range.map(|_| is_wanted),
            Some(call::<F>),
            ptr::from_ref(&work).cast_mut().cast(),
            true,
            &cpus.mask,
        );
    }
}

/// Who wants to know about CPUs that come and go.
pub(crate) trait Callbacks {
    /// The CPU has come online, or was so when the callbacks were registered.
    fn online(cpu: CpuId, here: &ThisCpu);
    /// The CPU will go offline, or the callbacks will be unregistered.
    fn offline(cpu: CpuId, here: &ThisCpu);
}

/// Calls of [`Callbacks`], made on the CPU itself, in a task that is bound to it.
///
/// # Invariants
///
/// `state` is the hotplug state that calls `T`.
pub(crate) struct Hotplug<T: Callbacks> {
    state: bindings::cpuhp_state,
    _callbacks: core::marker::PhantomData<T>,
}

impl<T: Callbacks> Hotplug<T> {
    /// Calls [`Callbacks::online`] for every CPU that is online, and from now on.
    pub(crate) fn register() -> Result<Self> {
        // SAFETY: The kernel calls these functions of ours in the CPU's hotplug thread, which is bound to
        // it, and `drop` ends that.
        let state = unsafe {
            bindings::__cpuhp_setup_state(
                bindings::cpuhp_state_CPUHP_AP_ONLINE_DYN,
                c"x86/perfmon:online".as_char_ptr(),
                true,
                Some(Self::startup),
                Some(Self::teardown),
                false,
            )
        };
        to_result(state.min(0))?;
        // INVARIANT: A dynamic state is returned as a positive number.
        Ok(Self {
            state: state as bindings::cpuhp_state,
            _callbacks: core::marker::PhantomData,
        })
    }

    /// # Safety
    ///
    /// Runs in a task that is bound to `cpu`.
    unsafe extern "C" fn startup(cpu: c_uint) -> c_int {
        // SAFETY: By the requirement.
        let (cpu, here) = unsafe { (CpuId::from_u32_unchecked(cpu), ThisCpu::assume()) };
        T::online(cpu, here);
        0
    }

    /// # Safety
    ///
    /// Runs in a task that is bound to `cpu`.
    unsafe extern "C" fn teardown(cpu: c_uint) -> c_int {
        // SAFETY: By the requirement.
        let (cpu, here) = unsafe { (CpuId::from_u32_unchecked(cpu), ThisCpu::assume()) };
        T::offline(cpu, here);
        0
    }
}

impl<T: Callbacks> Drop for Hotplug<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the state is ours; afterwards no callback runs any more.
        unsafe { bindings::__cpuhp_remove_state(self.state, true) };
    }
}

/// Where an interrupt came.
#[derive(Clone, Copy)]
pub(crate) struct Regs<'a> {
    regs: NonNull<bindings::pt_regs>,
    _interrupt: PhantomData<&'a bindings::pt_regs>,
}

impl Regs<'_> {
    /// # Safety
    ///
    /// `regs` must be those of an interrupt whose handler runs for as long as the result lives.
    #[inline(always)]
    pub(crate) unsafe fn new(regs: *mut bindings::pt_regs) -> Self {
        Self {
            // SAFETY: By the requirement they are there.
            regs: unsafe { NonNull::new_unchecked(regs) },
            _interrupt: PhantomData,
        }
    }

    /// The instruction that was to be executed next.
    #[inline(always)]
    pub(crate) fn ip(self) -> u64 {
        // SAFETY: By the requirement of `new`.
        unsafe { (*self.regs.as_ptr()).ip as u64 }
    }
}

/// The bits of CR3 that tell which address space is in use (Intel SDM, volume 3A, section 2.5).
pub(crate) const ADDRESS_SPACE: u64 = ((1 << 52) - 1) & !0xfff;

/// CR3.
#[inline(always)]
pub(crate) fn cr3() -> u64 {
    let cr3: u64;
    // SAFETY: Reading the register has no effect.
    unsafe { asm!("mov {}, cr3", out(reg) cr3, options(nomem, nostack, preserves_flags)) };
    cr3
}

/// CPUID of the current CPU, with the leaf in EAX and the subleaf in ECX.
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> x86_64::CpuidResult {
    // SAFETY: Every 64-bit CPU has the instruction.
    unsafe { x86_64::__cpuid_count(leaf, subleaf) }
}

/// The kernel's time, in ticks.
#[inline]
pub(crate) fn jiffies() -> u64 {
    // SAFETY: A counter that the kernel writes and everybody may read.
    unsafe { ptr::read_volatile(&raw const bindings::jiffies) as u64 }
}

/// The tick `time` from now.
pub(crate) fn in_ticks(time: Msecs) -> u64 {
    jiffies().wrapping_add(msecs_to_jiffies(time) as u64)
}

/// The time-stamp counter.
#[inline(always)]
pub(crate) fn timestamp() -> u64 {
    // SAFETY: Every 64-bit CPU has the instruction, and the kernel may always use it.
    unsafe { x86_64::_rdtsc() }
}
