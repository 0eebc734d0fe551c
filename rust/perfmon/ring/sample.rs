// SPDX-License-Identifier: GPL-2.0-only
//! The samples of an event, written in the overflow handler.

use super::{registers::put_registers, stack, Record, Sampler};
use crate::{
    logic::{
        event_attr::{
            PERF_SAMPLE_ADDR, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_CPU, PERF_SAMPLE_ID,
            PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_REGS_INTR,
            PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID,
            PERF_SAMPLE_TIME, PERF_SAMPLE_TRANSACTION, PERF_SAMPLE_WEIGHT,
            PERF_SAMPLE_WEIGHT_STRUCT,
        },
        sample_format::Header,
    },
    sys::ffi,
};
use core::ptr;
use kernel::bindings::{self, pt_regs};

/// `PERF_RECORD_SAMPLE`
pub(super) const SAMPLE: u32 = 9;

/// `PERF_RECORD_MISC_*`
pub(super) mod misc {
    pub(in crate::ring) const KERNEL: u16 = 1;
    pub(in crate::ring) const USER: u16 = 2;
}

/// Marks in a call chain: `enum perf_callchain_context`.
mod chain_mark {
    pub(super) const KERNEL: u64 = 128_u64.wrapping_neg();
    pub(super) const USER: u64 = 512_u64.wrapping_neg();
}

/// The parts of a sample that are one word each, and rarely wanted.
const RARE_WORDS: u64 = PERF_SAMPLE_ADDR
    | PERF_SAMPLE_ID
    | PERF_SAMPLE_STREAM_ID
    | PERF_SAMPLE_CPU
    | PERF_SAMPLE_PERIOD;
/// The parts of the usual sample.
const USUAL: u64 =
    PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | RARE_WORDS;

/// The most words of a call chain, with its marks.
pub(crate) const CHAIN_WORDS: usize = 127 + 2;

/// The interrupt that a sample shows, besides its [`Moment`].
pub(crate) struct Interrupt<'a> {
    /// The registers of the interrupt.
    pub(crate) regs: &'a pt_regs,
    /// The task that is sampled; null for an event of a CPU.
    pub(crate) task: *mut bindings::task_struct,
    /// The events since the last sample.
    pub(crate) period: u64,
    /// The CPU.
    pub(crate) cpu: u32,
    /// The counts and branches that were read for it, if it has any.
    pub(crate) read: Option<&'a PmuReadings<'a>>,
    /// Memory for a call chain.
    pub(crate) chain: &'a mut [u64; CHAIN_WORDS],
}

/// The counts and branches that a sample shows.
pub(crate) struct PmuReadings<'a> {
    /// The counts, as from a read(2).
    pub(crate) counts: &'a [u64],
    /// The branches, of each the addresses and the flags, the newest first.
    pub(crate) branches: &'a [u64],
    /// The number of the register that has the newest one.
    pub(crate) newest_branch: u32,
}

impl PmuReadings<'_> {
    /// Nothing is wanted.
    pub(crate) const EMPTY: Self = Self {
        counts: &[],
        branches: &[],
        newest_branch: 0,
    };
}

impl Sampler {
    /// Serves an overflow, in the overflow handler: a sample is due.
    #[inline(always)]
    pub(crate) fn sample(&self, interrupt: Interrupt<'_>) {
        let is_watched = self.notifier.is_set();
        if is_watched && !self.notifier.take_from_limit(&self.state) {
            return;
        }
        self.write_sample(interrupt);
        if is_watched {
            self.notifier.notify();
        }
    }

    /// Serves an overflow whose sample would lack what is wanted.
    #[cold]
    pub(crate) fn lose_sample(&self) {
        if self.notifier.take_from_limit(&self.state) {
            self.lose(1);
            self.notifier.notify();
        }
    }

    /// Writes a sample.
    #[inline(always)]
    fn write_sample(&self, interrupt: Interrupt<'_>) {
        let Some(ring) = self.ring() else {
            return;
        };
        let Interrupt {
            regs,
            task,
            period,
            cpu,
            read,
            chain,
        } = interrupt;
        if ring.lost.get() != 0 && !self.write_lost(ring, &self.moment_of(task, cpu)) {
            return self.lose(1);
        }
        let format = self.sampling.format;
        let interrupted = regs;
        let (regs, is_user) = self.visible_registers(regs, task);
        let mut words = format.fixed_words();
        let (mut frames, mut user, mut shown, mut stack_size) = (0, None, None, 0);
        let is_usual = !format.has(!USUAL);
        if !is_usual {
            if let Some(read) = read {
                words = words.wrapping_add(self.read_words(read));
            }
            user = if is_user {
                regs
            } else {
                regs.and_then(|regs| user_registers(regs, task))
            };
            if format.has(PERF_SAMPLE_CALLCHAIN) {
                frames = self.walk_call_chain((regs.filter(|_| !is_user), task), user, chain);
                words = words.wrapping_add(1).wrapping_add(frames);
            }
            if format.has(PERF_SAMPLE_REGS_USER | PERF_SAMPLE_REGS_INTR) {
                shown = regs.filter(|regs| may_show_registers(regs, task));
                words = words.wrapping_add(self.register_words(shown, user));
            }
            if format.has(PERF_SAMPLE_STACK_USER) {
                stack_size = stack::size(user, self.sampling.user_stack, words);
                words = words.wrapping_add(stack::words(stack_size));
            }
        }
        let Some(mut record) = ring.begin(words) else {
            return self.lose(1);
        };
        let header = Header {
            kind: SAMPLE,
            misc: if is_user { misc::USER } else { misc::KERNEL },
            words,
        };
        record.put(header.word());
        if format.has(PERF_SAMPLE_IDENTIFIER) {
            record.put(self.id);
        }
        if format.has(PERF_SAMPLE_IP) {
            record.put(match regs {
                Some(regs) => regs.ip as u64,
                None => unsaved_user_ip(interrupted),
            });
        }
        if format.has(PERF_SAMPLE_TID) {
            record.put(self.ids(task));
        }
        if format.has(PERF_SAMPLE_TIME) {
            record.put(self.time());
        }
        if format.has(RARE_WORDS) {
            record = self.put_words(record, cpu, period);
        }
        if !is_usual {
            let chain = chain.get(..frames).unwrap_or(&[]);
            record = self.put_varying_parts(record, shown, user, chain, read, stack_size);
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

    /// Writes the parts of a sample whose length varies.
    #[inline(always)]
    fn put_varying_parts<'a>(
        &self,
        mut record: Record<'a>,
        regs: Option<&pt_regs>,
        user: Option<&pt_regs>,
        chain: &[u64],
        read: Option<&PmuReadings<'_>>,
        stack_size: u32,
    ) -> Record<'a> {
        let format = self.sampling.format;
        if let Some(read) = read {
            record.put_all(read.counts);
        }
        if format.has(PERF_SAMPLE_CALLCHAIN) {
            record.put(chain.len() as u64);
            record.put_all(chain);
        }
        if let (Some(stack), Some(read)) = (self.sampling.branches, read) {
            record.put(read.branches.len() as u64 / 3);
            if stack.index {
                record.put(read.newest_branch.into());
            }
            record.put_all(read.branches);
        }
        if format.has(PERF_SAMPLE_REGS_USER) {
            put_registers(&mut record, user, self.sampling.user_registers);
        }
        if format.has(PERF_SAMPLE_STACK_USER) {
            stack::put(&mut record, user, stack_size);
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

    /// Returns the registers that a sample may show, and whether they are the program's. A late interrupt may come in
    /// the kernel: if the event does not count there, the sample shows the program's registers.
    #[inline(always)]
    fn visible_registers<'a>(
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
    #[inline(always)]
    fn walk_call_chain(
        &self,
        (kernel, task): (Option<&pt_regs>, *mut bindings::task_struct),
        user: Option<&pt_regs>,
        chain: &mut [u64; CHAIN_WORDS],
    ) -> usize {
        let chains = self.sampling.chains;
        let mut room = chains.depth as usize;
        let mut used = 0;
        // Marks are not counted.
        let mut add = |mark: u64,
                       walk: unsafe extern "C" fn(_, _, _) -> u32,
                       regs: &pt_regs,
                       limit: usize| {
            let Some((first, rest)) = chain.get_mut(used..).and_then(<[u64]>::split_first_mut)
            else {
                return;
            };
            *first = mark;
            let most = room.min(rest.len()).min(limit);
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
            // SAFETY: This asks for nothing but which task is the current one.
            let is_own = unsafe { ffi::perfmon_on_stack_of(task) };
            let limit = if is_own { usize::MAX } else { 1 };
            add(chain_mark::KERNEL, ffi::perfmon_kernel_chain, regs, limit);
        }
        if let Some(regs) = user.filter(|_| chains.user) {
            add(chain_mark::USER, ffi::perfmon_user_chain, regs, usize::MAX);
        }
        used
    }

    /// Returns the words of counts and branches in a sample.
    #[cold]
    fn read_words(&self, read: &PmuReadings<'_>) -> usize {
        let branches = match self.sampling.branches {
            Some(stack) => 1 + usize::from(stack.index) + read.branches.len(),
            None => 0,
        };
        read.counts.len() + branches
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
/// a program begins, while they are being saved, and if `task`, which is sampled, is not the current one: its windows
/// open before it is switched to.
fn user_registers(regs: &pt_regs, task: *mut bindings::task_struct) -> Option<&pt_regs> {
    // SAFETY: The registers are those of the interrupted task, and not changed. Those of its call of the kernel stay
    // valid as long as it does not return.
    unsafe { ffi::perfmon_user_regs(ptr::from_ref(regs).cast_mut(), task).as_ref() }
}

/// Returns whether a sample of `task` may show these registers.
fn may_show_registers(regs: &pt_regs, task: *mut bindings::task_struct) -> bool {
    // SAFETY: The registers are valid for the call, which only reads them, and the task is the one that was interrupted.
    unsafe { ffi::perfmon_may_show_regs(ptr::from_ref(regs).cast_mut(), task) }
}

/// Returns the program's instruction address where its registers are not saved yet: it has just called the kernel, or
/// was just interrupted. 0 if the address is not known.
#[cold]
fn unsaved_user_ip(regs: &pt_regs) -> u64 {
    // SAFETY: The registers are not changed.
    unsafe { ffi::perfmon_program_address(regs) }
}
