// SPDX-License-Identifier: GPL-2.0-only
//! Anonymous file descriptors that can be mapped.

use crate::sys::{compat, ffi};
use core::{marker::PhantomData, ptr};
use kernel::{
    bindings,
    error::{from_result, to_result},
    ffi::{c_int, c_void},
    mm::virt::VmaNew,
    prelude::*,
    sync::Arc,
    types::ForeignOwnable,
};

/// The object behind a descriptor that can be mapped.
pub(crate) trait Mappable: Send + Sync + 'static {
    /// Serves mmap(2).
    fn map(&self, area: &VmaNew) -> Result;
}

/// Opens a new descriptor for `data`: read-only, closed on exec.
///
/// The descriptor, its copies and its mappings keep `data` and the module.
///
/// # Errors
///
/// EMFILE, ENFILE or ENOMEM if there can't be another descriptor.
pub(crate) fn open<T: Mappable>(data: Arc<T>) -> Result<c_int> {
    let data = data.into_foreign();
    let operations: &'static bindings::file_operations = &Operations::<T>::TABLE;
    // SAFETY: `data` is an `Arc<T>`, as `Operations<T>` assumes; on success the file owns it.
    let fd = unsafe { ffi::perfmon_open_anonymous(ptr::from_ref(operations).cast(), data) };
    if fd < 0 {
        // SAFETY: `data` comes from `into_foreign`, and without a file nothing else uses it.
        drop(unsafe { Arc::<T>::from_foreign(data) });
    }
    to_result(fd.min(0)).map(|()| fd)
}

/// The operations of a file whose private data are an `Arc<T>`.
struct Operations<T>(PhantomData<T>);

impl<T: Mappable> Operations<T> {
    const TABLE: bindings::file_operations = bindings::file_operations {
        owner: compat::this_module(),
        mmap: Some(Self::mmap),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by the kernel for a file of [`open`], with an area that is being set up.
    unsafe extern "C" fn mmap(
        file: *mut bindings::file,
        area: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: The file is one of `open`, so its private data are an `Arc<T>`, which `release` drops after
        // all other operations of the file.
        let data = unsafe { Arc::<T>::borrow((*file).private_data) };
        // SAFETY: The kernel calls mmap with an area that is being set up and locked for writing.
        let area = unsafe { VmaNew::from_raw(area) };
        from_result(|| data.map(area).map(|()| 0))
    }

    /// # Safety
    ///
    /// Called by the kernel for a file of [`open`], once.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: The kernel gives a file that is valid for the call.
        let data: *mut c_void = unsafe { (*file).private_data };
        // SAFETY: The file is one of `open`, so its private data are an `Arc<T>`; `release` comes once, after
        // all borrows by `mmap`.
        drop(unsafe { Arc::<T>::from_foreign(data) });
        0
    }
}
