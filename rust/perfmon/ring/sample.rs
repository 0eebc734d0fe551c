// SPDX-License-Identifier: GPL-2.0-only
//! The samples of an event, which the overflow handler writes.

use super::{precise::put_branches, registers::put_registers, stack, Record, Sampler};
use crate::{
    logic::{
        event_attr::{
            PERF_SAMPLE_ADDR, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_CGROUP, PERF_SAMPLE_CPU,
            PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,
            PERF_SAMPLE_PERIOD, PERF_SAMPLE_REGS_INTR, PERF_SAMPLE_REGS_USER,
            PERF_SAMPLE_STACK_USER, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
            PERF_SAMPLE_TRANSACTION, PERF_SAMPLE_WEIGHT, PERF_SAMPLE_WEIGHT_STRUCT,
        },
        memory_access::AccessWords,
        perf_event::{
            PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER, PERF_RECORD_MISC_EXACT_IP,
            PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER, PERF_RECORD_SAMPLE,
        },
        recorded_branches::RecordedBranches,
        sample_format::Header,
    },
    sys::ffi,
};
use core::ptr;
use kernel::bindings::{self, pt_regs};

/// The parts of a sample that few events want, and that have one word each.
const RARE_WORDS: u64 = PERF_SAMPLE_ADDR
    | PERF_SAMPLE_ID
    | PERF_SAMPLE_STREAM_ID
    | PERF_SAMPLE_CPU
    | PERF_SAMPLE_PERIOD;
/// The parts of a sample that the fast path writes. All have one word.
const ONE_WORD_PARTS: u64 =
    PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | RARE_WORDS;

/// The largest number of words in a call chain: 127 addresses and two marks.
pub(crate) const CHAIN_WORDS: usize = 127 + 2;

/// An overflow that becomes a sample, at the place `P`.
pub(crate) struct Interrupt<'a, P> {
    /// The place of the sample: the registers of the interrupt, unless the processor has recorded the instruction.
    pub(crate) place: P,
    /// The sampled task; null for the current task, which an event of a CPU samples.
    pub(crate) task: *mut bindings::task_struct,
    /// The number of events since the last sample.
    pub(crate) period: u64,
    /// The number of the CPU.
    pub(crate) cpu: u32,
    /// The counts and branches for the sample, if its format has any.
    pub(crate) readings: Option<&'a PmuReadings<'a>>,
    /// Memory for the call chain.
    pub(crate) chain: &'a mut [u64; CHAIN_WORDS],
}

impl<'a, P> Interrupt<'a, P> {
    /// Returns the overflow with the place `place` instead of its own.
    #[inline(always)]
    pub(super) fn with_place<Q>(self, place: Q) -> Interrupt<'a, Q> {
        Interrupt {
            place,
            task: self.task,
            period: self.period,
            cpu: self.cpu,
            readings: self.readings,
            chain: self.chain,
        }
    }
}

/// The counts and branches of a sample.
pub(crate) struct PmuReadings<'a> {
    /// The counts, as the words that read(2) would return.
    pub(crate) counts: &'a [u64],
    pub(crate) branches: SampleBranches<'a>,
}

/// The branches of a sample.
#[derive(Clone, Copy)]
pub(crate) enum SampleBranches<'a> {
    /// Branches that were read from the LBR registers.
    Read {
        /// Three words of each branch, the newest first: its source, its target, and flags.
        words: &'a [u64],
        /// The number of the LBR register with the newest branch.
        newest: u32,
    },
    /// Branches in the processor's record (PEBS).
    Recorded {
        /// The choice of the branches that samples show.
        branches: &'a RecordedBranches,
        /// The words of the record's branches ([`PebsRecord::branches`](crate::logic::pebs::PebsRecord::branches)).
        words: &'a [u64],
        /// The number of branches that samples show ([`RecordedBranches::count_shown`]).
        count: usize,
    },
}

impl<'a> SampleBranches<'a> {
    /// No branches.
    pub(crate) const NONE: Self = Self::Read {
        words: &[],
        newest: 0,
    };

    /// Returns the branches of a sample. `words` are the branches of the processor's record; `branches` chooses which of
    /// them the sample shows.
    pub(crate) fn of_record(branches: &'a RecordedBranches, words: &'a [u64]) -> Self {
        Self::Recorded {
            branches,
            words,
            count: branches.count_shown(words),
        }
    }
}

impl PmuReadings<'_> {
    /// Readings for a sample without counts and branches.
    pub(crate) const EMPTY: Self = Self {
        counts: &[],
        branches: SampleBranches::NONE,
    };
}

/// The place of a sample: the address and the registers that it shows.
pub(super) trait Place {
    /// Returns whether the sample was taken in the program. Otherwise it was taken in the kernel.
    fn is_user(&self) -> bool;

    /// Returns the address of the sample.
    fn ip(&self) -> u64;

    /// Returns whether the address is the address of the exact instruction.
    fn is_exact(&self) -> bool;

    /// Returns the time of the sample.
    fn time(&self, sampler: &Sampler) -> u64;

    /// Returns the access to memory.
    fn access(&self) -> AccessWords;

    /// Returns the registers of the sample, if they are known.
    fn regs(&self) -> Option<&pt_regs>;

    /// Returns the registers of the program, if they are known. `task` is the sampled task.
    fn user_regs(&self, task: *mut bindings::task_struct) -> Option<&pt_regs>;

    /// Returns the first address of the program's call chain, if this address differs from the
    /// address in the registers.
    fn user_ip(&self) -> Option<u64>;

    /// Returns the beginning of the kernel's call chain; `None` if the sample was taken in the
    /// program, or if no address of the kernel is known.
    fn kernel_chain(&self) -> Option<KernelChain<'_>>;
}

/// The beginning of the kernel's call chain.
#[derive(Clone, Copy)]
pub(super) struct KernelChain<'a> {
    /// The registers to walk the chain from; `None` if the callers are not known.
    pub(super) regs: Option<&'a pt_regs>,
    /// The first address, if it is not the address in `regs`.
    pub(super) ip: Option<u64>,
}

/// The place of an interrupt.
struct InterruptPlace<'a> {
    /// The registers that the interrupt has saved.
    interrupt_regs: &'a pt_regs,
    /// The registers that a sample may show, if they are known.
    regs: Option<&'a pt_regs>,
    is_user: bool,
}

impl Place for InterruptPlace<'_> {
    #[inline(always)]
    fn is_user(&self) -> bool {
        self.is_user
    }

    #[inline(always)]
    fn ip(&self) -> u64 {
        match self.regs {
            Some(regs) => regs.ip as u64,
            None => unsaved_user_ip(self.interrupt_regs),
        }
    }

    #[inline(always)]
    fn is_exact(&self) -> bool {
        false
    }

    #[inline(always)]
    fn time(&self, sampler: &Sampler) -> u64 {
        sampler.time()
    }

    #[inline(always)]
    fn access(&self) -> AccessWords {
        AccessWords::NONE
    }

    #[inline(always)]
    fn regs(&self) -> Option<&pt_regs> {
        self.regs
    }

    #[inline(always)]
    fn user_regs(&self, task: *mut bindings::task_struct) -> Option<&pt_regs> {
        if self.is_user {
            self.regs
        } else {
            self.regs.and_then(|regs| user_registers(regs, task))
        }
    }

    #[inline(always)]
    fn user_ip(&self) -> Option<u64> {
        None
    }

    #[inline(always)]
    fn kernel_chain(&self) -> Option<KernelChain<'_>> {
        let regs = self.regs.filter(|_| !self.is_user)?;
        Some(KernelChain {
            regs: Some(regs),
            ip: None,
        })
    }
}

/// The parts of a sample that have more than one word, or are not in [`ONE_WORD_PARTS`], in their order.
struct OtherParts<'a> {
    readings: Option<&'a PmuReadings<'a>>,
    chain: &'a [u64],
    /// The registers of the program, if they are known.
    user_regs: Option<&'a pt_regs>,
    /// The number of bytes to copy from the program's stack.
    stack_size: u32,
    access: AccessWords,
    /// The registers that the sample shows, if they are known.
    regs: Option<&'a pt_regs>,
}

impl Sampler {
    /// Writes the sample of an overflow, and notifies programs. To be called by the overflow handler.
    #[inline(always)]
    pub(crate) fn sample(&self, interrupt: Interrupt<'_, &pt_regs>) {
        let interrupt_regs = interrupt.place;
        let (regs, is_user) = self.visible_registers(interrupt_regs, interrupt.task);
        self.sample_at(interrupt.with_place(InterruptPlace {
            interrupt_regs,
            regs,
            is_user,
        }));
    }

    /// Writes the sample of an overflow, and notifies programs.
    #[inline(always)]
    pub(super) fn sample_at(&self, interrupt: Interrupt<'_, impl Place>) {
        let has_to_notify = self.notifier.follows_overflows();
        if has_to_notify && !self.notifier.count_down_limit(&self.state) {
            return;
        }
        self.write_sample(interrupt);
        if has_to_notify {
            self.notifier.notify();
        }
    }

    /// Counts the sample of an overflow as lost, since its counts or branches are missing, and notifies programs.
    #[cold]
    pub(crate) fn lose_sample(&self) {
        if self.notifier.count_down_limit(&self.state) {
            self.lose_samples(1);
            self.notifier.notify();
        }
    }

    /// Writes a sample to the ring, or counts it as lost.
    #[inline(always)]
    fn write_sample(&self, interrupt: Interrupt<'_, impl Place>) {
        let Some(ring) = self.ring() else {
            return;
        };
        let Interrupt {
            place,
            task,
            period,
            cpu,
            readings,
            chain,
        } = interrupt;
        if ring.lost_records.get() != 0 && !self.write_lost(ring, &self.origin_of(task, cpu)) {
            return self.lose_samples(1);
        }
        let format = self.sampling.format;
        let is_user = place.is_user();
        let mut words = format.fixed_words();
        let (mut chain_words, mut user_regs, mut shown_regs, mut stack_size) = (0, None, None, 0);
        let has_only_one_word_parts = !format.has(!ONE_WORD_PARTS);
        if !has_only_one_word_parts {
            if let Some(readings) = readings {
                words = words.wrapping_add(self.readings_words(readings));
            }
            user_regs = place.user_regs(task);
            if format.has(PERF_SAMPLE_CALLCHAIN) {
                chain_words = self.walk_call_chain(
                    (place.kernel_chain(), task),
                    (user_regs, place.user_ip()),
                    chain,
                );
                words = words.wrapping_add(1).wrapping_add(chain_words);
            }
            if format.has(PERF_SAMPLE_REGS_USER | PERF_SAMPLE_REGS_INTR) {
                shown_regs = place.regs().filter(|regs| may_show_registers(regs, task));
                words = words.wrapping_add(self.register_words(shown_regs, user_regs));
            }
            if format.has(PERF_SAMPLE_STACK_USER) {
                stack_size = stack::size(user_regs, self.sampling.user_stack, words);
                words = words.wrapping_add(stack::words(stack_size));
            }
        }
        let Some(mut record) = ring.begin_record(words) else {
            return self.lose_samples(1);
        };
        let mode_flag = if is_user {
            PERF_RECORD_MISC_USER
        } else {
            PERF_RECORD_MISC_KERNEL
        };
        let exact_flag = if place.is_exact() {
            PERF_RECORD_MISC_EXACT_IP
        } else {
            0
        };
        let header = Header {
            kind: PERF_RECORD_SAMPLE,
            misc: mode_flag | exact_flag,
            words,
        };
        record.write_word(header.word());
        if format.has(PERF_SAMPLE_IDENTIFIER) {
            record.write_word(self.id);
        }
        if format.has(PERF_SAMPLE_IP) {
            record.write_word(place.ip());
        }
        if format.has(PERF_SAMPLE_TID) {
            record.write_word(self.ids(task));
        }
        if format.has(PERF_SAMPLE_TIME) {
            record.write_word(place.time(self));
        }
        if format.has(RARE_WORDS) {
            record = self.put_rare_words(record, place.access().address, cpu, period);
        }
        if !has_only_one_word_parts {
            let parts = OtherParts {
                readings,
                chain: chain.get(..chain_words).unwrap_or(&[]),
                user_regs,
                stack_size,
                access: place.access(),
                regs: shown_regs,
            };
            record = self.put_other_parts(record, &parts);
            if format.has(PERF_SAMPLE_CGROUP) {
                // SAFETY: The function requires a task that is null or alive, and a context that
                // RCU waits for: the sampled task is null, the current task, or the task that is
                // being switched to; callers are NMI handlers or have interrupts off, and RCU waits
                // for both.
                record.write_word(unsafe { ffi::perfmon_cgroup_id_of(task) });
            }
        }
        record.finish(1);
    }

    /// Writes the parts in [`RARE_WORDS`]. Takes the record and returns it, so that the fast path keeps the record in
    /// registers.
    #[inline(never)]
    fn put_rare_words<'a>(
        &self,
        mut record: Record<'a>,
        address: u64,
        cpu: u32,
        period: u64,
    ) -> Record<'a> {
        let parts = [
            (PERF_SAMPLE_ADDR, address),
            (PERF_SAMPLE_ID, self.id),
            (PERF_SAMPLE_STREAM_ID, self.id),
            (PERF_SAMPLE_CPU, cpu.into()),
            (PERF_SAMPLE_PERIOD, period),
        ];
        for (part, word) in parts {
            if self.sampling.format.has(part) {
                record.write_word(word);
            }
        }
        record
    }

    /// Writes those parts in [`OtherParts`] that the event's samples have.
    #[inline(always)]
    fn put_other_parts<'a>(&self, mut record: Record<'a>, parts: &OtherParts<'_>) -> Record<'a> {
        let format = self.sampling.format;
        if let Some(readings) = parts.readings {
            record.write_words(readings.counts);
        }
        if format.has(PERF_SAMPLE_CALLCHAIN) {
            record.write_word(parts.chain.len() as u64);
            record.write_words(parts.chain);
        }
        if let (Some(stack), Some(readings)) = (self.sampling.branches, parts.readings) {
            match readings.branches {
                SampleBranches::Read { words, newest } => {
                    record.write_word(words.len() as u64 / 3);
                    if stack.has_index {
                        record.write_word(newest.into());
                    }
                    record.write_words(words);
                }
                SampleBranches::Recorded {
                    branches,
                    words,
                    count,
                } => put_branches(&mut record, branches, words, count),
            }
        }
        if format.has(PERF_SAMPLE_REGS_USER) {
            put_registers(&mut record, parts.user_regs, self.sampling.user_registers);
        }
        if format.has(PERF_SAMPLE_STACK_USER) {
            stack::put_stack(&mut record, parts.user_regs, parts.stack_size);
        }
        if format.has(PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT) {
            record.write_word(parts.access.weight);
        }
        if format.has(PERF_SAMPLE_DATA_SRC) {
            record.write_word(parts.access.source);
        }
        if format.has(PERF_SAMPLE_TRANSACTION) {
            record.write_word(0);
        }
        if format.has(PERF_SAMPLE_REGS_INTR) {
            put_registers(&mut record, parts.regs, self.sampling.registers);
        }
        record
    }

    /// Returns the registers that a sample may show, and whether they are the program's. Usually
    /// these are the registers of the interrupt. If the event excludes the kernel, but the
    /// interrupt came late and has interrupted the kernel, these are the registers of the program.
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

    /// Writes the call chains of the kernel and of the program to `chain`. Leaves out a call chain
    /// that the event does not want, and a call chain whose beginning is not known. Returns the
    /// number of words.
    #[inline(always)]
    fn walk_call_chain(
        &self,
        (kernel, task): (Option<KernelChain<'_>>, *mut bindings::task_struct),
        (user_regs, user_ip): (Option<&pt_regs>, Option<u64>),
        chain: &mut [u64; CHAIN_WORDS],
    ) -> usize {
        let chains = self.sampling.chains;
        let mut room = chains.depth as usize;
        let mut used_words = 0;
        // The event's limit of depth does not include the marks.
        let mut add = |mark: u64,
                       walk: unsafe extern "C" fn(_, _, _) -> u32,
                       regs: Option<&pt_regs>,
                       ip: Option<u64>,
                       limit: usize| {
            let Some((first, rest)) = chain
                .get_mut(used_words..)
                .and_then(<[u64]>::split_first_mut)
            else {
                return;
            };
            *first = mark;
            let max_words = room.min(rest.len()).min(limit);
            let walked_words = match regs {
                // SAFETY: `walk` requires registers that the NMI has interrupted or that the program has saved, and room
                // for `max_words` words: callers pass such registers, and `rest` has at least that many words.
                Some(regs) => unsafe {
                    walk(
                        ptr::from_ref(regs).cast_mut(),
                        rest.as_mut_ptr(),
                        max_words as u32,
                    )
                },
                None => 0,
            } as usize;
            let mut address_count = walked_words;
            if let (Some(ip), Some(first)) = (ip, rest.first_mut().filter(|_| max_words != 0)) {
                *first = ip;
                address_count = address_count.max(1);
            }
            room -= address_count.min(room);
            used_words += 1 + address_count;
        };
        if let Some(kernel) = kernel.filter(|_| chains.kernel) {
            // SAFETY: The function has no preconditions: it only compares `task` with the current task.
            let is_own_stack = unsafe { ffi::perfmon_on_stack_of(task) };
            let limit = if is_own_stack { usize::MAX } else { 1 };
            add(
                PERF_CONTEXT_KERNEL,
                ffi::perfmon_kernel_chain,
                kernel.regs,
                kernel.ip,
                limit,
            );
        }
        let has_user_part = chains.user && (user_regs.is_some() || user_ip.is_some());
        if has_user_part {
            add(
                PERF_CONTEXT_USER,
                ffi::perfmon_user_chain,
                user_regs,
                user_ip,
                usize::MAX,
            );
        }
        used_words
    }

    /// Returns the number of words that counts and branches take in a sample.
    #[cold]
    fn readings_words(&self, readings: &PmuReadings<'_>) -> usize {
        let branches = match (self.sampling.branches, readings.branches) {
            (None, _) => 0,
            (Some(stack), SampleBranches::Read { words, .. }) => {
                1 + usize::from(stack.has_index) + words.len()
            }
            (
                Some(_),
                SampleBranches::Recorded {
                    branches, count, ..
                },
            ) => branches.word_count(count),
        };
        readings.counts.len() + branches
    }

    /// Returns the number of words that registers take in a sample.
    #[cold]
    fn register_words(&self, regs: Option<&pt_regs>, user_regs: Option<&pt_regs>) -> usize {
        let format = self.sampling.format;
        let words = |regs: Option<&pt_regs>, mask: u64| match regs {
            Some(_) => 1 + mask.count_ones() as usize,
            None => 1,
        };
        let mut sum = 0;
        if format.has(PERF_SAMPLE_REGS_USER) {
            sum += words(user_regs, self.sampling.user_registers);
        }
        if format.has(PERF_SAMPLE_REGS_INTR) {
            sum += words(regs, self.sampling.registers);
        }
        sum
    }
}

/// Returns whether the registers were saved in user mode.
#[inline(always)]
pub(super) fn is_user(regs: &pt_regs) -> bool {
    /// The requested privilege level: 3 in programs (Intel SDM, volume 3A, section 3.4.2).
    const RPL: u16 = 0b11;

    // SAFETY: To read a field of a union requires bits that are valid for its type: the field is an integer, for which
    // any bits are.
    unsafe { regs.__bindgen_anon_1.cs & RPL != 0 }
}

/// Returns the registers of the program that was interrupted, or that was running before the kernel
/// was entered. Returns `None` for a kernel thread, while an exec replaces the program, while the
/// registers are being saved, and if the sampled `task` is not the current one: a context switch
/// opens the windows of the next task before that task runs.
pub(super) fn user_registers(regs: &pt_regs, task: *mut bindings::task_struct) -> Option<&pt_regs> {
    // SAFETY: The function requires the registers of the interrupt, which it only reads. The result
    // is `regs`, or the registers that the task has saved on its kernel stack. They stay there
    // until the task returns to its program, after this handler.
    unsafe { ffi::perfmon_user_regs(ptr::from_ref(regs).cast_mut(), task).as_ref() }
}

/// Returns whether a sample of `task` may show the registers of the interrupt.
fn may_show_registers(regs: &pt_regs, task: *mut bindings::task_struct) -> bool {
    // SAFETY: The function requires valid registers, which it only reads: `regs` is a reference. It only compares
    // `task` with the current task.
    unsafe { ffi::perfmon_may_show_regs(ptr::from_ref(regs).cast_mut(), task) }
}

/// Returns the program's instruction address, if the program has just entered the kernel and its registers are not saved
/// yet; 0 if the address is not known.
#[cold]
fn unsaved_user_ip(regs: &pt_regs) -> u64 {
    // SAFETY: The function requires the registers of the interrupt, which it only reads: `regs` is a reference.
    unsafe { ffi::perfmon_unsaved_user_ip(regs) }
}
