// SPDX-License-Identifier: GPL-2.0-only
//! Copying the ABI's structures from and to programs.

use kernel::{
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

/// Copies a value in from the program's address `from`.
#[inline]
pub(crate) fn get<T: FromBytes + Immutable>(from: usize) -> Result<T> {
    let slice = UserSlice::new(UserPtr::from_addr(from), size_of::<T>());
    Ok(slice.reader().read::<Uapi<T>>()?.0)
}

/// Copies a value out to the program's address `to`.
#[inline]
pub(crate) fn put<T: IntoBytes + Immutable>(to: usize, value: T) -> Result {
    let slice = UserSlice::new(UserPtr::from_addr(to), size_of::<T>());
    slice.writer().write(&Uapi(value))
}
