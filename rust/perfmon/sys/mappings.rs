// SPDX-License-Identifier: GPL-2.0-only
//! Kprobes that report what programs map, on kernels that allow them.

use super::{error::to_result, ffi};
use crate::logic::mapping::{Mapping, NAME_WORDS};
use core::{
    mem::MaybeUninit,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};
use kernel::{bindings, prelude::*};

/// Not 0 if the kernel has what [`begin`] needs.
///
/// ATOMICS: relaxed. It is written once, before programs can open the device.
static HAS_PROBES: AtomicU32 = AtomicU32::new(0);

/// Finds out whether the kernel has what [`begin`] needs. For the beginning of the module; sleeps.
pub(crate) fn check() {
    // SAFETY: The module is being loaded by a task that may sleep, and the probes have no other user yet.
    let result = unsafe { ffi::perfmon_mappings_check() };
    HAS_PROBES.store((result == 0).into(), Relaxed);
}

/// Returns whether the kernel has what [`begin`] needs.
pub(crate) fn are_available() -> bool {
    HAS_PROBES.load(Relaxed) != 0
}

/// Calls `mapped` after each mapping or change of one, and `begins` when the credentials of a program that is executed
/// are known and nothing of the program is mapped yet. Both run in the task that maps or executes, with interrupts off.
/// Sleeps.
///
/// # Errors
///
/// ENOMEM, or EOPNOTSUPP, ENOENT or EINVAL if the kernel has no kprobes for that.
///
/// # Safety
///
/// To be called by a task that may sleep, and not again before [`end`].
pub(crate) unsafe fn begin(
    mapped: unsafe extern "C" fn(*mut bindings::vm_area_struct),
    begins: unsafe extern "C" fn(*mut bindings::linux_binprm),
) -> Result {
    // SAFETY: The caller may sleep, and has called `end` after each earlier call of this.
    to_result(unsafe { ffi::perfmon_mappings_begin(Some(mapped), Some(begins)) })
}

/// Ends the calls that [`begin`] began: none is under way when this returns. May sleep.
///
/// # Safety
///
/// To be called once after each successful [`begin`], by a task that may sleep.
pub(crate) unsafe fn end() {
    // SAFETY: The caller has called `begin` before, and may sleep.
    unsafe { ffi::perfmon_mappings_end() };
}

/// Describes what the current task has just mapped, and writes the name to `name`. Returns the mapping and the words of
/// the name.
///
/// # Safety
///
/// To be called in `mapped` of [`begin`] with its argument.
pub(crate) unsafe fn describe<'n>(
    area: *mut bindings::vm_area_struct,
    name: &'n mut [u64; NAME_WORDS],
) -> (Mapping, &'n [u64]) {
    let mut raw = MaybeUninit::<ffi::perfmon_mapping>::uninit();
    // SAFETY: The kernel gives `mapped` the area that has been mapped, which stays until that returns. There is room for
    // 4096 bytes of name.
    let size =
        unsafe { ffi::perfmon_mapping_describe(area, raw.as_mut_ptr(), name.as_mut_ptr().cast()) };
    // SAFETY: `perfmon_mapping_describe()` has written the whole structure.
    let raw = unsafe { raw.assume_init() };
    let mapping = Mapping {
        start: raw.start,
        size: raw.size,
        offset: raw.offset,
        device: [raw.major, raw.minor],
        inode: raw.inode,
        generation: raw.generation,
        protection: raw.protection,
        flags: raw.flags,
    };
    let words = name.get(..size / size_of::<u64>()).unwrap_or(&[]);
    (mapping, words)
}
