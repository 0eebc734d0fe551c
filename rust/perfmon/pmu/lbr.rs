// SPDX-License-Identifier: GPL-2.0-only
//! The registers of branch records, whose kinds are in [`crate::logic::branch_records`].
//!
//! The processor freezes the records when it raises an overflow interrupt, so that they show the branches before the
//! overflow. A bit of the global status is then set, and clearing it unfreezes the records. On Intel before version 4
//! freezing clears the enable bit instead, which has to be set again. Some of AMD's processors can't freeze the
//! records. On these the filter leaves out branches of the kernel, so that the handler does not overwrite the branches
//! of user mode.
//!
//! While the records are only read from the processor's own samples (PEBS), freezing is off.
//! Otherwise a sample that is taken between an overflow and its interrupt would show the branches
//! before the overflow, instead of the branches before the sample.
//!
//! On Broadwell and Skylake, Intel PT and the records exclude each other. While Intel PT traces, no branch is recorded.
//! An access to the registers of the records may raise #GP, and so may a write of `IA32_DEBUGCTL` that enables the
//! records. When Intel PT stops, the processor empties the records. Linux perf owns Intel PT, and does not know of this
//! module. So the module does not access the registers while Intel PT traces.

use crate::{
    abi,
    cpu::{msr, topology, ThisCpu},
    logic::{
        branch_records::{BranchMsrs, BranchRecords, OldStack, AMD_ENABLE},
        branches::Branches,
        cpuid::{Capabilities, Microarchitecture},
        lbr::{self, AmdBranch, DEBUGCTL_FREEZE, DEBUGCTL_LBR},
        msr::Msr,
        plan::Step,
        pmu::Pmu,
        values::Sensor,
    },
    percpu::{buffer::Writer, BRANCH_WORDS, SLOW_BRANCHES},
};
use kernel::pr_warn_once;

/// Returns the branch records of this CPU; `None` if the registers that CPUID reports are missing, as under some
/// hypervisors, or if another CPU shares them. On Nehalem and Westmere both threads of a core have one filter
/// (`lbr_sel` in Linux's `arch/x86/events/perf_event.h`), so that each thread would change the other's filter. A thread
/// that may come online later counts as well, since all CPUs must have the same branch records, whenever they come online.
pub(super) fn probe(here: ThisCpu<'_>, records: Option<BranchRecords>) -> Option<BranchRecords> {
    records.filter(|records| {
        let is_filter_shared = *records == BranchRecords::OldStack(OldStack::Nehalem)
            && topology::may_have_sibling(here);
        !is_filter_shared && msr::read_safe(here, BranchMsrs::new(*records).select).is_ok()
    })
}

/// Returns whether Intel PT and the branch records of this CPU exclude each other. The two exclude
/// each other on processors before Ice Lake, except on Atoms (`lbr_pt_coexist` in Linux's
/// `arch/x86/events/intel/core.c`).
pub(super) fn is_excluded_by_intel_pt(here: ThisCpu<'_>, capabilities: &Capabilities) -> bool {
    use Microarchitecture::{Goldmont, GoldmontPlus, IceLake, Tremont};

    let is_stack = matches!(
        capabilities.last_branch,
        Some(BranchRecords::Stack | BranchRecords::OldStack(_))
    );
    let has_exclusive_records = is_stack
        && !matches!(
            capabilities.microarchitecture,
            IceLake | Goldmont | GoldmontPlus | Tremont
        );
    // Intel PT is missing before Broadwell, and may be under a hypervisor.
    has_exclusive_records && msr::read_sensor_safe(here, Sensor::TRACE_CONTROL).is_ok()
}

/// Returns whether Intel PT excludes the records now. If so, sets `was_excluded`, since the records have to be enabled
/// anew afterwards.
#[inline(always)]
fn are_excluded(here: ThisCpu<'_>, pmu: &Pmu) -> bool {
    pmu.capabilities.intel_pt_excludes_branches && is_intel_pt_tracing(here)
}

/// Returns whether Intel PT traces, and sets `was_excluded` if so, for [`are_excluded`].
#[cold]
fn is_intel_pt_tracing(here: ThisCpu<'_>) -> bool {
    let is_intel_pt_tracing =
        msr::read_sensor(here, Sensor::TRACE_CONTROL) & Sensor::TRACE_ENABLED != 0;
    if is_intel_pt_tracing {
        here.percpu().branches.was_excluded.set(1);
    }
    is_intel_pt_tracing
}

/// Logs once that Intel PT excludes the records. Not for the overflow handler.
pub(super) fn log_exclusion(here: ThisCpu<'_>) {
    if here.percpu().branches.was_excluded.get() != 0 {
        pr_warn_once!(
            "Intel PT (perf record -e intel_pt//) traces on CPU {}: this processor records no branches meanwhile\n",
            here.id().as_u32()
        );
    }
}

/// Starts to record `branches`, with empty records. If branches are recorded already, only empties the records: all
/// users at one time record the same branches, and no user may see branches from before its own start.
///
/// `interrupt_user` is the user's bit of `BranchState::interrupt_users`; 0 if the user does not
/// read the records in interrupts.
pub(crate) fn start(here: ThisCpu<'_>, branches: Branches, interrupt_user: u64) {
    let (saved, msrs) = (&here.percpu().branches, &here.pmu().registers.branches);
    saved.user_count.increment();
    if saved.user_count.get() != 1 {
        let interrupt_users = saved.interrupt_users.get() | interrupt_user;
        change_interrupt_users(here, here.pmu(), interrupt_users);
        // The records have branches from before this user's start.
        return clear_records(here);
    }
    saved.interrupt_users.set(interrupt_user);
    saved.debugctl.set(msr::read(here, Msr::DEBUGCTL));
    saved.hidden_address_mask.set(branches.kernel_bit);
    saved.selection.set(msrs.selection(branches));
    let debugctl_bits = msrs.debugctl_bits(branches);
    saved.freeze_bit.set(debugctl_bits & DEBUGCTL_FREEZE);
    saved.debugctl_bits.set(if interrupt_user == 0 {
        debugctl_bits & !DEBUGCTL_FREEZE
    } else {
        debugctl_bits
    });
    saved.was_excluded.set(0);
    saved.were_broken.set(0);
    if are_excluded(here, here.pmu()) {
        // The filter can't be read. Linux perf writes it whenever it enables the records.
        saved.select.set(0);
        // The first repair after Intel PT has stopped enables the records.
        here.percpu().slow_path.insert(SLOW_BRANCHES);
        return;
    }
    saved.select.set(msr::read(here, msrs.select));
    if let Some(enable) = &msrs.enable_bit {
        saved.enable_bit.set(msr::read(here, enable.msr));
    }
    if let Some(depth) = msrs.depth {
        saved.depth.set(msr::read(here, depth));
    }
    // The firmware, or a kernel that ran before kexec, may have left the records frozen.
    unfreeze(here, here.pmu());
    restart_branch_records(here);
}

/// Sets the users that read the records in interrupts. The records can freeze while there is such a
/// user.
fn change_interrupt_users(here: ThisCpu<'_>, pmu: &Pmu, interrupt_users: u64) {
    let saved = &here.percpu().branches;
    let could_freeze = saved.interrupt_users.get() != 0;
    saved.interrupt_users.set(interrupt_users);
    if could_freeze == (interrupt_users != 0) {
        return;
    }
    // The first user sets the freeze bit, the last user clears it: both flip it.
    let freeze_bit = saved.freeze_bit.get();
    let debugctl_bits = saved.debugctl_bits.get() ^ freeze_bit;
    // A PMI may come between the store and the write of the register, and `repair` then empties the records if the register
    // lacks a bit of `debugctl_bits`. So a bit is stored after it was set, and before it is cleared. Without a status bit for
    // frozen records every user reads them in interrupts, so there is no other user while the bit changes.
    let is_cleared = interrupt_users == 0;
    if is_cleared {
        saved.debugctl_bits.set(debugctl_bits);
    }
    if freeze_bit != 0 && !are_excluded(here, pmu) {
        // The enable bit stays as it is: if other software has cleared it, `repair` has to find that, and to drop the
        // old branches.
        let step = Step::set_bits(Msr::DEBUGCTL, freeze_bit, debugctl_bits & freeze_bit);
        msr::execute_step(here, &step);
    }
    if !is_cleared {
        saved.debugctl_bits.set(debugctl_bits);
    }
}

/// Empties the records and enables them.
fn restart_branch_records(here: ThisCpu<'_>) {
    let (percpu, msrs) = (here.percpu(), &here.pmu().registers.branches);
    percpu.branches.was_excluded.set(0);
    let selection = percpu.branches.selection.get();
    disable_records(here, msrs);
    msr::write(here, msrs.select, selection & !msrs.select_enable);
    clear_records(here);
    // Set before the records can freeze, since the handler has to unfreeze records that are frozen.
    percpu.slow_path.insert(SLOW_BRANCHES);
    let debugctl_bits = percpu.branches.debugctl_bits.get();
    msr::execute_step(
        here,
        &Step::set_bits(Msr::DEBUGCTL, msrs.debugctl, debugctl_bits),
    );
    if let Some(enable) = &msrs.enable_bit {
        msr::execute_step(here, &Step::set_bits(enable.msr, enable.bit, enable.bit));
    }
    if msrs.select_enable != 0 {
        msr::write(here, msrs.select, selection);
    }
}

/// Disables the records.
fn disable_records(here: ThisCpu<'_>, msrs: &BranchMsrs) {
    if msrs.select_enable != 0 {
        msr::execute_step(here, &Step::set_bits(msrs.select, msrs.select_enable, 0));
    }
    if let Some(enable) = &msrs.enable_bit {
        msr::execute_step(here, &Step::set_bits(enable.msr, enable.bit, 0));
    }
    msr::execute_step(here, &Step::set_bits(Msr::DEBUGCTL, msrs.debugctl, 0));
}

/// Empties the records. Does nothing while Intel PT excludes them, since the processor empties them when Intel PT
/// stops.
pub(crate) fn clear_records(here: ThisCpu<'_>) {
    if are_excluded(here, here.pmu()) {
        return;
    }
    match here.pmu().capabilities.last_branch {
        None => {}
        Some(records @ (BranchRecords::OldStack(_) | BranchRecords::Stack)) => {
            for n in 0..records.depth() {
                msr::write(here, Msr::lbr_from(n), 0);
                msr::write(here, Msr::lbr_to(n), 0);
            }
        }
        Some(BranchRecords::Architectural { depth }) => {
            msr::write(here, Msr::LBR_DEPTH, depth.into());
        }
        Some(BranchRecords::Amd { depth, .. }) => {
            // A branch that is recorded during the loop would move the other records to registers that have been
            // emptied.
            let config = msr::read(here, Msr::AMD_DBG_EXTN_CFG);
            let is_enabled = config & AMD_ENABLE != 0;
            if is_enabled {
                msr::write(here, Msr::AMD_DBG_EXTN_CFG, config & !AMD_ENABLE);
            }
            for n in 0..u32::from(depth) {
                msr::write(here, Msr::amd_lbr_from(n), 0);
                msr::write(here, Msr::amd_lbr_to(n), 0);
            }
            if is_enabled {
                msr::write(here, Msr::AMD_DBG_EXTN_CFG, config);
            }
        }
    }
}

/// Ends one use of the branch records, which [`start`] began. The end of the last use restores the registers, and empties
/// the records, so that other programs can't read them.
///
/// `interrupt_user` is the user's bit of `BranchState::interrupt_users`, as for [`start`].
pub(crate) fn stop(here: ThisCpu<'_>, pmu: &Pmu, interrupt_user: u64) {
    let (percpu, msrs) = (here.percpu(), &pmu.registers.branches);
    let saved = &percpu.branches;
    saved.user_count.decrement();
    if saved.user_count.get() != 0 {
        let interrupt_users = saved.interrupt_users.get() & !interrupt_user;
        return change_interrupt_users(here, pmu, interrupt_users);
    }
    unfreeze(here, pmu);
    if are_excluded(here, pmu) {
        // While Intel PT traces, the enable bit can be cleared but not set, and the other registers can't be written.
        let debugctl = saved.debugctl.get() & !DEBUGCTL_LBR;
        msr::execute_step(
            here,
            &Step::set_bits(Msr::DEBUGCTL, msrs.debugctl, debugctl),
        );
        percpu.slow_path.remove(SLOW_BRANCHES);
        return;
    }
    disable_records(here, msrs);
    // Disabled records can't freeze, so the handler has nothing to unfreeze.
    percpu.slow_path.remove(SLOW_BRANCHES);
    clear_records(here);
    if let Some(depth) = msrs.depth {
        msr::write(here, depth, saved.depth.get());
    }
    msr::write(here, msrs.select, saved.select.get());
    msr::execute_step(
        here,
        &Step::set_bits(Msr::DEBUGCTL, msrs.debugctl, saved.debugctl.get()),
    );
    if let Some(enable) = &msrs.enable_bit {
        msr::execute_step(
            here,
            &Step::set_bits(enable.msr, enable.bit, saved.enable_bit.get()),
        );
    }
}

/// Unfreezes the records. Before version 4, this enables the records, but only if the freeze bit is still set. If it is
/// clear, the records were not disabled by an interrupt, but by [`stop`] or other software.
pub(crate) fn unfreeze(here: ThisCpu<'_>, pmu: &Pmu) {
    let Some(step) = pmu.registers.unfreeze_branches() else {
        return;
    };
    if step.msr != Msr::DEBUGCTL {
        return msr::execute_step(here, &step);
    }
    let debugctl = msr::read(here, step.msr);
    if debugctl & DEBUGCTL_FREEZE != 0 && !are_excluded(here, pmu) {
        msr::write(here, step.msr, step.apply(debugctl));
    }
}

/// Checks that branches are still recorded, and repairs the registers: a BPF program that calls
/// `bpf_get_branch_snapshot()` disables the records and does not enable them again. A repair
/// empties the records, since it is not known when their branches were recorded. Returns whether
/// the records can be read: false while Intel PT excludes them.
pub(crate) fn repair(here: ThisCpu<'_>, pmu: &Pmu) -> bool {
    /// The bits of `IA32_DEBUGCTL` for a stack that interrupts freeze.
    const STACK_BITS: u64 = DEBUGCTL_LBR | DEBUGCTL_FREEZE;

    let (percpu, msrs) = (here.percpu(), &pmu.registers.branches);
    let are_excluded = are_excluded(here, pmu);
    let debugctl_bits = percpu.branches.debugctl_bits.get();
    // Before version 4 the PMI clears the enable bit when it freezes the stack.
    let must_be_set = if pmu.registers.has_freeze_status || debugctl_bits != STACK_BITS {
        debugctl_bits
    } else {
        DEBUGCTL_FREEZE
    };
    let is_intact = percpu.branches.was_excluded.get() == 0
        && msr::read(here, Msr::DEBUGCTL) & must_be_set == must_be_set
        && msr::read(here, msrs.select) == percpu.branches.selection.get()
        && match &msrs.enable_bit {
            Some(enable) => msr::read(here, enable.msr) & enable.bit != 0,
            None => true,
        };
    if !is_intact {
        percpu.branches.were_broken.set(1);
        if percpu.trace.branch_counters.get() != 0 {
            percpu.trace.mark_lost();
        }
        if !are_excluded {
            restart_branch_records(here);
        }
    }
    !are_excluded
}

/// Repairs the registers as [`repair`] does. Returns whether all branches were recorded since the
/// last call of this function: then each of the processor's samples since that call has the
/// branches that precede the sample.
#[cold]
#[inline(never)]
pub(super) fn recorded_all_branches(here: ThisCpu<'_>, pmu: &Pmu) -> bool {
    let are_readable = repair(here, pmu);
    let were_broken = &here.percpu().branches.were_broken;
    let was_broken = were_broken.get() != 0;
    were_broken.set(0);
    are_readable && !was_broken
}

/// Writes a LAST_BRANCH record, and returns the writer. Not inlined, so that its loops can use all registers of the
/// CPU.
#[inline(never)]
pub(crate) fn write_record(
    here: ThisCpu<'_>,
    pmu: &Pmu,
    mut writer: Writer,
    header: abi::perfmon_record_header,
    aspace: u64,
) -> Writer {
    let are_readable = repair(here, pmu);
    let head_start = writer.skip(size_of::<lbr::LastBranchHead>());
    let branches_start = writer.next_offset();
    if are_readable {
        for_each_branch(here, pmu, &mut writer);
    }
    let bytes = writer.next_offset().wrapping_sub(branches_start);
    writer.put_at(
        head_start,
        lbr::LastBranchHead {
            header,
            num_branches: (bytes / size_of::<abi::perfmon_last_branch>()) as u32,
            aspace,
        },
    );
    writer
}

/// The details of a branch besides its addresses, or the register that has them: the flags, and the cycles and the type
/// if the processor records these.
#[derive(Clone, Copy)]
enum BranchDetails {
    /// The details are in this register, in the stack's form.
    Stack(Msr),
    /// The details are these bits, which from Nehalem to Broadwell are above the address.
    Flags(u64),
    /// The details are in this register, in the form of architectural records.
    Architectural(Msr),
    /// The details are in this branch, which was decoded from AMD's address registers.
    Amd(AmdBranch),
}

impl BranchDetails {
    /// Returns whether the branch was executed: false on a mispredicted path.
    #[inline(always)]
    fn is_executed(self) -> bool {
        match self {
            Self::Stack(_) | Self::Flags(_) | Self::Architectural(_) => true,
            Self::Amd(branch) => branch.is_executed(),
        }
    }

    /// Returns the details as the field `info` of a LAST_BRANCH record.
    #[inline(always)]
    fn info(self, here: ThisCpu<'_>) -> u64 {
        match self {
            Self::Stack(msr) => {
                let (low, high) = msr::read_halves(here, msr);
                lbr::info(low, high)
            }
            Self::Flags(info) => lbr::info(info, info >> 32),
            Self::Architectural(msr) => {
                let info = lbr::with_known_cycles(msr::read(here, msr));
                lbr::info(info, info >> 32)
            }
            Self::Amd(branch) => branch.info(),
        }
    }

    /// Returns the flags, and the type if it is known, as the samples of events have them.
    #[inline(always)]
    fn flags(self, here: ThisCpu<'_>) -> u64 {
        match self {
            Self::Stack(msr) => lbr::flags(msr::read(here, msr)),
            Self::Flags(info) => lbr::flags(info),
            Self::Architectural(msr) => {
                let info = msr::read(here, msr);
                lbr::flags(lbr::with_known_cycles(info)) | lbr::branch_type(info)
            }
            Self::Amd(branch) => branch.flags(),
        }
    }

    /// Returns the value of the register with the details; 0 if the details are not in a register.
    #[inline(always)]
    fn register_value(self, here: ThisCpu<'_>) -> u64 {
        match self {
            Self::Stack(msr) | Self::Architectural(msr) => msr::read(here, msr),
            Self::Flags(_) | Self::Amd(_) => 0,
        }
    }
}

/// A consumer of branches. A trait instead of a closure, so that it is inlined for each kind of records.
trait BranchSink {
    /// Adds a branch.
    fn add_branch(&mut self, here: ThisCpu<'_>, from: u64, to: u64, details: BranchDetails);
}

/// The branches of a LAST_BRANCH record.
impl BranchSink for Writer {
    #[inline(always)]
    fn add_branch(&mut self, here: ThisCpu<'_>, from: u64, to: u64, details: BranchDetails) {
        if details.is_executed() {
            // The branch is put in parts, which makes shorter code than a structure.
            self.put(from);
            self.put(to);
            self.put(details.info(here));
        }
    }
}

/// Adds each branch that the user may see to `sink`, the newest first. Returns the number of the register that has the
/// newest branch.
#[inline(always)]
fn for_each_branch(here: ThisCpu<'_>, pmu: &Pmu, sink: &mut impl BranchSink) -> u32 {
    let hidden_address_mask = here.percpu().branches.hidden_address_mask.get();
    // The filter tests the target only, so returns from the kernel to the program are recorded, although their source
    // is a kernel address.
    let is_visible = move |from: u64, to: u64| (from | to) & hidden_address_mask == 0;
    match pmu.capabilities.last_branch {
        None => 0,
        Some(BranchRecords::OldStack(old)) => {
            let flag_count = old.flag_count();
            for_each_stack_branch::<{ OldStack::DEPTH }>(here, |_, from, to| {
                let details = BranchDetails::Flags(lbr::flags_of_address(from, flag_count));
                let from = lbr::without_flags(from, flag_count);
                if is_visible(from, to) {
                    sink.add_branch(here, from, to, details);
                }
            })
        }
        Some(BranchRecords::Stack) => {
            for_each_stack_branch::<{ BranchRecords::STACK_DEPTH }>(here, |n, from, to| {
                if is_visible(from, to) {
                    sink.add_branch(here, from, to, BranchDetails::Stack(Msr::lbr_info(n)));
                }
            })
        }
        Some(BranchRecords::Architectural { depth }) => {
            for n in 0..u32::from(depth) {
                let from = msr::read(here, Msr::arch_lbr_from(n));
                if from == 0 {
                    break;
                }
                let to = msr::read(here, Msr::arch_lbr_to(n));
                if is_visible(from, to) {
                    let details = BranchDetails::Architectural(Msr::arch_lbr_info(n));
                    sink.add_branch(here, from, to, details);
                }
            }
            0
        }
        Some(BranchRecords::Amd {
            depth,
            address_bits,
            ..
        }) => {
            for_each_amd_branch(here, depth, address_bits, |branch| {
                let (from, to) = (branch.from, branch.to);
                if is_visible(from, to) {
                    sink.add_branch(here, from, to, BranchDetails::Amd(branch));
                }
            });
            0
        }
    }
}

/// Calls `f` with the register number and the two addresses of each branch in Intel's stack, the newest first. Returns
/// the register number of the newest branch.
#[inline(always)]
fn for_each_stack_branch<const DEPTH: u32>(
    here: ThisCpu<'_>,
    mut f: impl FnMut(u32, u64, u64),
) -> u32 {
    let newest = msr::read(here, Msr::LBR_TOS) as u32;
    // From the newest branch downwards, and around the end of the stack.
    let mut remaining = DEPTH;
    while remaining != 0 {
        let n = newest.wrapping_add(remaining) % DEPTH;
        let from = msr::read(here, Msr::lbr_from(n));
        if from == 0 {
            // The stack has not been filled since it was emptied, so older registers have no branch.
            break;
        }
        f(n, from, msr::read(here, Msr::lbr_to(n)));
        remaining = remaining.wrapping_sub(1);
    }
    newest
}

/// Calls `f` with each of AMD's records that has a branch, the newest first.
#[inline(always)]
fn for_each_amd_branch(
    here: ThisCpu<'_>,
    depth: u8,
    address_bits: u8,
    mut f: impl FnMut(AmdBranch),
) {
    for n in 0..u32::from(depth) {
        let from = msr::read(here, Msr::amd_lbr_from(n));
        let to = msr::read(here, Msr::amd_lbr_to(n));
        if let Some(branch) = AmdBranch::decode(from, to, address_bits.into()) {
            f(branch);
        }
    }
}

/// Calls `put` with the words of each branch in the records, the newest first. If the records are found disabled (a
/// debug exception disables them), does not call `put`: the records may lack returns of calls. Used for call stacks,
/// which AMD's processors don't record.
pub(crate) fn save_records(here: ThisCpu<'_>, put: impl FnMut([u64; 3])) {
    struct WordSink<F>(F);

    impl<F: FnMut([u64; 3])> BranchSink for WordSink<F> {
        #[inline(always)]
        fn add_branch(&mut self, here: ThisCpu<'_>, from: u64, to: u64, details: BranchDetails) {
            (self.0)([from, to, details.register_value(here)]);
        }
    }

    if repair(here, here.pmu()) {
        for_each_branch(here, here.pmu(), &mut WordSink(put));
    }
}

/// Fills the records, which must be empty, with the words of [`save_records`].
pub(crate) fn restore_records(here: ThisCpu<'_>, words: &[u64]) {
    if are_excluded(here, here.pmu()) {
        return;
    }
    let branch_count = (words.len() / 3) as u32;
    let records = here.pmu().capabilities.last_branch;
    let is_stack = matches!(
        records,
        Some(BranchRecords::OldStack(_) | BranchRecords::Stack)
    );
    if is_stack && branch_count != 0 {
        msr::write(here, Msr::LBR_TOS, branch_count.wrapping_sub(1).into());
    }
    for (branch, n) in words.chunks_exact(3).zip(0..branch_count) {
        let registers = if is_stack {
            let n = branch_count.wrapping_sub(n).wrapping_sub(1);
            [Msr::lbr_from(n), Msr::lbr_to(n), Msr::lbr_info(n)]
        } else {
            [
                Msr::arch_lbr_from(n),
                Msr::arch_lbr_to(n),
                Msr::arch_lbr_info(n),
            ]
        };
        // Stacks before Skylake have no register for the details.
        let register_count = if matches!(records, Some(BranchRecords::OldStack(_))) {
            2
        } else {
            3
        };
        for (register, word) in registers.into_iter().zip(branch).take(register_count) {
            msr::write(here, register, *word);
        }
    }
}

/// The branches of a sample.
pub(crate) struct SampledStack<'a> {
    /// The addresses and the flags of each branch, the newest first.
    pub(crate) words: &'a [u64],
    /// The number of the register that has the newest branch.
    pub(crate) newest: u32,
}

/// Reads the branches for a sample. `info_mask` is the mask of the flags and the type that the sample shows.
///
/// # Safety
///
/// To be called in this CPU's overflow handler, and not again before the result is dropped.
#[cold]
#[inline(never)]
pub(crate) unsafe fn read<'a>(here: ThisCpu<'a>, pmu: &Pmu, info_mask: u64) -> SampledStack<'a> {
    let are_readable = repair(here, pmu);
    // SAFETY: `words` must be called by this CPU's overflow handler, and not again before its result is dropped: the
    // caller promises both for this function, whose result borrows the words.
    let room = unsafe { here.percpu().branches.stack.words() };
    let mut sampled_branches = SampledBranches {
        room,
        used_words: 0,
        info_mask,
    };
    let newest = if are_readable {
        for_each_branch(here, pmu, &mut sampled_branches)
    } else {
        0
    };
    let SampledBranches {
        room, used_words, ..
    } = sampled_branches;
    SampledStack {
        words: room.get(..used_words).unwrap_or(&[]),
        newest,
    }
}

/// The sink for the branches of a sample.
struct SampledBranches<'a> {
    room: &'a mut [u64; BRANCH_WORDS],
    /// The number of words in `room` that are filled.
    used_words: usize,
    /// The mask of the flags and of the type that the sample has.
    info_mask: u64,
}

impl BranchSink for SampledBranches<'_> {
    #[inline(always)]
    fn add_branch(&mut self, here: ThisCpu<'_>, from: u64, to: u64, details: BranchDetails) {
        let flags = if self.info_mask != 0 {
            details.flags(here) & self.info_mask
        } else if details.is_executed() {
            0
        } else {
            // Without flags the sample could not show that the branch was on a wrong path.
            return;
        };
        let room = self.room.get_mut(self.used_words..);
        if let Some(room) = room.and_then(<[u64]>::first_chunk_mut) {
            *room = [from, to, flags];
            self.used_words = self.used_words.wrapping_add(room.len());
        }
    }
}
