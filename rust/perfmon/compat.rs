// SPDX-License-Identifier: GPL-2.0-only
//! Where the kernels that the module is made for differ.
//!
//! Kbuild tells which one it is: `linux_7_2` is set for the older one. Nothing else in the module asks.

use kernel::{
    bindings,
    ffi::c_int,
    fs::File,
    module_param::{ModuleParam, ModuleParamAccess},
    prelude::*,
};

pub(crate) use this::*;

/// Linux 7.3.
#[cfg(not(linux_7_2))]
mod this {
    use super::*;

    extern "C" {
        fn perf_allow_cpu() -> c_int;
    }

    /// The module itself, as C has it.
    pub(crate) const fn this_module() -> *mut bindings::module {
        kernel::module::this_module::<crate::LocalModule>().as_ptr()
    }

    /// What a module parameter was set to, or its default.
    pub(crate) fn parameter<T: ModuleParam + Copy>(parameter: &ModuleParamAccess<T>) -> T {
        parameter.value()
    }

    /// Linux's policy: 0 if the caller may count all that runs on a CPU.
    pub(crate) fn allow_cpu() -> c_int {
        // SAFETY: Always callable.
        unsafe { perf_allow_cpu() }
    }

    /// Makes a file of a misc device keep the module. `MiscDevice` has done that.
    pub(crate) fn keep_module(_file: &File) -> Result {
        Ok(())
    }
}

/// Linux 7.2.
#[cfg(linux_7_2)]
mod this {
    use super::*;
    use crate::ffi;
    use kernel::{bindings::file_operations, sync::SetOnce};

    pub(crate) const fn this_module() -> *mut bindings::module {
        crate::THIS_MODULE.as_ptr()
    }

    pub(crate) fn parameter<T: ModuleParam + Copy>(parameter: &ModuleParamAccess<T>) -> T {
        *parameter.value()
    }

    /// Modules can't learn `perf_event_paranoid` here, only whether it lets the caller look at the
    /// kernel. So it takes `CAP_PERFMON` to count on a CPU, also where Linux's perf would allow it to all.
    pub(crate) fn allow_cpu() -> c_int {
        // SAFETY: All are always callable.
        unsafe {
            if bindings::capable(bindings::CAP_PERFMON as c_int)
                || bindings::capable(bindings::CAP_SYS_ADMIN as c_int)
            {
                ffi::perfmon_allow_kernel()
            } else {
                EACCES.to_errno()
            }
        }
    }

    /// The operations that `MiscDevice` made, with the module as their owner, which it forgets: a file
    /// that is open would not keep the module from being removed.
    struct Operations(file_operations);

    // SAFETY: The kernel only reads them.
    unsafe impl Send for Operations {}
    // SAFETY: As above.
    unsafe impl Sync for Operations {}

    static OPERATIONS: SetOnce<Operations> = SetOnce::new();

    /// To be called while the file is being opened. The kernel opens a misc device and removes one under
    /// the same lock, so the module can't go before this has returned.
    pub(crate) fn keep_module(file: &File) -> Result {
        let file = file.as_ptr();
        // SAFETY: Who opens a file has it alone, and its operations are the constant ones of the device.
        OPERATIONS.populate(Operations(unsafe {
            file_operations {
                owner: this_module(),
                ..*(*file).f_op
            }
        }));
        // They are there: by that lock nobody else is just putting them there.
        let operations = OPERATIONS.as_ref().ok_or(ENODEV)?;
        // SAFETY: This code is the module's. Closing the file gives the reference back.
        if !unsafe { bindings::try_module_get(this_module()) } {
            return Err(ENODEV);
        }
        // SAFETY: As above; a static lives as long as the module.
        unsafe { (*file).f_op = &operations.0 };
        Ok(())
    }
}
