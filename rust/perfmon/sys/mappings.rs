// SPDX-License-Identifier: GPL-2.0-only
//! Kprobes that report what programs map, on kernels that allow them.

use super::{error::to_result, ffi};
use crate::logic::mapping::{Mapping, NAME_WORDS};
use core::{
    mem::MaybeUninit,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};
use kernel::{bindings, prelude::*};

/// 0 if the kernel lacks functions that [`begin`] probes, otherwise 1.
///
/// ATOMICS: relaxed. The word is written once, before programs can open the device.
static HAS_PROBES: AtomicU32 = AtomicU32::new(0);

/// Finds out whether the kernel has the functions that [`begin`] probes. To be called while the module is being loaded.
/// Sleeps.
pub(crate) fn check() {
    // SAFETY: The function requires a caller that may sleep, and probes that are not registered: the task that loads the
    // module may sleep, and `begin` is not called before the module is loaded.
    let result = unsafe { ffi::perfmon_mappings_check() };
    // Without memory for the look-up, the kernel may still have the functions: `begin` finds that
    // out later.
    let has_probes = result == 0 || result == ENOMEM.to_errno();
    HAS_PROBES.store(has_probes.into(), Relaxed);
}

/// Returns whether the kernel has the functions that [`begin`] probes.
pub(crate) fn has_probes() -> bool {
    HAS_PROBES.load(Relaxed) != 0
}

/// Makes the kernel call `on_map` after each mapping or change of a mapping, and `on_exec` in each
/// exec, when the credentials of the new program are known and nothing of the program is mapped
/// yet. Both are called in the task that maps or executes, with interrupts off. Sleeps.
///
/// # Errors
///
/// ENOMEM if there is no memory. EOPNOTSUPP, ENOENT or EINVAL if the kernel has no kprobes, or can't probe the
/// functions.
///
/// # Safety
///
/// To be called by a task that may sleep, and not again before [`end`].
pub(crate) unsafe fn begin(
    on_map: unsafe extern "C" fn(*mut bindings::vm_area_struct),
    on_exec: unsafe extern "C" fn(*mut bindings::linux_binprm),
) -> Result {
    // SAFETY: The function sleeps, and registers probes that must not be registered: the caller may sleep, and has
    // called `end` after each earlier call of this.
    to_result(unsafe { ffi::perfmon_mappings_begin(Some(on_map), Some(on_exec)) })
}

/// Undoes [`begin`]. Neither of its functions is under way when this returns. Sleeps.
///
/// # Safety
///
/// To be called once after each successful [`begin`], by a task that may sleep.
pub(crate) unsafe fn end() {
    // SAFETY: The function sleeps, and unregisters probes that must be registered: the caller may sleep, and has called
    // `begin` before.
    unsafe { ffi::perfmon_mappings_end() };
}

/// Describes the area that the current task has just mapped, and writes its name to `name`. Returns the mapping and the
/// words of the name.
///
/// # Safety
///
/// To be called in `on_map` of [`begin`] with its argument.
pub(crate) unsafe fn describe<'n>(
    area: *mut bindings::vm_area_struct,
    name: &'n mut [u64; NAME_WORDS],
) -> (Mapping, &'n [u64]) {
    let mut raw = MaybeUninit::<ffi::perfmon_mapping>::uninit();
    // SAFETY: The function requires an area that was just mapped, and room for a name of 4096 bytes: the caller passes
    // the argument of `on_map`, which stays mapped until that returns, and `name` has `NAME_WORDS` words, 4096 bytes.
    let size =
        unsafe { ffi::perfmon_mapping_describe(area, raw.as_mut_ptr(), name.as_mut_ptr().cast()) };
    // SAFETY: `assume_init` requires an initialized structure: `perfmon_mapping_describe()` has written all of it.
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
