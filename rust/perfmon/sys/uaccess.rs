// SPDX-License-Identifier: GPL-2.0-only
//! Copies structures of the ABI from and to programs.
//!
//! `kernel::uaccess::UserSlice` is not used, since it takes some 30 instructions more for a copy.

use crate::sys::{error::to_result, ffi};
use core::ptr;
use kernel::{bindings, prelude::*};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Returns whether a `T` is two words, as PMIOREAD's argument is. Two words are copied faster than
/// other sizes.
const fn is_two_words<T>() -> bool {
    size_of::<T>() == 16 && align_of::<T>() == align_of::<u64>()
}

/// Returns the `T` at the program's address `from`.
#[inline(always)]
pub(crate) fn get<T: FromBytes>(from: usize) -> Result<T> {
    let mut value = T::new_zeroed();
    copy_from_user(&mut value, from)?;
    Ok(value)
}

/// Returns the `T` at the program's address `from`, on the heap.
pub(crate) fn get_boxed<T: FromBytes>(from: usize) -> Result<KBox<T>> {
    let mut value = KBox::new(T::new_zeroed(), GFP_KERNEL_ACCOUNT)?;
    copy_from_user(&mut *value, from)?;
    Ok(value)
}

/// Copies the `T` at the program's address `from` to `value`.
#[inline(always)]
pub(crate) fn copy_from_user<T: FromBytes>(value: &mut T, from: usize) -> Result {
    if is_two_words::<T>() {
        // SAFETY: The function requires room for two words, and checks `from`: `value` is two words, which by
        // `FromBytes` may hold any bytes.
        return to_result(unsafe {
            ffi::perfmon_copy_from_user_16(ptr::from_mut(value).cast(), from)
        });
    }
    // SAFETY: The function requires room for `size_of::<T>()` bytes, and checks `from`: `value` has that size, and by
    // `FromBytes` may hold any bytes.
    let bytes_left = unsafe {
        bindings::_copy_from_user(
            ptr::from_mut(value).cast(),
            ptr::without_provenance(from),
            size_of::<T>(),
        )
    };
    check_all_copied(bytes_left)
}

/// Copies a structure of `size` bytes at the program's address `from` to `value`. If the structure is shorter than a
/// `T`, the rest of `value` becomes 0.
///
/// # Errors
///
/// E2BIG if the structure is longer than a `T`, and the bytes behind the size of a `T` are not 0.
/// EFAULT if the address is bad.
pub(crate) fn copy_struct_from_user<T: FromBytes>(
    value: &mut T,
    from: usize,
    size: usize,
) -> Result {
    // SAFETY: The function requires room for `size_of::<T>()` bytes, and checks `from`: `value` has that size, and by
    // `FromBytes` may hold any bytes.
    to_result(unsafe {
        ffi::perfmon_copy_struct(ptr::from_mut(value).cast(), size_of::<T>(), from, size)
    })
}

/// Returns the number at the program's address `from`.
pub(crate) fn get_u32(from: usize) -> Result<u32> {
    let mut value = 0;
    // SAFETY: The function requires room for a word, which `value` is, and checks `from`.
    to_result(unsafe { ffi::perfmon_get_u32(&mut value, from) })?;
    Ok(value)
}

/// Copies a number to the program's address `to`.
pub(crate) fn put_u32(to: usize, value: u32) -> Result {
    // SAFETY: The function has no preconditions: it checks `to`, and takes the word as a value.
    to_result(unsafe { ffi::perfmon_put_u32(to, value) })
}

/// Copies words to the program's address `to`.
#[inline(always)]
pub(crate) fn put_words(to: usize, words: &[u64]) -> Result {
    // SAFETY: The function requires `words.len()` words at the pointer, which points to `words`,
    // and checks `to`.
    to_result(unsafe { ffi::perfmon_put_words(to, words.as_ptr(), words.len()) })
}

/// Copies `value` to the program's address `to`.
#[inline(always)]
pub(crate) fn put<T: IntoBytes + Immutable>(to: usize, value: &T) -> Result {
    if is_two_words::<T>() {
        // SAFETY: The function requires two initialized words, which `value` is by `IntoBytes`, and checks `to`.
        return to_result(unsafe { ffi::perfmon_copy_to_user_16(to, ptr::from_ref(value).cast()) });
    }
    // SAFETY: The function requires `size_of::<T>()` initialized bytes, which `value` has by `IntoBytes`, and checks
    // `to`.
    let bytes_left = unsafe {
        bindings::_copy_to_user(
            ptr::without_provenance_mut(to),
            ptr::from_ref(value).cast(),
            size_of::<T>(),
        )
    };
    check_all_copied(bytes_left)
}

/// Returns EFAULT if a copy has left out bytes.
#[inline(always)]
fn check_all_copied(bytes_left: usize) -> Result {
    if bytes_left == 0 {
        Ok(())
    } else {
        Err(EFAULT)
    }
}
