// SPDX-License-Identifier: GPL-2.0-only
//! Sleep and reboot: the registers are given back before, and programmed anew when the system is
//! back.

use crate::{ffi, machine};
use kernel::{error::to_result, prelude::*};

/// The registration of the callbacks.
///
/// # Invariants
///
/// While a value of this type exists, the kernel calls [`down`] and [`up`].
pub(crate) struct Power(());

impl Power {
    /// Registers the callbacks.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, after [`machine::begin`].
    pub(crate) unsafe fn register() -> Result<Self> {
        // SAFETY: The functions are there until `drop`, and what they use was made before, by the
        // requirement.
        to_result(unsafe { ffi::perfmon_power_register(down, up) })?;
        // INVARIANT: Just registered.
        Ok(Self(()))
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        // SAFETY: By the type invariant they are registered.
        unsafe { ffi::perfmon_power_unregister() };
    }
}

extern "C" fn down() {
    machine::pause();
}

extern "C" fn up() {
    machine::resume();
}
