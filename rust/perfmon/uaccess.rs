// SPDX-License-Identifier: GPL-2.0-only
//! Copying the ABI's structures from and to programs.

use crate::ffi;
use core::ptr;
use kernel::{
    error::to_result,
    prelude::*,
    transmute,
    uaccess::{UserPtr, UserSlice},
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A structure of the ABI: zerocopy proves what the kernel's traits of the same names want.
#[repr(transparent)]
struct Uapi<T>(T);

// SAFETY: By `zerocopy::FromBytes` every bit pattern is a valid `T`, by `Immutable` there is no
// interior mutability.
unsafe impl<T: FromBytes + Immutable> transmute::FromBytes for Uapi<T> {}

// SAFETY: By `zerocopy::IntoBytes` there is no padding, by `Immutable` no interior mutability.
unsafe impl<T: IntoBytes + Immutable> transmute::AsBytes for Uapi<T> {}

/// Whether a `T` is two words, for which there is a shorter way: PMIOREAD's argument is.
const fn is_two_words<T>() -> bool {
    size_of::<T>() == 16 && align_of::<T>() == align_of::<u64>()
}

/// Copies a value in from the program's address `from`.
#[inline(always)]
pub(crate) fn get<T: FromBytes + Immutable>(from: usize) -> Result<T> {
    if is_two_words::<T>() {
        let mut value = T::new_zeroed();
        // SAFETY: `value` has two words that can be written, and by `FromBytes` with anything.
        to_result(unsafe { ffi::perfmon_get_16(ptr::from_mut(&mut value).cast(), from) })?;
        return Ok(value);
    }
    let slice = UserSlice::new(UserPtr::from_addr(from), size_of::<T>());
    Ok(slice.reader().read::<Uapi<T>>()?.0)
}

/// Copies a value out to the program's address `to`.
#[inline(always)]
pub(crate) fn put<T: IntoBytes + Immutable>(to: usize, value: &T) -> Result {
    if is_two_words::<T>() {
        // SAFETY: `value` has two words that can be read: by `IntoBytes` all of it is initialized.
        return to_result(unsafe { ffi::perfmon_put_16(to, ptr::from_ref(value).cast()) });
    }
    // SAFETY: `Uapi` is a transparent wrapper.
    let value = unsafe { &*ptr::from_ref(value).cast::<Uapi<T>>() };
    let slice = UserSlice::new(UserPtr::from_addr(to), size_of::<T>());
    slice.writer().write(value)
}
