// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The addresses of programs and of the kernel in records.

/// Returns whether an address is a program's, in the lower half.
#[inline(always)]
#[must_use]
pub const fn is_user_address(ip: u64) -> bool {
    ip as i64 >= 0
}

/// Returns the address if it is a program's, else 0. The processor may record a late address in the kernel, which an
/// event that excludes the kernel must not show.
#[inline(always)]
#[must_use]
pub const fn user_address_or_zero(address: u64) -> u64 {
    address & !((address as i64 >> 63) as u64)
}

/// Returns the address if it is the kernel's, else 0. Samples show no address of a program that their readers may not look
/// at.
#[inline(always)]
#[must_use]
pub const fn kernel_address_or_zero(address: u64) -> u64 {
    address & (address as i64 >> 63) as u64
}
