// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mark of the mode that an address belongs to.

use crate::recording::perfdata::is_kernel_address;
use crate::recording::profile::Site;

/// Returns perf's mark of an address in the kernel, in a program or in a guest.
pub(super) const fn mode_mark(site: &Site<'_>, address: u64) -> &'static str {
    match site.guest_mode {
        Some(mode) => mode.mark(),
        None if is_kernel_address(address) => "[k]",
        None => "[.]",
    }
}
