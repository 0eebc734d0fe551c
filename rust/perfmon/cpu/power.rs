// SPDX-License-Identifier: GPL-2.0-only
//! Sleep and reboot of the system.

use crate::sys::ffi;
use core::marker::PhantomData;
use kernel::{error::to_result, prelude::*};

/// Callbacks for sleep and reboot, in a task.
pub(crate) trait PowerCallbacks {
    /// The system will sleep or reboot.
    fn suspend();
    /// The system is back from sleep.
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

        // SAFETY: This is the only registration, and `drop` ends it before the functions go.
        to_result(unsafe { ffi::perfmon_power_register(Some(suspend::<T>), Some(resume::<T>)) })?;
        // INVARIANT: Just registered.
        Ok(Self(PhantomData))
    }
}

impl<T: PowerCallbacks> Drop for PowerNotifier<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the callbacks are registered.
        unsafe { ffi::perfmon_power_unregister() };
    }
}
