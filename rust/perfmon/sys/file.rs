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
/// The descriptor, its copies and its mappings keep `data` alive and the module loaded.
///
/// # Errors
///
/// EMFILE, ENFILE or ENOMEM if there can't be another descriptor.
pub(crate) fn open<T: Mappable>(data: Arc<T>) -> Result<c_int> {
    let data = data.into_foreign();
    let operations: &'static bindings::file_operations = &Operations::<T>::TABLE;
    // SAFETY: The function requires operations that exist as long as the file, and data that they expect: the table is
    // static, and `Operations<T>` expects an `Arc<T>` from `into_foreign`.
    let fd = unsafe { ffi::perfmon_open_anonymous(ptr::from_ref(operations).cast(), data) };
    if fd < 0 {
        // SAFETY: `from_foreign` requires a pointer from `into_foreign` that nothing else uses: `data` is from there,
        // and no file was made that could use it.
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
    /// To be called by the kernel for a file of [`open`], with an area that is being set up.
    unsafe extern "C" fn mmap(
        file: *mut bindings::file,
        area: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: The read requires a valid file: the kernel passes one to its `mmap`. `borrow` requires a pointer from
        // `into_foreign` that is not given to `from_foreign` meanwhile: `open` has stored it in the file, and the
        // kernel calls `release` after all other operations of the file.
        let data = unsafe { Arc::<T>::borrow((*file).private_data) };
        // SAFETY: `from_raw` requires an area that is being set up, locked for writing: the kernel calls mmap with one.
        let area = unsafe { VmaNew::from_raw(area) };
        from_result(|| data.map(area).map(|()| 0))
    }

    /// # Safety
    ///
    /// To be called by the kernel for a file of [`open`], once.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: The read requires a valid file: the kernel passes one to its `release`.
        let data: *mut c_void = unsafe { (*file).private_data };
        // SAFETY: `from_foreign` requires a pointer from `into_foreign` that nothing else uses: `open` has stored it in
        // the file, and the kernel calls `release` once, after the calls of `mmap`, which borrow it.
        drop(unsafe { Arc::<T>::from_foreign(data) });
        0
    }
}
