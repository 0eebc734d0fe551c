// SPDX-License-Identifier: GPL-2.0-only
//! The differences between the supported kernels.
//!
//! Kbuild sets `linux_7_2` for Linux 7.2, the older kernel. No other Rust file of the module tests it.

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

    /// The argument that makes `smp_call_function_single()` wait.
    pub(crate) const WAIT_FOR_CALL: bool = true;

    /// Returns the `struct module` of this module.
    pub(crate) const fn this_module() -> *mut bindings::module {
        kernel::module::this_module::<crate::LocalModule>().as_ptr()
    }

    /// Returns the value of a module parameter.
    pub(crate) fn parameter<T: ModuleParam + Copy>(parameter: &ModuleParamAccess<T>) -> T {
        parameter.value()
    }

    /// Returns 0 if Linux's policy lets the caller count all that runs on a CPU, else a negative errno.
    pub(crate) fn allow_cpu() -> c_int {
        // SAFETY: `perf_allow_cpu()` requires task context, since it checks the current task's credentials. The only
        // caller is `ownership/policy.rs`, whose functions serve the ioctls of the device.
        unsafe { perf_allow_cpu() }
    }

    /// Makes a file of a misc device keep the module loaded. Does nothing, since `MiscDevice` sets the owner of the
    /// operations.
    pub(crate) fn keep_module(_file: &File) -> Result {
        Ok(())
    }
}

/// Linux 7.2.
#[cfg(linux_7_2)]
mod this {
    use super::*;
    use crate::sys::ffi;
    use kernel::{bindings::file_operations, sync::SetOnce};

    pub(crate) const WAIT_FOR_CALL: c_int = 1;

    pub(crate) const fn this_module() -> *mut bindings::module {
        crate::THIS_MODULE.as_ptr()
    }

    pub(crate) fn parameter<T: ModuleParam + Copy>(parameter: &ModuleParamAccess<T>) -> T {
        *parameter.value()
    }

    /// Requires `CAP_PERFMON`, also where Linux perf would allow every user to count on a CPU: in
    /// Linux 7.2 modules can't read `perf_event_paranoid`. They can only find out whether it allows
    /// the caller to count in kernel mode.
    pub(crate) fn allow_cpu() -> c_int {
        // SAFETY: `capable()` and `perfmon_allow_kernel()` require task context, since they check the current task's
        // credentials. The only caller is `ownership/policy.rs`, whose functions serve the ioctls of the device.
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

    /// The operations made by `MiscDevice`, with the module as their owner. `MiscDevice` of 7.2 sets no owner,
    /// so that the module could be removed while a file is open.
    struct Operations(file_operations);

    // SAFETY: `Send` requires that any task may use and drop the value: the operations belong to no task.
    unsafe impl Send for Operations {}
    // SAFETY: `Sync` requires that several tasks may use the value at once: the kernel only reads the operations.
    unsafe impl Sync for Operations {}

    static OPERATIONS: SetOnce<Operations> = SetOnce::new();

    /// Makes `file`, which is being opened, keep the module loaded. The kernel opens a misc device and removes one
    /// under the same lock, so the module is not unloaded before this returns.
    pub(crate) fn keep_module(file: &File) -> Result {
        let file = file.as_ptr();
        // SAFETY: The reads require a valid file and valid operations: this open has just made the
        // file, and its operations are the operations of the device, which is registered.
        OPERATIONS.populate(Operations(unsafe {
            file_operations {
                owner: this_module(),
                ..*(*file).f_op
            }
        }));
        // `OPERATIONS` is set by now: the kernel's lock excludes another open that has only begun to set it.
        let operations = OPERATIONS.as_ref().ok_or(ENODEV)?;
        // SAFETY: The function requires a module that is loaded, which this module is. The kernel
        // drops the reference when the file is closed.
        if !unsafe { bindings::try_module_get(this_module()) } {
            return Err(ENODEV);
        }
        // SAFETY: The write requires a valid file that nothing else uses: this open has just made it. The static that
        // `f_op` points to afterwards lives as long as the module, which the file keeps loaded.
        unsafe { (*file).f_op = &operations.0 };
        Ok(())
    }
}
