// SPDX-License-Identifier: GPL-2.0-only
//! CPU hotplug: callbacks for CPUs that come online and go offline. The `kernel` crate has no binding for cpuhp states.

use super::ThisCpu;
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    ffi::{c_int, c_uint},
    prelude::*,
};

/// Callbacks for CPUs that come online and go offline, called on the CPU itself, in a task that is
/// bound to this CPU.
pub(crate) trait HotplugCallbacks {
    /// Called when the CPU has come online, and by the registration on each CPU that is already online.
    fn online(here: ThisCpu<'_>);
    /// Called before the CPU goes offline, and by the unregistration on each CPU that is still
    /// online.
    fn offline(here: ThisCpu<'_>);
}

/// The registration of [`HotplugCallbacks`].
///
/// # Invariants
///
/// `state` is the hotplug state that calls `T`.
pub(crate) struct Hotplug<T: HotplugCallbacks> {
    state: bindings::cpuhp_state,
    _callbacks: PhantomData<T>,
}

impl<T: HotplugCallbacks> Hotplug<T> {
    /// Registers the callbacks. Calls [`HotplugCallbacks::online`] on every CPU that is online, before it returns.
    ///
    /// # Errors
    ///
    /// ENOMEM, or ENOSPC if all of the kernel's dynamic hotplug states are in use.
    pub(crate) fn register() -> Result<Self> {
        // SAFETY: __cpuhp_setup_state() requires a static name, and functions that are valid until the state is
        // removed: the name is a literal, and `drop` removes the state before the module is unloaded. The kernel calls
        // the functions in the CPU's hotplug thread, which is bound to the CPU, as they require.
        let state = unsafe {
            bindings::__cpuhp_setup_state(
                bindings::cpuhp_state_CPUHP_AP_ONLINE_DYN,
                c"x86/perfmon:online".as_char_ptr(),
                true,
                Some(Self::startup),
                Some(Self::teardown),
                false,
            )
        };
        to_result(state.min(0))?;
        // INVARIANT: For a dynamic state, the function returns its number.
        Ok(Self {
            state: state as bindings::cpuhp_state,
            _callbacks: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Must be called by a task that is bound to its CPU.
    unsafe extern "C" fn startup(_cpu: c_uint) -> c_int {
        // SAFETY: `assume` requires that the caller does not leave the CPU while the token lives: the caller is bound
        // to the CPU, as `# Safety` demands, until this function has returned.
        T::online(unsafe { ThisCpu::assume() });
        0
    }

    /// # Safety
    ///
    /// Must be called by a task that is bound to its CPU.
    unsafe extern "C" fn teardown(_cpu: c_uint) -> c_int {
        // SAFETY: `assume` requires that the caller does not leave the CPU while the token lives: the caller is bound
        // to the CPU, as `# Safety` demands, until this function has returned.
        T::offline(unsafe { ThisCpu::assume() });
        0
    }
}

impl<T: HotplugCallbacks> Drop for Hotplug<T> {
    fn drop(&mut self) {
        // SAFETY: __cpuhp_remove_state() requires a state that exists: by the type invariant `state` is the number that
        // `register` got from the kernel, and no other code removes it.
        unsafe { bindings::__cpuhp_remove_state(self.state, true) };
    }
}
