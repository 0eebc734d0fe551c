// SPDX-License-Identifier: GPL-2.0-only
//! An event that writes records: samples in the overflow handler, others where something happens to a task.
//!
//! Nothing here sleeps, allocates or takes a lock.

use super::{registers::register, Record, Ring};
use crate::{
    logic::{
        event_attr::{
            PERF_SAMPLE_ADDR, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_CPU, PERF_SAMPLE_ID,
            PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_REGS_INTR,
            PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
            PERF_SAMPLE_TRANSACTION, PERF_SAMPLE_WEIGHT, PERF_SAMPLE_WEIGHT_STRUCT,
        },
        sample_format::Header,
        sampling::{Clock, Rate, Sampling},
    },
    sys::ffi,
};
use core::{
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use kernel::{
    bindings::{self, pt_regs},
    ffi::c_int,
};

/// `PERF_RECORD_*` that are written here.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const THROTTLE: u32 = 5;
    pub(super) const UNTHROTTLE: u32 = 6;
    pub(super) const SAMPLE: u32 = 9;
}

/// `PERF_RECORD_MISC_*`
mod misc {
    pub(super) const KERNEL: u16 = 1;
    pub(super) const USER: u16 = 2;
}

/// Marks in a call chain: `enum perf_callchain_context`.
mod context {
    pub(super) const KERNEL: u64 = 128_u64.wrapping_neg();
    pub(super) const USER: u64 = 512_u64.wrapping_neg();
}

/// `enum perf_sample_regs_abi`
mod registers_of {
    pub(super) const NOBODY: u64 = 0;
    pub(super) const BITS_32: u64 = 1;
    pub(super) const BITS_64: u64 = 2;
}

/// The parts of a sample that are one word each, and rarely wanted.
const OTHER_WORDS: u64 = PERF_SAMPLE_ADDR
    | PERF_SAMPLE_ID
    | PERF_SAMPLE_STREAM_ID
    | PERF_SAMPLE_CPU
    | PERF_SAMPLE_PERIOD;
/// The parts of the usual sample.
const USUAL: u64 =
    PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | OTHER_WORDS;

/// The most words of a call chain, with its marks.
pub(crate) const CHAIN_WORDS: usize = 127 + 2;

/// What an event writes, and where.
///
/// # Invariants
///
/// `ring` is null or points to a ring; it is freed by RCU after the pointer has changed.
pub(crate) struct Sampler {
    /// The event's id.
    id: u64,
    pub(crate) sampling: Sampling,
    /// The event does not count in kernel mode: samples show nothing of it.
    is_user_only: bool,
    /// The PID namespace of who opened the event, with a reference; null if it is the first one.
    namespace: *mut ffi::pid_namespace,
    /// The rate: a period, or a frequency.
    ///
    /// ATOMICS: relaxed. Who changes it makes the CPUs look at it again.
    rate: AtomicU64,
    /// ATOMICS: released when the ring is ready, and acquired by its writers.
    ring: AtomicPtr<Ring>,
    /// The samples that were lost.
    ///
    /// ATOMICS: relaxed additions by any CPU.
    lost: AtomicU64,
}

// SAFETY: The namespace is a counted reference; the rest are atomic words.
unsafe impl Send for Sampler {}
// SAFETY: As above.
unsafe impl Sync for Sampler {}

/// When and where a record is written, and by which task.
pub(super) struct Moment {
    /// The task's process, and above it the thread.
    ids: u64,
    /// In nanoseconds.
    time: u64,
    cpu: u32,
}

/// What a sample tells besides [`Moment`].
pub(crate) struct Interrupt<'a> {
    /// The registers of the interrupt.
    pub(crate) regs: &'a pt_regs,
    /// The task that is sampled; null for an event of a CPU.
    pub(crate) task: *mut bindings::task_struct,
    /// The events since the last sample.
    pub(crate) period: u64,
    /// The CPU.
    pub(crate) cpu: u32,
    /// Memory for a call chain.
    pub(crate) chain: &'a mut [u64; CHAIN_WORDS],
}

impl Sampler {
    /// Returns what the event `id` writes, which the current task opens. There is no ring yet.
    pub(crate) fn new(id: u64, sampling: Sampling, is_user_only: bool) -> Self {
        let rate = match sampling.rate {
            Rate::Never => 0,
            Rate::Period(rate) | Rate::Frequency(rate) => rate,
        };
        Self {
            id,
            sampling,
            is_user_only,
            // SAFETY: The function has no preconditions; `drop` gives the reference back.
            namespace: unsafe { ffi::perfmon_pid_namespace_get() },
            rate: AtomicU64::new(rate),
            ring: AtomicPtr::new(ptr::null_mut()),
            lost: AtomicU64::new(0),
        }
    }

    /// Returns the namespace; null if it is the first one.
    pub(super) fn namespace(&self) -> *mut ffi::pid_namespace {
        self.namespace
    }

    /// Returns the rate: a period, or a frequency.
    #[inline(always)]
    pub(crate) fn rate(&self) -> u64 {
        self.rate.load(Relaxed)
    }

    /// Changes the rate.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Relaxed);
    }

    /// Returns how many samples were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Writes to another ring from now on, or to none.
    ///
    /// # Safety
    ///
    /// The ring must live until it has been replaced here and RCU has waited for all readers.
    pub(crate) unsafe fn set_ring(&self, ring: Option<&Ring>) {
        // INVARIANT: By the requirement.
        let ring = ring.map_or(ptr::null(), ptr::from_ref);
        self.ring.store(ring.cast_mut(), Release);
    }

    /// Returns the ring.
    #[inline(always)]
    fn ring(&self) -> Option<&Ring> {
        // SAFETY: By the type invariant. All writers have interrupts off, so RCU waits for them.
        unsafe { self.ring.load(Acquire).as_ref() }
    }

    /// Returns where the event is, for a record of a task; null for the current one.
    #[inline(always)]
    pub(super) fn moment_of(&self, task: *mut bindings::task_struct, cpu: u32) -> Moment {
        let format = self.sampling.format;
        Moment {
            ids: if format.has(PERF_SAMPLE_TID) {
                self.ids(task)
            } else {
                0
            },
            time: if format.has(PERF_SAMPLE_TIME) {
                self.time()
            } else {
                0
            },
            cpu,
        }
    }

    /// Returns the numbers of a task, null for the current one: the process, and above it the thread.
    #[inline(always)]
    pub(super) fn ids(&self, task: *mut bindings::task_struct) -> u64 {
        // SAFETY: The task is null or alive; the namespace is null or a reference.
        unsafe { ffi::perfmon_task_ids(task, self.namespace) }
    }

    /// Returns the time.
    #[inline(always)]
    pub(super) fn time(&self) -> u64 {
        let clock = match self.sampling.clock {
            Clock::Local => -1,
            Clock::Monotonic => bindings::CLOCK_MONOTONIC as c_int,
            Clock::MonotonicRaw => bindings::CLOCK_MONOTONIC_RAW as c_int,
        };
        // SAFETY: The function has no preconditions.
        unsafe { ffi::perfmon_clock(clock) }
    }

    /// Notes that samples were not taken.
    #[cold]
    pub(crate) fn lose(&self, samples: u64) {
        self.lost.fetch_add(samples, Relaxed);
        if let Some(ring) = self.ring() {
            ring.lose(samples);
        }
    }

    /// Writes a sample, in the overflow handler.
    #[inline(never)]
    pub(crate) fn sample(&self, interrupt: Interrupt<'_>) {
        let Some(ring) = self.ring() else {
            return;
        };
        let Interrupt {
            regs,
            task,
            period,
            cpu,
            chain,
        } = interrupt;
        if ring.lost.get() != 0 {
            self.tell_lost(ring, &self.moment_of(task, cpu));
        }
        let format = self.sampling.format;
        let (regs, is_user) = self.visible(regs, task);
        let mut words = format.fixed_words();
        let (mut frames, mut user) = (0, None);
        let is_usual = !format.has(!USUAL);
        if !is_usual {
            user = regs.and_then(|regs| user_registers(regs, task));
            if format.has(PERF_SAMPLE_CALLCHAIN) {
                frames = self.walk(regs.filter(|_| !is_user), user, chain);
                words = words.wrapping_add(1).wrapping_add(frames);
            }
            if format.has(PERF_SAMPLE_REGS_USER | PERF_SAMPLE_REGS_INTR) {
                words = words.wrapping_add(self.register_words(regs, user));
            }
        }
        let Some(mut record) = ring.begin(words) else {
            self.lost.fetch_add(1, Relaxed);
            ring.lose(1);
            return;
        };
        let header = Header {
            kind: kind::SAMPLE,
            misc: if is_user { misc::USER } else { misc::KERNEL },
            words,
        };
        record.put(header.word());
        if format.has(PERF_SAMPLE_IDENTIFIER) {
            record.put(self.id);
        }
        if format.has(PERF_SAMPLE_IP) {
            record.put(regs.map_or(0, |regs| regs.ip as u64));
        }
        if format.has(PERF_SAMPLE_TID) {
            record.put(self.ids(task));
        }
        if format.has(PERF_SAMPLE_TIME) {
            record.put(self.time());
        }
        if format.has(OTHER_WORDS) {
            record = self.put_words(record, cpu, period);
        }
        if !is_usual {
            let chain = chain.get(..frames).unwrap_or(&[]);
            record = self.put_rest(record, regs, user, chain);
        }
        record.finish(true);
    }

    /// Writes the words of a sample that are rarely wanted. Takes the record and gives it back, so that it need not be in
    /// memory in the usual case.
    #[inline(never)]
    fn put_words<'a>(&self, mut record: Record<'a>, cpu: u32, period: u64) -> Record<'a> {
        let parts = [
            (PERF_SAMPLE_ADDR, 0),
            (PERF_SAMPLE_ID, self.id),
            (PERF_SAMPLE_STREAM_ID, self.id),
            (PERF_SAMPLE_CPU, cpu.into()),
            (PERF_SAMPLE_PERIOD, period),
        ];
        for (part, word) in parts {
            if self.sampling.format.has(part) {
                record.put(word);
            }
        }
        record
    }

    /// Writes the parts of a sample behind those.
    #[inline(never)]
    fn put_rest<'a>(
        &self,
        mut record: Record<'a>,
        regs: Option<&pt_regs>,
        user: Option<&pt_regs>,
        chain: &[u64],
    ) -> Record<'a> {
        let format = self.sampling.format;
        if format.has(PERF_SAMPLE_CALLCHAIN) {
            record.put(chain.len() as u64);
            chain.iter().for_each(|&address| record.put(address));
        }
        if format.has(PERF_SAMPLE_REGS_USER) {
            put_registers(&mut record, user, self.sampling.user_registers);
        }
        if format.has(PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT) {
            record.put(0);
        }
        if format.has(PERF_SAMPLE_TRANSACTION) {
            record.put(0);
        }
        if format.has(PERF_SAMPLE_REGS_INTR) {
            put_registers(&mut record, regs, self.sampling.registers);
        }
        record
    }

    /// Returns the registers that a sample may show, and whether they are the program's. An interrupt that comes late
    /// comes in the kernel: of what the event does not count there, the program's registers are shown.
    #[inline(always)]
    fn visible<'a>(
        &self,
        regs: &'a pt_regs,
        task: *mut bindings::task_struct,
    ) -> (Option<&'a pt_regs>, bool) {
        let is_user = is_user(regs);
        if is_user || !self.is_user_only {
            (Some(regs), is_user)
        } else {
            (user_registers(regs, task), true)
        }
    }

    /// Writes the call chain, from the registers in the kernel and from those of the program. Returns its words.
    #[inline(never)]
    fn walk(
        &self,
        kernel: Option<&pt_regs>,
        user: Option<&pt_regs>,
        chain: &mut [u64; CHAIN_WORDS],
    ) -> usize {
        let chains = self.sampling.chains;
        let mut room = chains.depth as usize;
        let mut used = 0;
        // Marks are not counted.
        let mut add = |mark: u64, walk: unsafe extern "C" fn(_, _, _) -> u32, regs: &pt_regs| {
            let Some((first, rest)) = chain.get_mut(used..).and_then(<[u64]>::split_first_mut)
            else {
                return;
            };
            *first = mark;
            let most = room.min(rest.len());
            // SAFETY: The registers are those of the interrupted task; there is room for so many.
            let found = unsafe {
                walk(
                    ptr::from_ref(regs).cast_mut(),
                    rest.as_mut_ptr(),
                    most as u32,
                )
            } as usize;
            room -= found.min(room);
            used += 1 + found;
        };
        if let Some(regs) = kernel.filter(|_| chains.kernel) {
            add(context::KERNEL, ffi::perfmon_kernel_chain, regs);
        }
        if let Some(regs) = user.filter(|_| chains.user) {
            add(context::USER, ffi::perfmon_user_chain, regs);
        }
        used
    }

    /// Returns the words of the registers in a sample.
    #[cold]
    fn register_words(&self, regs: Option<&pt_regs>, user: Option<&pt_regs>) -> usize {
        let format = self.sampling.format;
        let words = |regs: Option<&pt_regs>, mask: u64| match regs {
            Some(_) => 1 + mask.count_ones() as usize,
            None => 1,
        };
        let mut sum = 0;
        if format.has(PERF_SAMPLE_REGS_USER) {
            sum += words(user, self.sampling.user_registers);
        }
        if format.has(PERF_SAMPLE_REGS_INTR) {
            sum += words(regs, self.sampling.registers);
        }
        sum
    }

    /// Tells of records that were lost.
    #[cold]
    #[inline(never)]
    fn tell_lost(&self, ring: &Ring, moment: &Moment) {
        let words = 3 + self.sampling.format.trailer_words();
        let Some(mut record) = ring.begin(words) else {
            return;
        };
        let header = Header {
            kind: kind::LOST,
            misc: 0,
            words,
        };
        record.put(header.word());
        record.put(self.id);
        record.put(ring.lost.0.swap(0, Relaxed));
        self.put_trailer(&mut record, moment);
        record.finish(false);
    }

    /// Writes a record that samples cease for a while, or come again.
    #[cold]
    #[inline(never)]
    pub(crate) fn throttle(&self, task: *mut bindings::task_struct, cpu: u32, throttled: bool) {
        let kind = if throttled {
            kind::THROTTLE
        } else {
            kind::UNTHROTTLE
        };
        let time = self.time();
        let moment = self.moment_of(task, cpu);
        self.write(kind, 0, &[time, self.id, self.id], &moment);
    }

    /// Writes a record that is no sample.
    pub(super) fn write(&self, kind: u32, misc: u16, words: &[u64], moment: &Moment) {
        let Some(ring) = self.ring() else {
            return;
        };
        if ring.lost.get() != 0 {
            self.tell_lost(ring, moment);
        }
        let size = 1 + words.len() + self.sampling.format.trailer_words();
        let Some(mut record) = ring.begin(size) else {
            ring.lose(1);
            return;
        };
        let header = Header {
            kind,
            misc,
            words: size,
        };
        record.put(header.word());
        words.iter().for_each(|&word| record.put(word));
        self.put_trailer(&mut record, moment);
        record.finish(false);
    }

    /// Writes what all records have at their end, if the event wants that.
    fn put_trailer(&self, record: &mut Record<'_>, moment: &Moment) {
        let parts = [
            (PERF_SAMPLE_TID, moment.ids),
            (PERF_SAMPLE_TIME, moment.time),
            (PERF_SAMPLE_ID, self.id),
            (PERF_SAMPLE_STREAM_ID, self.id),
            (PERF_SAMPLE_CPU, moment.cpu.into()),
            (PERF_SAMPLE_IDENTIFIER, self.id),
        ];
        for (part, word) in parts {
            if self.sampling.format.has_in_trailer(part) {
                record.put(word);
            }
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if !self.namespace.is_null() {
            // SAFETY: `new` has got the reference.
            unsafe { ffi::perfmon_pid_namespace_put(self.namespace) };
        }
    }
}

/// Returns whether these are registers of a program.
#[inline(always)]
fn is_user(regs: &pt_regs) -> bool {
    /// The requested privilege level: 3 in programs (Intel SDM, volume 3A, section 3.4.2).
    const RPL: u16 = 0b11;

    // SAFETY: The union is of numbers.
    unsafe { regs.__bindgen_anon_1.cs & RPL != 0 }
}

/// Returns the registers of the program that was interrupted, or called the kernel. `None` in a kernel thread, while
/// a program begins, and if `task`, which is sampled, is not the current one: its windows open before it is switched to.
fn user_registers(regs: &pt_regs, task: *mut bindings::task_struct) -> Option<&pt_regs> {
    // SAFETY: The registers are those of the interrupted task, and not changed. Those of its call of the kernel stay
    // valid as long as it does not return.
    unsafe { ffi::perfmon_user_regs(ptr::from_ref(regs).cast_mut(), task).as_ref() }
}

/// Writes registers: of what kind they are, and those in `mask`.
fn put_registers(record: &mut Record<'_>, regs: Option<&pt_regs>, mask: u64) {
    let Some(regs) = regs else {
        return record.put(registers_of::NOBODY);
    };
    // SAFETY: The registers are valid, and are not changed.
    let wide = unsafe { ffi::perfmon_regs_are_64(ptr::from_ref(regs).cast_mut()) };
    record.put(if wide {
        registers_of::BITS_64
    } else {
        registers_of::BITS_32
    });
    for n in 0..u64::BITS {
        if mask & 1_u64.wrapping_shl(n) != 0 {
            record.put(register(regs, n));
        }
    }
}
