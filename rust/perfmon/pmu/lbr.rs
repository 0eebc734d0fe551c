// SPDX-License-Identifier: GPL-2.0-only
//! Last branch records (Intel SDM, volume 3B, chapter 18): the stack of 32 in cores from Skylake to Rocket Lake.
//!
//! Hardware freezes the stack when it raises an overflow interrupt, so that the stack shows what came before. From
//! version 4 on a bit of `IA32_PERF_GLOBAL_STATUS` says so, and clearing it unfreezes the stack. Before version 4
//! freezing clears the enable bit, which has to be set again.

use crate::{
    abi,
    cpu::{msr, ThisCpu},
    logic::{
        branches::{is_call_stack, Branches},
        lbr::{self, DEBUGCTL_FREEZE, DEBUGCTL_LBR, DEPTH},
        plan::Step,
        pmu::Pmu,
        regs::Msr,
    },
    percpu::{buffer::Writer, SLOW_BRANCHES},
};

/// The bits of `IA32_DEBUGCTL` that are used.
const OURS: u64 = DEBUGCTL_LBR | DEBUGCTL_FREEZE;

/// Returns these bits while branches are recorded that pass the filter. A call stack is not frozen: it would miss the
/// returns meanwhile, and that of user mode does not change in the kernel.
fn enabled(filter: u64) -> u64 {
    if is_call_stack(filter) {
        DEBUGCTL_LBR
    } else {
        OURS
    }
}

/// Starts to record such branches, with an empty stack, also if that is being done: all users at one time want the same
/// branches, and none gets those before.
pub(crate) fn start(here: ThisCpu<'_>, branches: Branches) {
    let percpu = here.percpu();
    let saved = &percpu.branches;
    saved.users.increment();
    if saved.users.get() != 1 {
        // What it has is of what ran before.
        return clear(here);
    }
    saved.debugctl.set(msr::read(here, Msr::DEBUGCTL));
    saved.select.set(msr::read(here, Msr::LBR_SELECT));
    saved.kernel_bit.set(branches.kernel_bit);
    saved.filter.set(branches.filter);
    restart(here);
}

/// Enables an empty stack.
fn restart(here: ThisCpu<'_>) {
    let percpu = here.percpu();
    msr::change(here, &Step::change(Msr::DEBUGCTL, OURS, 0));
    let filter = percpu.branches.filter.get();
    msr::write(here, Msr::LBR_SELECT, filter);
    clear(here);
    // Before the stack is enabled: from then on the handler has to unfreeze it.
    percpu.slow_path.insert(SLOW_BRANCHES);
    msr::change(here, &Step::change(Msr::DEBUGCTL, OURS, enabled(filter)));
}

/// Empties the stack.
pub(crate) fn clear(here: ThisCpu<'_>) {
    for n in 0..DEPTH {
        msr::write(here, Msr::lbr_from(n), 0);
        msr::write(here, Msr::lbr_to(n), 0);
    }
}

/// Ends [`start`]. The last one restores the registers, and empties the stack, so that nothing is left for others to
/// read.
pub(crate) fn stop(here: ThisCpu<'_>, pmu: &Pmu) {
    let percpu = here.percpu();
    let saved = &percpu.branches;
    saved.users.decrement();
    if saved.users.get() != 0 {
        return;
    }
    unfreeze(here, pmu);
    msr::change(here, &Step::change(Msr::DEBUGCTL, OURS, 0));
    // A disabled stack is not frozen any more.
    percpu.slow_path.remove(SLOW_BRANCHES);
    clear(here);
    msr::write(here, Msr::LBR_SELECT, saved.select.get());
    msr::change(
        here,
        &Step::change(Msr::DEBUGCTL, OURS, saved.debugctl.get()),
    );
}

/// Unfreezes the stack.
pub(crate) fn unfreeze(here: ThisCpu<'_>, pmu: &Pmu) {
    msr::change(here, &pmu.registers.unfreeze_branches());
}

/// Checks that branches are still recorded, and repairs the registers: a BPF program that calls
/// `bpf_get_branch_snapshot()` disables the stack for ever. The branches in a stack that was disabled are of an
/// unknown time, so it is emptied.
pub(crate) fn repair(here: ThisCpu<'_>, pmu: &Pmu) {
    let percpu = here.percpu();
    let filter = percpu.branches.filter.get();
    let enabled = enabled(filter);
    // Before version 4 the PMI clears the enable bit when it freezes the stack.
    let lasting = if pmu.registers.has_freeze_status || enabled != OURS {
        enabled
    } else {
        DEBUGCTL_FREEZE
    };
    let intact = msr::read(here, Msr::DEBUGCTL) & lasting == lasting
        && msr::read(here, Msr::LBR_SELECT) == filter;
    if !intact {
        if percpu.trace.branching.get() != 0 {
            percpu.trace.mark_lost();
        }
        restart(here);
    }
}

/// Writes a LAST_BRANCH record, and returns the writer.
pub(crate) fn write_record(
    here: ThisCpu<'_>,
    pmu: &Pmu,
    mut writer: Writer,
    header: abi::perfmon_record_header,
    aspace: u64,
) -> Writer {
    repair(here, pmu);
    let start = writer.skip(size_of::<lbr::Head>());
    let first = writer.end();
    for_each(here, |n, from, to| {
        // A branch in parts, which makes shorter code than a structure.
        writer.put(from);
        writer.put(to);
        let (low, high) = msr::read_halves(here, Msr::lbr_info(n));
        writer.put(lbr::info(low, high));
    });
    let bytes = writer.end().wrapping_sub(first);
    writer.put_at(
        start,
        lbr::Head {
            header,
            num_branches: (bytes / size_of::<abi::perfmon_last_branch>()) as u32,
            aspace,
        },
    );
    writer
}

/// Calls `f` with the number and both addresses of each branch in the stack that may be told, the newest first. Returns
/// the number of the newest register.
#[inline(always)]
fn for_each(here: ThisCpu<'_>, mut f: impl FnMut(u32, u64, u64)) -> u32 {
    let kernel_bit = here.percpu().branches.kernel_bit.get();
    let newest = msr::read(here, Msr::LBR_TOS) as u32;
    // Downwards and around.
    let mut left = DEPTH;
    while left != 0 {
        let n = newest.wrapping_add(left) % DEPTH;
        let from = msr::read(here, Msr::lbr_from(n));
        if from == 0 {
            // The stack has not been filled since it was emptied.
            break;
        }
        let to = msr::read(here, Msr::lbr_to(n));
        // LBR_SELECT filters by the target only: a return to the program shows where the kernel was.
        if (from | to) & kernel_bit == 0 {
            f(n, from, to);
        }
        left = left.wrapping_sub(1);
    }
    newest
}

/// Calls `put` with the words of each branch in the stack, the newest first.
pub(crate) fn save(here: ThisCpu<'_>, mut put: impl FnMut([u64; 3])) {
    for_each(here, |n, from, to| {
        put([from, to, msr::read(here, Msr::lbr_info(n))]);
    });
}

/// Fills the stack, which is empty, with the words of [`save`].
pub(crate) fn restore(here: ThisCpu<'_>, words: &[u64]) {
    let mut n = (words.len() / 3) as u32;
    if n == 0 {
        return;
    }
    msr::write(here, Msr::LBR_TOS, n.wrapping_sub(1).into());
    for branch in words.chunks_exact(3) {
        n = n.wrapping_sub(1);
        if let [from, to, info] = *branch {
            msr::write(here, Msr::lbr_from(n), from);
            msr::write(here, Msr::lbr_to(n), to);
            msr::write(here, Msr::lbr_info(n), info);
        }
    }
}

/// The branches of a sample.
pub(crate) struct Stack<'a> {
    /// The addresses and the flags of each branch, the newest first.
    pub(crate) words: &'a [u64],
    /// The number of the newest register.
    pub(crate) newest: u32,
}

/// Reads the branches for a sample, with mispredictions and cycles or without.
///
/// # Safety
///
/// To be called in this CPU's overflow handler, once until the result has gone.
#[cold]
#[inline(never)]
pub(crate) unsafe fn read<'a>(here: ThisCpu<'a>, pmu: &Pmu, info: bool) -> Stack<'a> {
    repair(here, pmu);
    // SAFETY: The caller is the overflow handler, once until the result has gone.
    let stack = unsafe { here.percpu().branches.stack.words() };
    let mut used: usize = 0;
    let newest = for_each(here, |n, from, to| {
        let flags = if info {
            lbr::flags(msr::read(here, Msr::lbr_info(n)))
        } else {
            0
        };
        let room = stack.get_mut(used..).and_then(<[u64]>::first_chunk_mut);
        if let Some(room) = room {
            *room = [from, to, flags];
            used = used.wrapping_add(room.len());
        }
    });
    Stack {
        words: stack.get(..used).unwrap_or(&[]),
        newest,
    }
}
