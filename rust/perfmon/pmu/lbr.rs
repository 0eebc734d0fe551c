// SPDX-License-Identifier: GPL-2.0-only
//! Last branch records (Intel SDM, volume 3B, chapter 18): the stack of 32 that cores from Skylake to
//! Rocket Lake have.
//!
//! The stack is frozen when an overflow interrupt is raised, so that it tells what came before. From
//! version 4 on a bit of `IA32_PERF_GLOBAL_STATUS` says so, and clearing it goes on; before, the enable bit
//! is cleared, and has to be set again.

use super::Model;
use crate::{
    abi,
    buffer::Writer,
    cpu::{ThisCpu, Word, HEED_BRANCHES},
    logic::{
        evtsel::EventSelect,
        lbr::{self, DEBUGCTL_FREEZE, DEBUGCTL_LBR, DEPTH},
        plan::Step,
        regs::Msr,
    },
    msr,
};

/// What the registers held before, and how they are used now.
pub(crate) struct Saved {
    debugctl: Word,
    select: Word,
    /// What `MSR_LBR_SELECT` holds while branches are recorded.
    filter: Word,
    /// What addresses have in common that must not be told: a bit, or none.
    hidden: Word,
}

const OURS: u64 = DEBUGCTL_LBR | DEBUGCTL_FREEZE;

/// Begins to record branches in the modes of `select`, on a stack that holds none.
pub(crate) fn start(here: &ThisCpu, saved: &Saved, select: EventSelect) {
    saved.debugctl.set(msr::read(here, Msr::DEBUGCTL));
    saved.select.set(msr::read(here, Msr::LBR_SELECT));
    saved.hidden.set(lbr::kernel_bit_mask(select));
    msr::change(here, &Step::change(Msr::DEBUGCTL, OURS, 0));
    saved.filter.set(lbr::filter(select));
    msr::write(here, Msr::LBR_SELECT, lbr::filter(select));
    clear(here);
    // From here on the handler lets a frozen stack go on.
    here.slot().heed.insert(HEED_BRANCHES);
    msr::change(here, &Step::change(Msr::DEBUGCTL, OURS, OURS));
}

/// Empties the stack.
fn clear(here: &ThisCpu) {
    for n in 0..DEPTH {
        msr::write(here, Msr::lbr_from(n), 0);
        msr::write(here, Msr::lbr_to(n), 0);
    }
}

/// Puts the registers back. The stack holds nothing that somebody else could read.
pub(crate) fn stop(here: &ThisCpu, model: &Model, saved: &Saved) {
    unfreeze(here, model);
    msr::change(here, &Step::change(Msr::DEBUGCTL, OURS, 0));
    // No interrupt freezes it any more.
    here.slot().heed.remove(HEED_BRANCHES);
    clear(here);
    msr::write(here, Msr::LBR_SELECT, saved.select.get());
    msr::change(
        here,
        &Step::change(Msr::DEBUGCTL, OURS, saved.debugctl.get()),
    );
}

/// Lets a frozen stack go on.
pub(crate) fn unfreeze(here: &ThisCpu, model: &Model) {
    msr::change(here, &model.registers.unfreeze_branches());
}

/// Looks at the registers by which branches are recorded: others switch that off (a BPF program that calls
/// `bpf_get_branch_snapshot()` does, for ever). What the stack holds then is of an unknown time: it is
/// emptied, so that it is not told.
pub(crate) fn look(here: &ThisCpu, model: &Model) {
    let slot = here.slot();
    // Before version 4 the PMI clears the enable bit when it freezes the stack.
    let wanted = if model.registers.has_freeze_status {
        OURS
    } else {
        DEBUGCTL_FREEZE
    };
    let filter = slot.recorder.lbr.filter.get();
    if msr::read(here, Msr::DEBUGCTL) & wanted == wanted
        && msr::read(here, Msr::LBR_SELECT) == filter
    {
        return;
    }
    start_again(here, filter);
}

#[cold]
fn start_again(here: &ThisCpu, filter: u64) {
    here.slot().recorder.lose();
    msr::change(here, &Step::change(Msr::DEBUGCTL, OURS, 0));
    msr::write(here, Msr::LBR_SELECT, filter);
    clear(here);
    msr::change(here, &Step::change(Msr::DEBUGCTL, OURS, OURS));
}

/// Writes a LAST_BRANCH record, and gives the writer back.
pub(crate) fn write(
    here: &ThisCpu,
    model: &Model,
    mut writer: Writer,
    header: abi::perfmon_record_header,
    aspace: u64,
) -> Writer {
    look(here, model);
    let start = writer.skip(size_of::<lbr::Head>());
    let first = writer.end();
    let hidden = here.slot().recorder.lbr.hidden.get();
    let newest = msr::read(here, Msr::LBR_TOS) as u32;
    // Newest first, downwards and around.
    let mut left = DEPTH;
    while left != 0 {
        let n = newest.wrapping_add(left) % DEPTH;
        let from = msr::read(here, Msr::lbr_from(n));
        if from == 0 {
            // So many have not been there yet.
            break;
        }
        let to = msr::read(here, Msr::lbr_to(n));
        // The filter looks at the target only: a return from the kernel tells where that was.
        if (from | to) & hidden == 0 {
            // A branch of the record, in parts, for it is the shorter code.
            writer.put(from);
            writer.put(to);
            let (low, high) = msr::read_halves(here, Msr::lbr_info(n));
            writer.put(lbr::info(low, high));
        }
        left = left.wrapping_sub(1);
    }
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
