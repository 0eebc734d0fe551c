// SPDX-License-Identifier: GPL-2.0-only
//! Copying the ABI's structures from and to programs.

use crate::{error::to_result, ffi};
use core::ptr;
use kernel::{bindings, prelude::*};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Whether a `T` is two words, for which there is a shorter way: PMIOREAD's argument is.
const fn is_two_words<T>() -> bool {
    size_of::<T>() == 16 && align_of::<T>() == align_of::<u64>()
}

/// Copies a value in from the program's address `from`.
#[inline(always)]
pub(crate) fn get<T: FromBytes>(from: usize) -> Result<T> {
    let mut value = T::new_zeroed();
    fill(&mut value, from)?;
    Ok(value)
}

/// Copies a value in from the program's address `from`, to the heap.
pub(crate) fn get_boxed<T: FromBytes>(from: usize) -> Result<KBox<T>> {
    let mut value = KBox::new(T::new_zeroed(), GFP_KERNEL_ACCOUNT)?;
    fill(&mut *value, from)?;
    Ok(value)
}

/// As [`get`], in place.
#[inline(always)]
pub(crate) fn fill<T: FromBytes>(value: &mut T, from: usize) -> Result {
    if is_two_words::<T>() {
        // SAFETY: `value` has two words that can be written, and by `FromBytes` with anything.
        return to_result(unsafe { ffi::perfmon_get_16(ptr::from_mut(value).cast(), from) });
    }
    // SAFETY: `value` has so many bytes, and by `FromBytes` may hold anything. The function looks at
    // `from` itself.
    let missing = unsafe {
        bindings::_copy_from_user(
            ptr::from_mut(value).cast(),
            ptr::without_provenance(from),
            size_of::<T>(),
        )
    };
    all_copied(missing)
}

/// Copies a value out to the program's address `to`.
#[inline(always)]
pub(crate) fn put<T: IntoBytes + Immutable>(to: usize, value: &T) -> Result {
    if is_two_words::<T>() {
        // SAFETY: `value` has two words that can be read: by `IntoBytes` all of it is initialized.
        return to_result(unsafe { ffi::perfmon_put_16(to, ptr::from_ref(value).cast()) });
    }
    // SAFETY: `value` has so many bytes, by `IntoBytes` all initialized. The function looks at `to`
    // itself.
    let missing = unsafe {
        bindings::_copy_to_user(
            ptr::without_provenance_mut(to),
            ptr::from_ref(value).cast(),
            size_of::<T>(),
        )
    };
    all_copied(missing)
}

/// The result of a copy that has left out `missing` bytes.
#[inline(always)]
fn all_copied(missing: usize) -> Result {
    if missing == 0 {
        Ok(())
    } else {
        Err(EFAULT)
    }
}
