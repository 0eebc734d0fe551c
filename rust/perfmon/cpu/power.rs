// SPDX-License-Identifier: GPL-2.0-only
//! Sleep and reboot of the system.

use crate::sys::ffi;
use core::marker::PhantomData;
use kernel::{error::to_result, prelude::*};

/// Callbacks for sleep and reboot, which the kernel calls in a task.
pub(crate) trait PowerCallbacks {
    /// Called before the system sleeps or reboots.
    fn suspend();
    /// Called after the system has woken up.
    fn resume();
}

/// The registration of [`PowerCallbacks`].
///
/// # Invariants
///
/// While a value of this type exists, the kernel calls the functions of `T`.
pub(crate) struct PowerNotifier<T: PowerCallbacks>(PhantomData<T>);

impl<T: PowerCallbacks> PowerNotifier<T> {
    /// Registers the callbacks.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life.
    pub(crate) unsafe fn register() -> Result<Self> {
        extern "C" fn suspend<T: PowerCallbacks>() {
            T::suspend();
        }

        extern "C" fn resume<T: PowerCallbacks>() {
            T::resume();
        }

        // SAFETY: perfmon_power_register() requires functions that are valid until perfmon_power_unregister(), and no
        // other registration. `drop` unregisters them before the module is unloaded, and the caller calls this once.
        to_result(unsafe { ffi::perfmon_power_register(Some(suspend::<T>), Some(resume::<T>)) })?;
        // INVARIANT: The functions of `T` have just been registered.
        Ok(Self(PhantomData))
    }
}

impl<T: PowerCallbacks> Drop for PowerNotifier<T> {
    fn drop(&mut self) {
        // SAFETY: perfmon_power_unregister() requires registered callbacks, which the type invariant gives.
        unsafe { ffi::perfmon_power_unregister() };
    }
}
