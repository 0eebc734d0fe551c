// SPDX-License-Identifier: GPL-2.0-only
//! The owners of the counters: Linux perf or the module, and within the module a counting session, the trace, or
//! events.
//!
//! [`OWNERSHIP`] is the one lock for everything that descriptors share. Tasks and hotplug callbacks take it, and hold
//! it while they call other CPUs. It is a spinlock: its holder is not preempted, so no program ever waits for a
//! holder that does not get to run. (The holder of an `rt_mutex` inherits the priorities of real-time tasks only, so
//! normal programs could wait for a preempted task of `SCHED_IDLE`.) Nothing sleeps under the lock, and no memory is
//! allocated. The lock is never taken with interrupts off, so a CPU that waits for it answers the calls of its
//! holder.
//!
//! Before counters can be used, the CPUs are cleaned of perf's dirty counters. That sleeps, so it is done before the
//! lock is taken ([`lock_reserved`]).

mod branches;
mod claimant;
mod client;
mod cpus;
mod dirty;
mod extra;
mod get_owner;
mod memory;
mod owner;
#[allow(clippy::module_inception, reason = "what the folder is about")]
mod ownership;
mod perf_exclusion;
mod perf_type;
mod place_holder;
pub(crate) mod policy;
mod refusal;
mod reservation;
mod sharing;

pub(crate) use self::{
    client::Client,
    cpus::has_incapable_cpu,
    dirty::{clean_dirty_counters_here, DirtyCounterCleaner},
    get_owner::get_owner,
    memory::Charge,
    owner::{CountingSetup, SessionId},
    ownership::{Ownership, OwnershipGuard, OWNERSHIP},
    perf_type::perf_type,
    place_holder::{wait_for_place_holder_end, PlaceHolders, PLACE_HOLDERS},
    refusal::Refusal,
    reservation::Reservation,
    sharing::EventPlace,
};

use crate::pmu;
use core::mem;
use kernel::prelude::*;

/// Takes the lock, with the counters reserved and the CPUs claimed, so that the caller can give counters to an owner.
/// A caller that fails afterwards calls [`cancel_reservation`].
///
/// `check` is called under the lock before anything is reserved. If reserving has to release the lock, `check` is
/// called once more, so that its result still holds when this returns.
///
/// # Errors
///
/// The errors of `check`. EBUSY if Linux perf uses a counter, or a real-time program keeps a CPU from being cleaned:
/// the log names the register or the CPU. ENOMEM if there is no memory.
#[inline(always)]
pub(crate) fn lock_reserved(check: impl Fn(&Ownership) -> Result) -> Result<OwnershipGuard> {
    let ownership = OWNERSHIP.lock();
    check(&ownership)?;
    if ownership.is_claimed() {
        return Ok(ownership);
    }
    let ownership = reserve(ownership)?;
    match check(&ownership) {
        Ok(()) => Ok(ownership),
        Err(error) => {
            cancel_reservation(ownership);
            Err(error)
        }
    }
}

/// Gives all counters to Linux perf, unless a counter has an owner. For a caller that has failed
/// after reserving the counters. Perf can use them when this returns. Sleeps.
pub(crate) fn cancel_reservation(mut ownership: OwnershipGuard) {
    ownership.release_if_unused();
    drop(ownership);
    place_holder::wait_for_place_holder_end();
}

/// Calls `f` under the lock, which [`lock_reserved`] takes. Cancels the reservation if `f` fails.
///
/// # Errors
///
/// The errors of [`lock_reserved`] and of `f`.
pub(crate) fn with_reserved<R>(
    check: impl Fn(&Ownership) -> Result,
    f: impl FnOnce(&mut Ownership) -> Result<R>,
) -> Result<R> {
    let mut ownership = lock_reserved(check)?;
    let result = f(&mut ownership);
    if result.is_err() {
        cancel_reservation(ownership);
    }
    result
}

/// Reserves the counters, cleans the CPUs, and claims them. Releases the lock meanwhile.
///
/// Each caller cleans the CPUs itself instead of waiting for another caller, which may not get to run. Cleaning twice
/// does no harm.
///
/// # Errors
///
/// EBUSY or ENOMEM, as from [`lock_reserved`].
#[cold]
#[inline(never)]
fn reserve(ownership: OwnershipGuard) -> Result<OwnershipGuard> {
    reserve_quietly(ownership).map_err(|refusal| {
        let was_logged = mem::replace(&mut OWNERSHIP.lock().refusal_logged, true);
        if !was_logged {
            refusal.log();
        }
        refusal.error()
    })
}

/// Does what [`reserve`] does, without logging why the counters can't be used.
///
/// # Errors
///
/// The user of the counters, or [`Refusal::Other`] if the CPUs can't be cleaned.
pub(crate) fn reserve_quietly(ownership: OwnershipGuard) -> Result<OwnershipGuard, Refusal> {
    clean_and_claim(ownership).inspect_err(|refusal| {
        OWNERSHIP.lock().was_refused = refusal.is_by_others();
    })
}

/// Does what [`reserve_quietly`] does, without noting whether others use the counters.
fn clean_and_claim(mut ownership: OwnershipGuard) -> Result<OwnershipGuard, Refusal> {
    match pmu::common().place_holder {
        None => {
            let result = ownership.begin_cleaning();
            drop(ownership);
            result?;
        }
        Some(counter) => {
            drop(ownership);
            place_holder::begin_cleaning(counter)?;
        }
    }
    let clean_result = dirty::clean_dirty_counters();
    let mut ownership = OWNERSHIP.lock();
    ownership.end_cleaning();
    match clean_result {
        Ok(()) => {
            ownership.claim();
            Ok(ownership)
        }
        Err(error) => {
            cancel_reservation(ownership);
            Err(Refusal::Other(error))
        }
    }
}
