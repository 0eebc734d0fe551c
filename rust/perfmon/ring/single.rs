// SPDX-License-Identifier: GPL-2.0-only
//! Precise samples (PEBS) for which each record has an interrupt of its own. The main reason is
//! that only the interrupt can give some parts of a sample: call chains, registers, stacks and
//! counts; before format 4 also branches.
//!
//! The address and the time are the record's. The interrupt may come later, even in the other mode.
//! So a sample shows the registers and the callers of the interrupt only if these belong to the
//! mode of the recorded instruction. If the interrupt has no such registers, the sample shows no
//! registers, even if the record has some. There are two reasons. The record lacks the code
//! segment, which tells 32-bit from 64-bit code. And only the interrupt shows whether the sampled
//! task has executed the instruction, and whether an exec was in progress: then registers may
//! contain secrets of the new program.

use super::{
    program::hides_program,
    sample::{is_user, user_registers, KernelChain, Place},
    Interrupt, Ring, Sampler,
};
use crate::{
    logic::{
        anchor::Anchor,
        event_attr::{
            PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_REGS_INTR, PERF_SAMPLE_REGS_USER,
            PERF_SAMPLE_STACK_USER,
        },
        memory_access::{AccessWords, MEMORY_PARTS},
        pebs::{
            is_user_address, kernel_address_or_zero, user_address_or_zero, RecordGroups,
            RecordRegisters, SingleRecord,
        },
    },
    sys::ffi,
};
use kernel::bindings::{self, pt_regs};

/// The parts that show registers, or what a register points to.
const REGISTER_PARTS: u64 = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_REGS_INTR;

/// A record of the processor, and the registers of the interrupt that has found it.
pub(crate) struct RecordedPlace<'a> {
    /// The parts of the record that the sample shows.
    pub(crate) record: SingleRecord<'a>,
    /// The registers of the interrupt (NMI) that has found the record; `None` if the record was found outside of an NMI.
    pub(crate) regs: Option<&'a pt_regs>,
    /// The anchor that converts the record's time stamp.
    pub(crate) anchor: Anchor,
}

/// The place of a sample with a record.
struct SinglePlace<'a> {
    /// The address that the sample shows.
    ip: u64,
    /// `ip` is the recorded address.
    is_exact: bool,
    /// The sample was taken in the program, or is shown as if it was.
    is_user: bool,
    /// The time of the record on the event's clock, in nanoseconds.
    time: u64,
    /// The access to memory that the sample shows.
    access: AccessWords,
    /// The registers that the interrupt knows in the mode of the instruction, if any. If the record
    /// has registers of that mode, they have replaced these. The field `ip` need not be the
    /// recorded address: it is the address that the other registers and the stack belong to.
    regs: Option<pt_regs>,
    /// The program's registers, if they are known. For a sample of the kernel, the program saved them when it entered the
    /// kernel.
    saved_regs: Option<&'a pt_regs>,
    /// The registers of the interrupt, if it has interrupted the kernel.
    kernel_regs: Option<&'a pt_regs>,
}

impl Place for SinglePlace<'_> {
    fn is_user(&self) -> bool {
        self.is_user
    }

    fn ip(&self) -> u64 {
        self.ip
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn time(&self, _sampler: &Sampler) -> u64 {
        self.time
    }

    fn access(&self) -> AccessWords {
        self.access
    }

    fn regs(&self) -> Option<&pt_regs> {
        self.regs.as_ref()
    }

    fn user_regs(&self, _task: *mut bindings::task_struct) -> Option<&pt_regs> {
        if self.is_user {
            self.regs.as_ref()
        } else {
            self.saved_regs
        }
    }

    fn user_ip(&self) -> Option<u64> {
        (self.is_user && self.ip != 0).then_some(self.ip)
    }

    fn kernel_chain(&self) -> Option<KernelChain<'_>> {
        (!self.is_user).then_some(KernelChain {
            // The recorded registers are not used: the unwinder looks up their address, and the stack pointer may belong to
            // another address.
            regs: self.kernel_regs,
            ip: Some(self.ip),
        })
    }
}

impl Sampler {
    /// Returns whether each precise sample has an interrupt of its own, for one of the reasons below. To be called with
    /// interrupts off.
    ///
    /// - The attribute of the event requires an interrupt for each record.
    /// - Each sample has to notify programs.
    /// - The reader of the ring, which may be the ring of another event, is woken after a number of samples.
    pub(crate) fn needs_interrupt_per_record(&self) -> bool {
        let wakes_after_samples = || self.ring().is_some_and(Ring::wakes_after_samples);
        let needs_wake_up = || self.notifier.follows_overflows() || wakes_after_samples();
        self.sampling.needs_interrupt_per_record || (self.sampling.is_precise && needs_wake_up())
    }

    /// Returns whether samples show the access to memory.
    pub(super) fn has_access(&self) -> bool {
        self.sampling.format.has(MEMORY_PARTS)
    }

    /// Returns the groups of words that the records of precise samples need, for a processor that can select the groups.
    pub(crate) fn record_groups(&self) -> RecordGroups {
        let access = RecordGroups::ACCESS.filter(self.has_access());
        let sampling = &self.sampling;
        let begins_chain = sampling.format.has(PERF_SAMPLE_CALLCHAIN) && sampling.chains.user;
        let needs_registers = begins_chain || sampling.format.has(REGISTER_PARTS);
        access
            .union(RecordGroups::REGISTERS.filter(needs_registers))
            .union(RecordGroups::BRANCHES.filter(sampling.recorded_branches.is_some()))
    }

    /// Writes the sample of a record, and notifies programs.
    #[cold]
    #[inline(never)]
    pub(crate) fn sample_single(&self, interrupt: Interrupt<'_, RecordedPlace<'_>>) {
        let place = self.single_place(&interrupt.place, interrupt.task);
        self.sample_at(interrupt.with_place(place));
    }

    /// Returns the place that the sample of a record may show.
    fn single_place<'a>(
        &self,
        place: &RecordedPlace<'a>,
        task: *mut bindings::task_struct,
    ) -> SinglePlace<'a> {
        let RecordedPlace {
            record,
            regs: interrupt_regs,
            anchor,
        } = place;
        let is_of_program = is_user_address(record.ip);
        // The processor may record a late instruction in the kernel, which an event that excludes the kernel must not show.
        let is_hidden = !is_of_program && self.is_user_only;
        let program_regs = match interrupt_regs {
            Some(regs) => user_registers(regs, task),
            None => saved_user_registers(task),
        };
        let kernel_regs = interrupt_regs.filter(|regs| !is_user(regs));
        let known_regs = if is_of_program || is_hidden {
            program_regs
        } else {
            kernel_regs
        };
        let mut regs = known_regs.copied();
        // The recorded registers have their values after the instruction. They are the kernel's
        // registers if the instruction has entered the kernel, as SYSCALL does.
        let recorded = record.registers.as_ref().filter(|recorded| {
            let are_of_program = is_user_address(recorded.ip) && is_user_address(recorded.sp);
            !is_hidden && is_of_program == are_of_program
        });
        if let (Some(regs), Some(recorded)) = (&mut regs, recorded) {
            replace_registers(regs, recorded);
        }
        SinglePlace {
            ip: if is_hidden {
                known_regs.map_or(0, |regs| regs.ip as u64)
            } else {
                record.ip
            },
            is_exact: !is_hidden,
            is_user: is_of_program || is_hidden,
            time: anchor.ns_at(record.tsc),
            access: if self.has_access() && !is_hidden {
                let reader = self.sampling.access.reader(self.sampling.format);
                let words = reader.words(&record.access);
                visible_access(words, self.is_user_only, hides_program(task))
            } else {
                AccessWords::NONE
            },
            regs,
            saved_regs: program_regs,
            kernel_regs,
        }
    }
}

/// Returns the access to memory that a sample may show. An address of the kernel becomes 0 if the
/// event excludes the kernel. An address of the program becomes 0 if the program is hidden.
fn visible_access(words: AccessWords, is_user_only: bool, program_is_hidden: bool) -> AccessWords {
    let mut address = words.address;
    if is_user_only {
        address = user_address_or_zero(address);
    }
    if program_is_hidden {
        address = kernel_address_or_zero(address);
    }
    AccessWords { address, ..words }
}

/// Replaces the flags, the instruction pointer and the general registers by the registers of a
/// record.
fn replace_registers(regs: &mut pt_regs, recorded: &RecordRegisters) {
    let [r8, r9, r10, r11, r12, r13, r14, r15] = recorded.r8_to_r15;
    for (register, value) in [
        (&mut regs.flags, recorded.flags),
        (&mut regs.ip, recorded.ip),
        (&mut regs.ax, recorded.ax),
        (&mut regs.bx, recorded.bx),
        (&mut regs.cx, recorded.cx),
        (&mut regs.dx, recorded.dx),
        (&mut regs.si, recorded.si),
        (&mut regs.di, recorded.di),
        (&mut regs.bp, recorded.bp),
        (&mut regs.sp, recorded.sp),
        (&mut regs.r8, r8),
        (&mut regs.r9, r9),
        (&mut regs.r10, r10),
        (&mut regs.r11, r11),
        (&mut regs.r12, r12),
        (&mut regs.r13, r13),
        (&mut regs.r14, r14),
        (&mut regs.r15, r15),
    ] {
        *register = value as usize;
    }
}

/// Returns the registers that the program of the current task has saved. Used instead of [`user_registers`] outside of
/// NMIs.
fn saved_user_registers<'a>(task: *mut bindings::task_struct) -> Option<&'a pt_regs> {
    // SAFETY: The function requires a caller outside of NMIs: the caller has no registers of an interrupt, since it has
    // found the record outside of NMIs. The registers that the function returns stay on the kernel stack of the current
    // task until the task returns to its program, after the caller, which has interrupts off.
    unsafe { ffi::perfmon_saved_user_regs(task).as_ref() }
}
