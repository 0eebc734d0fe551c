// SPDX-License-Identifier: GPL-2.0-only
//! Branch records, of the kinds in [`crate::logic::branch_records`].
//!
//! Hardware freezes the records when it raises an overflow interrupt, so that they show what came before. A bit of the
//! global status says so, and clearing it unfreezes the records. On Intel before version 4 freezing clears the enable
//! bit instead, which has to be set again. Some processors of AMD can't freeze them: there the filter keeps branches of
//! the kernel out, so that those of user mode stay as they are while the handler runs.

use crate::{
    abi,
    cpu::{msr, topology, ThisCpu},
    logic::{
        branch_records::{BranchMsrs, BranchRecords, OldStack, AMD_ENABLE},
        branches::Branches,
        lbr::{self, AmdBranch, DEBUGCTL_FREEZE, DEBUGCTL_LBR},
        msr::Msr,
        plan::Step,
        pmu::Pmu,
    },
    percpu::{buffer::Writer, BRANCH_WORDS, SLOW_BRANCHES},
};

/// Returns the branch records of this CPU, if it has the registers that CPUID promises: a hypervisor may lack them. On
/// Nehalem and Westmere both threads of a core have one filter (`lbr_sel` in Linux's `arch/x86/events/perf_event.h`),
/// so that each thread would change the other's filter.
pub(super) fn probe(here: ThisCpu<'_>, records: Option<BranchRecords>) -> Option<BranchRecords> {
    records.filter(|records| {
        let is_shared =
            *records == BranchRecords::OldStack(OldStack::Nehalem) && topology::has_sibling(here);
        !is_shared && msr::read_safe(here, BranchMsrs::new(*records).select).is_ok()
    })
}

/// Starts to record `branches`, with empty records. If they are recorded already, only empties the records: all users
/// at one time want the same branches, and no user may see branches from before its start.
pub(crate) fn start(here: ThisCpu<'_>, branches: Branches) {
    let (saved, msrs) = (&here.percpu().branches, &here.pmu().registers.branches);
    saved.users.increment();
    if saved.users.get() != 1 {
        // The records have branches of what ran before.
        return clear_records(here);
    }
    saved.debugctl.set(msr::read(here, Msr::DEBUGCTL));
    saved.select.set(msr::read(here, msrs.select));
    if let Some(enable) = &msrs.enable_bit {
        saved.enable_bit.set(msr::read(here, enable.msr));
    }
    if let Some(depth) = msrs.depth {
        saved.depth.set(msr::read(here, depth));
    }
    saved.kernel_bit.set(branches.kernel_bit);
    saved.selection.set(msrs.selection(branches));
    saved.enabled.set(msrs.enabled(branches));
    // The firmware or the kernel before this one may have left them frozen.
    unfreeze(here, here.pmu());
    restart_records(here);
}

/// Enables empty records.
fn restart_records(here: ThisCpu<'_>) {
    let (percpu, msrs) = (here.percpu(), &here.pmu().registers.branches);
    let selection = percpu.branches.selection.get();
    disable_records(here, msrs);
    msr::write(here, msrs.select, selection & !msrs.select_enable);
    clear_records(here);
    // Set before the records can freeze: from then on the handler has to unfreeze them.
    percpu.slow_path.insert(SLOW_BRANCHES);
    let enabled = percpu.branches.enabled.get();
    msr::execute_step(here, &Step::change(Msr::DEBUGCTL, msrs.debugctl, enabled));
    if let Some(enable) = &msrs.enable_bit {
        msr::execute_step(here, &Step::change(enable.msr, enable.bit, enable.bit));
    }
    if msrs.select_enable != 0 {
        msr::write(here, msrs.select, selection);
    }
}

/// Disables the records.
fn disable_records(here: ThisCpu<'_>, msrs: &BranchMsrs) {
    if msrs.select_enable != 0 {
        msr::execute_step(here, &Step::change(msrs.select, msrs.select_enable, 0));
    }
    if let Some(enable) = &msrs.enable_bit {
        msr::execute_step(here, &Step::change(enable.msr, enable.bit, 0));
    }
    msr::execute_step(here, &Step::change(Msr::DEBUGCTL, msrs.debugctl, 0));
}

/// Empties the records.
pub(crate) fn clear_records(here: ThisCpu<'_>) {
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
            // A branch that is recorded meanwhile would move the other records away from the registers that are
            // emptied.
            let before = msr::read(here, Msr::AMD_DBG_EXTN_CFG);
            let is_enabled = before & AMD_ENABLE != 0;
            if is_enabled {
                msr::write(here, Msr::AMD_DBG_EXTN_CFG, before & !AMD_ENABLE);
            }
            for n in 0..u32::from(depth) {
                msr::write(here, Msr::amd_lbr_from(n), 0);
                msr::write(here, Msr::amd_lbr_to(n), 0);
            }
            if is_enabled {
                msr::write(here, Msr::AMD_DBG_EXTN_CFG, before);
            }
        }
    }
}

/// Ends one [`start`]. The end of the last one restores the registers, and empties the records, so that nothing is left
/// for others to read.
pub(crate) fn stop(here: ThisCpu<'_>, pmu: &Pmu) {
    let (percpu, msrs) = (here.percpu(), &pmu.registers.branches);
    let saved = &percpu.branches;
    saved.users.decrement();
    if saved.users.get() != 0 {
        return;
    }
    unfreeze(here, pmu);
    disable_records(here, msrs);
    // Disabled records are not frozen any more.
    percpu.slow_path.remove(SLOW_BRANCHES);
    clear_records(here);
    if let Some(depth) = msrs.depth {
        msr::write(here, depth, saved.depth.get());
    }
    msr::write(here, msrs.select, saved.select.get());
    msr::execute_step(
        here,
        &Step::change(Msr::DEBUGCTL, msrs.debugctl, saved.debugctl.get()),
    );
    if let Some(enable) = &msrs.enable_bit {
        msr::execute_step(
            here,
            &Step::change(enable.msr, enable.bit, saved.enable_bit.get()),
        );
    }
}

/// Unfreezes the records. Before version 4, this enables them, but only if the bit to freeze them is still set: then an
/// interrupt has disabled them, and neither another program nor [`stop`].
pub(crate) fn unfreeze(here: ThisCpu<'_>, pmu: &Pmu) {
    let Some(step) = pmu.registers.unfreeze_branches() else {
        return;
    };
    if step.msr != Msr::DEBUGCTL {
        return msr::execute_step(here, &step);
    }
    let debugctl = msr::read(here, step.msr);
    if debugctl & DEBUGCTL_FREEZE != 0 {
        msr::write(here, step.msr, step.apply(debugctl));
    }
}

/// Checks that branches are still recorded, and repairs the registers: a BPF program that calls
/// `bpf_get_branch_snapshot()` disables the records and leaves them so. The branches in them are of an unknown time
/// then, so the records are emptied.
pub(crate) fn repair(here: ThisCpu<'_>, pmu: &Pmu) {
    const STACK: u64 = DEBUGCTL_LBR | DEBUGCTL_FREEZE;

    let (percpu, msrs) = (here.percpu(), &pmu.registers.branches);
    let enabled = percpu.branches.enabled.get();
    // Before version 4 the PMI clears the enable bit when it freezes the stack.
    let must_be_set = if pmu.registers.has_freeze_status || enabled != STACK {
        enabled
    } else {
        DEBUGCTL_FREEZE
    };
    let is_intact = msr::read(here, Msr::DEBUGCTL) & must_be_set == must_be_set
        && msr::read(here, msrs.select) == percpu.branches.selection.get()
        && match &msrs.enable_bit {
            Some(enable) => msr::read(here, enable.msr) & enable.bit != 0,
            None => true,
        };
    if !is_intact {
        if percpu.trace.branch_counters.get() != 0 {
            percpu.trace.mark_lost();
        }
        restart_records(here);
    }
}

/// Writes a LAST_BRANCH record, and returns the writer. Not inlined, so that its loops have all registers.
#[inline(never)]
pub(crate) fn write_record(
    here: ThisCpu<'_>,
    pmu: &Pmu,
    mut writer: Writer,
    header: abi::perfmon_record_header,
    aspace: u64,
) -> Writer {
    repair(here, pmu);
    let start = writer.skip(size_of::<lbr::LastBranchHead>());
    let first = writer.end();
    for_each(here, pmu, &mut writer);
    let bytes = writer.end().wrapping_sub(first);
    writer.put_at(
        start,
        lbr::LastBranchHead {
            header,
            num_branches: (bytes / size_of::<abi::perfmon_last_branch>()) as u32,
            aspace,
        },
    );
    writer
}

/// The details of a branch besides its addresses: its flags, and cycles and type where the processor records them. Each
/// variant says where to read them.
#[derive(Clone, Copy)]
enum Details {
    /// The details are in this register, in the stack's form.
    Stack(Msr),
    /// From Nehalem to Broadwell: the bits that came with the address.
    Flags(u64),
    /// The details are in this register, in the form of architectural records.
    Architectural(Msr),
    /// AMD: the bits that came with the addresses.
    Amd(AmdBranch),
}

impl Details {
    /// Returns whether the branch was executed, and not on a wrong path.
    #[inline(always)]
    fn is_executed(self) -> bool {
        match self {
            Self::Stack(_) | Self::Flags(_) | Self::Architectural(_) => true,
            Self::Amd(branch) => branch.is_executed(),
        }
    }

    /// Returns the `info` of the branch in a record.
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

    /// Returns the flags of the branch in a sample.
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

    /// Returns the register, where it has one.
    #[inline(always)]
    fn register(self, here: ThisCpu<'_>) -> u64 {
        match self {
            Self::Stack(msr) | Self::Architectural(msr) => msr::read(here, msr),
            Self::Flags(_) | Self::Amd(_) => 0,
        }
    }
}

/// A consumer of branches. A trait rather than a closure, so that it is inlined for each kind of records.
trait BranchSink {
    /// Adds a branch.
    fn add_branch(&mut self, here: ThisCpu<'_>, from: u64, to: u64, details: Details);
}

/// The branches of a LAST_BRANCH record.
impl BranchSink for Writer {
    #[inline(always)]
    fn add_branch(&mut self, here: ThisCpu<'_>, from: u64, to: u64, details: Details) {
        if details.is_executed() {
            // Put in parts, which makes shorter code than a structure does.
            self.put(from);
            self.put(to);
            self.put(details.info(here));
        }
    }
}

/// Adds each branch in the records that the user may see to `sink`, the newest first. Returns the number of the newest
/// register.
#[inline(always)]
fn for_each(here: ThisCpu<'_>, pmu: &Pmu, sink: &mut impl BranchSink) -> u32 {
    let kernel_bit = here.percpu().branches.kernel_bit.get();
    // The filter looks at the target only, so a return to the program passes it, although its source is a kernel
    // address.
    let is_visible = move |from: u64, to: u64| (from | to) & kernel_bit == 0;
    match pmu.capabilities.last_branch {
        None => 0,
        Some(BranchRecords::OldStack(old)) => {
            let flags = old.flags();
            for_each_in_stack::<{ OldStack::DEPTH }>(here, |_, from, to| {
                let details = Details::Flags(lbr::flags_of_address(from, flags));
                let from = lbr::without_flags(from, flags);
                if is_visible(from, to) {
                    sink.add_branch(here, from, to, details);
                }
            })
        }
        Some(BranchRecords::Stack) => {
            for_each_in_stack::<{ BranchRecords::STACK_DEPTH }>(here, |n, from, to| {
                if is_visible(from, to) {
                    sink.add_branch(here, from, to, Details::Stack(Msr::lbr_info(n)));
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
                    let details = Details::Architectural(Msr::arch_lbr_info(n));
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
            for_each_of_amd(here, depth, address_bits, |branch| {
                let (from, to) = (branch.from, branch.to);
                if is_visible(from, to) {
                    sink.add_branch(here, from, to, Details::Amd(branch));
                }
            });
            0
        }
    }
}

/// Calls `f` with the number and the registers of each branch in Intel's stack, the newest first. Returns the number of
/// the newest.
#[inline(always)]
fn for_each_in_stack<const DEPTH: u32>(here: ThisCpu<'_>, mut f: impl FnMut(u32, u64, u64)) -> u32 {
    let newest = msr::read(here, Msr::LBR_TOS) as u32;
    // From the newest downwards, and around the end of the stack.
    let mut remaining = DEPTH;
    while remaining != 0 {
        let n = newest.wrapping_add(remaining) % DEPTH;
        let from = msr::read(here, Msr::lbr_from(n));
        if from == 0 {
            // The stack has not been filled since it was emptied.
            break;
        }
        f(n, from, msr::read(here, Msr::lbr_to(n)));
        remaining = remaining.wrapping_sub(1);
    }
    newest
}

/// Calls `f` with each of AMD's records that has a branch, the newest first.
#[inline(always)]
fn for_each_of_amd(here: ThisCpu<'_>, depth: u8, address_bits: u8, mut f: impl FnMut(AmdBranch)) {
    for n in 0..u32::from(depth) {
        let from = msr::read(here, Msr::amd_lbr_from(n));
        let to = msr::read(here, Msr::amd_lbr_to(n));
        if let Some(branch) = AmdBranch::decode(from, to, address_bits.into()) {
            f(branch);
        }
    }
}

/// Calls `put` with the words of each branch in the records, the newest first. Not for AMD's, which are no call stack.
pub(crate) fn save_records(here: ThisCpu<'_>, put: impl FnMut([u64; 3])) {
    struct Words<F>(F);

    impl<F: FnMut([u64; 3])> BranchSink for Words<F> {
        #[inline(always)]
        fn add_branch(&mut self, here: ThisCpu<'_>, from: u64, to: u64, details: Details) {
            (self.0)([from, to, details.register(here)]);
        }
    }

    for_each(here, here.pmu(), &mut Words(put));
}

/// Fills the records, which are empty, with the words of [`save_records`].
pub(crate) fn restore_records(here: ThisCpu<'_>, words: &[u64]) {
    let count = (words.len() / 3) as u32;
    let records = here.pmu().capabilities.last_branch;
    let is_stack = matches!(
        records,
        Some(BranchRecords::OldStack(_) | BranchRecords::Stack)
    );
    if is_stack && count != 0 {
        msr::write(here, Msr::LBR_TOS, count.wrapping_sub(1).into());
    }
    for (branch, n) in words.chunks_exact(3).zip(0..count) {
        let registers = if is_stack {
            let n = count.wrapping_sub(n).wrapping_sub(1);
            [Msr::lbr_from(n), Msr::lbr_to(n), Msr::lbr_info(n)]
        } else {
            [
                Msr::arch_lbr_from(n),
                Msr::arch_lbr_to(n),
                Msr::arch_lbr_info(n),
            ]
        };
        // An old stack has no register for the details.
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
    /// The number of the newest register.
    pub(crate) newest: u32,
}

/// Reads the branches for a sample. `parts` is the mask of the flags that the sample has.
///
/// # Safety
///
/// To be called in this CPU's overflow handler, once until the result has gone.
#[cold]
#[inline(never)]
pub(crate) unsafe fn read<'a>(here: ThisCpu<'a>, pmu: &Pmu, parts: u64) -> SampledStack<'a> {
    repair(here, pmu);
    // SAFETY: The caller is the overflow handler, and does not call this again until the result has gone, so nothing
    // else has the words.
    let room = unsafe { here.percpu().branches.stack.words() };
    let mut sampled_branches = SampledBranches {
        room,
        used_words: 0,
        parts,
    };
    let newest = for_each(here, pmu, &mut sampled_branches);
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
    /// The mask of the flags that the sample has.
    parts: u64,
}

impl BranchSink for SampledBranches<'_> {
    #[inline(always)]
    fn add_branch(&mut self, here: ThisCpu<'_>, from: u64, to: u64, details: Details) {
        let flags = if self.parts != 0 {
            details.flags(here) & self.parts
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
