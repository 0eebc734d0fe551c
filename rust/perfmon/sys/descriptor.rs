// SPDX-License-Identifier: GPL-2.0-only
//! Anonymous descriptors with calls of their own. `kernel::fs` has no file operations.

use crate::sys::{compat, error::to_result, ffi, uaccess};
use core::{marker::PhantomData, ptr, ptr::NonNull};
use kernel::{
    bindings,
    error::{from_err_ptr, from_result},
    ffi::{c_char, c_int, c_long, c_uint, c_ulong},
    fs::{file::FileDescriptorReservation, File},
    iov::IovIterDest,
    page::PAGE_SIZE,
    prelude::*,
    sync::aref::ARef,
};
use zerocopy::IntoBytes;

/// The object behind a descriptor.
pub(crate) trait Descriptor: Send + Sync + Sized + 'static {
    /// Serves read(2) and other ways to read: copies to `to`, and returns the number of bytes. Does not wait for events.
    fn read(&self, to: impl ReadTarget) -> Result<usize>;
    /// Serves ioctl(2).
    fn ioctl(&self, command: u32, arg: usize) -> Result;
    /// Serves poll(2): adds `poll` to the pollers that the next event wakes, and returns the events so far, `EPOLL*`.
    fn poll(&self, poll: Poll) -> u32;
    /// Serves fcntl(2) with `O_ASYNC`.
    fn fasync(&self, change: FasyncChange) -> Result;
    /// Serves mmap(2).
    fn mmap(&self, area: &Area<'_>) -> Result;
    /// Called when a mapping was added: the copy that mremap(2) makes, or the part that munmap(2) or mprotect(2) splits
    /// off.
    fn mapping_added(&self, area: &Area<'_>);
    /// Called when a mapping ends.
    fn mapping_ended(&self, area: &Area<'_>);
    /// Writes the event's lines of /proc/PID/fdinfo.
    fn show_fdinfo(&self, file: &kernel::seq_file::SeqFile);
    /// Serves the last close(2).
    fn close(this: Pin<KBox<Self>>);
}

/// The destination of a read(2) or another call that reads.
pub(crate) trait ReadTarget {
    /// Returns the number of bytes that there is room for.
    fn size(&self) -> usize;
    /// Copies `words`, which the caller has checked to fit into [`Self::size`].
    ///
    /// # Errors
    ///
    /// EFAULT if the program can't write to the memory.
    fn put_words(self, words: &[u64]) -> Result;
}

/// The memory of a program that read(2) copies to.
struct UserMemory {
    address: usize,
    size: usize,
}

impl ReadTarget for UserMemory {
    #[inline(always)]
    fn size(&self) -> usize {
        self.size
    }

    #[inline(always)]
    fn put_words(self, words: &[u64]) -> Result {
        uaccess::put_words(self.address, words)
    }
}

/// The buffers of readv(2), io_uring and AIO.
impl ReadTarget for &mut IovIterDest<'_> {
    fn size(&self) -> usize {
        self.len()
    }

    fn put_words(self, words: &[u64]) -> Result {
        let bytes = words.as_bytes();
        if self.copy_to_iter(bytes) == bytes.len() {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }
}

/// A poll(2) that waits ([`Wait::poll`](super::wait::Wait::poll)).
pub(crate) struct Poll {
    pub(super) file: *mut bindings::file,
    pub(super) table: *mut bindings::poll_table_struct,
}

/// A change of `O_ASYNC` ([`Wait::fasync`](super::wait::Wait::fasync)).
pub(crate) struct FasyncChange {
    pub(super) fd: c_int,
    pub(super) file: *mut bindings::file,
    /// Not 0 if the file is added, 0 if it is removed.
    pub(super) on: c_int,
}

/// A mapping. `kernel::mm` has no mappings with operations of their own.
pub(crate) struct Area<'a> {
    area: NonNull<bindings::vm_area_struct>,
    _call: PhantomData<&'a ()>,
}

impl Area<'_> {
    /// Returns the mapping that the kernel passes as `area`.
    ///
    /// # Safety
    ///
    /// As long as the result exists, the area must be valid, and locked for writing if it is being mapped.
    unsafe fn new(area: *mut bindings::vm_area_struct) -> Self {
        Self {
            // SAFETY: `new_unchecked` requires a pointer that is not null: the caller passes a
            // pointer to a valid area.
            area: unsafe { NonNull::new_unchecked(area) },
            _call: PhantomData,
        }
    }

    fn as_ptr(&self) -> *mut bindings::vm_area_struct {
        self.area.as_ptr()
    }

    /// Returns whether the mapping is shared (MAP_SHARED), not a private copy.
    pub(crate) fn is_shared(&self) -> bool {
        // VM_SHARED can't be used: in Linux 7.2's Rust bindings that constant is another flag.
        // SAFETY: The read requires a valid area: by the requirement of `new` the area is valid as long as `self`.
        let flags = unsafe { (*self.as_ptr()).__bindgen_anon_2.vm_flags };
        flags & (1 << bindings::VMA_MAYSHARE_BIT) != 0
    }

    /// Returns the number of the first page of the object that is mapped.
    pub(crate) fn first_page(&self) -> usize {
        // SAFETY: The read requires a valid area: by the requirement of `new` the area is valid as long as `self`.
        unsafe { (*self.as_ptr()).vm_pgoff }
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        let area = self.as_ptr();
        // SAFETY: The read requires a valid area: by the requirement of `new` the area is valid as long as `self`.
        unsafe {
            let range = &(*area).__bindgen_anon_1.__bindgen_anon_1;
            range.vm_end - range.vm_start
        }
    }

    /// Returns the address space.
    pub(crate) fn mm(&self) -> *mut bindings::mm_struct {
        // SAFETY: The read requires a valid area: by the requirement of `new` the area is valid as long as `self`.
        unsafe { (*self.as_ptr()).vm_mm }
    }

    /// Marks a mapping that is being set up: children don't inherit it, it can't grow, and core dumps leave it out.
    pub(crate) fn keep_to_this_program(&self) {
        // SAFETY: The function requires an area that is being set up, locked for writing. By the requirement of `new`
        // it is valid and locked, since this is called only in `Descriptor::mmap`.
        unsafe { ffi::perfmon_area_keep_to_program(self.as_ptr()) };
    }

    /// Returns whether the program may write to the mapping.
    pub(crate) fn is_writable(&self) -> bool {
        // SAFETY: The read requires a valid area: by the requirement of `new` the area is valid as long as `self`.
        let flags = unsafe { (*self.as_ptr()).__bindgen_anon_2.vm_flags };
        flags & (1 << bindings::VMA_WRITE_BIT) != 0
    }

    /// Maps `size` bytes of memory, whole pages, at this offset in the mapping.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory for page tables. EFAULT if the mapping is too small.
    ///
    /// # Safety
    ///
    /// `memory` must be `size` bytes from `__vmalloc()`, and outlive the mapping. The area must be one that is being
    /// mapped.
    pub(crate) unsafe fn insert_pages(
        &self,
        offset: usize,
        memory: NonNull<u8>,
        size: usize,
    ) -> Result {
        let area = self.as_ptr();
        for at in (0..size).step_by(PAGE_SIZE) {
            // SAFETY: By the requirement of `new` the area is valid, and locked for writing, as `vm_insert_page()`
            // requires: the caller promises that it is being mapped. `vmalloc_to_page()` requires an address in memory
            // of `__vmalloc()`: `at` is less than `size`, the number of bytes that the caller promises.
            to_result(unsafe {
                let start = (*area).__bindgen_anon_1.__bindgen_anon_1.vm_start;
                let page = bindings::vmalloc_to_page(memory.as_ptr().add(at).cast());
                bindings::vm_insert_page(area, start + offset + at, page)
            })?;
        }
        Ok(())
    }

    /// Marks a mapping that is being set up, and copies of it, as one that lets the program use RDPMC.
    pub(crate) fn set_rdpmc_mark(&self) {
        // SAFETY: The write requires a valid area, and that nothing else uses the word at once: by the requirement of
        // `new` the area is valid as long as `self`, and locked for writing while it is being set up. Only this file,
        // whose operations the area has, uses `vm_private_data`.
        unsafe { (*self.as_ptr()).vm_private_data = ptr::without_provenance_mut(1) };
    }

    /// Returns whether the mapping lets the program use RDPMC ([`Self::set_rdpmc_mark`]).
    pub(crate) fn has_rdpmc_mark(&self) -> bool {
        // SAFETY: The read requires a valid area: by the requirement of `new` the area is valid as long as `self`.
        !unsafe { (*self.as_ptr()).vm_private_data }.is_null()
    }
}

/// A reserved descriptor number, for a file that will be installed.
pub(crate) struct ReservedDescriptor(FileDescriptorReservation);

impl ReservedDescriptor {
    /// Reserves the lowest number that is free.
    ///
    /// # Errors
    ///
    /// EMFILE if the caller may have no more descriptors.
    pub(crate) fn new(close_on_exec: bool) -> Result<Self> {
        let flags = if close_on_exec {
            bindings::O_CLOEXEC
        } else {
            0
        };
        FileDescriptorReservation::get_unused_fd_flags(flags).map(Self)
    }

    /// Installs a new file for `data`, for reading and writing, and returns the number.
    ///
    /// The file, its copies and its mappings keep `data` alive and the module loaded.
    ///
    /// # Errors
    ///
    /// ENFILE or ENOMEM if there can't be another file. Then `data` is closed ([`Descriptor::close`]).
    pub(crate) fn install<T: Descriptor>(self, data: Pin<KBox<T>>) -> Result<c_int> {
        // SAFETY: `into_inner_unchecked` requires that the object stays where it is: the pointer is given only to its
        // operations and to `close`, which pin it again.
        let data = KBox::into_raw(unsafe { Pin::into_inner_unchecked(data) });
        // SAFETY: The function requires operations that exist as long as the file, and data that they expect: the table
        // is static, and `Operations<T>` expects a `T` from `into_raw`.
        let file = from_err_ptr(unsafe {
            ffi::perfmon_anonymous_file(Operations::<T>::address().cast(), data.cast())
        });
        let file = match file {
            Ok(file) => file,
            Err(error) => {
                // SAFETY: `from_raw` requires a pointer from `into_raw` that nothing else uses: `data` is from there,
                // and no file was made that could use it.
                T::close(KBox::into_pin(unsafe { KBox::from_raw(data) }));
                return Err(error);
            }
        };
        // SAFETY: `from_raw` requires a reference that it may take over, and `new_unchecked` a pointer that is not
        // null: `perfmon_anonymous_file()` returns a new reference unless it returns an error.
        let file = unsafe { ARef::<File>::from_raw(NonNull::new_unchecked(file.cast())) };
        let fd = self.0.reserved_fd();
        self.0.fd_install(file);
        Ok(fd as c_int)
    }
}

/// An open file whose private data are a `T`.
pub(crate) struct OpenDescriptor<T> {
    file: ARef<File>,
    _data: PhantomData<T>,
}

impl<T: Descriptor> OpenDescriptor<T> {
    /// Returns the caller's descriptor `fd`.
    ///
    /// # Errors
    ///
    /// EBADF if the caller has no descriptor of this number, or one of another kind.
    pub(crate) fn get(fd: c_int) -> Result<Self> {
        let fd = u32::try_from(fd).map_err(|_| EBADF)?;
        // SAFETY: `assume_no_fdget_pos` requires that this thread is not in a call of `fdget_pos`: it is in ioctl(2),
        // which has no file position.
        let file = unsafe {
            let file = kernel::fs::LocalFile::fget(fd).map_err(|_| EBADF)?;
            kernel::fs::LocalFile::assume_no_fdget_pos(file)
        };
        // SAFETY: The function requires a valid file: `file` has a reference to it.
        if !unsafe { ffi::perfmon_is_file_of(file.as_ptr(), Operations::<T>::address().cast()) } {
            return Err(EBADF);
        }
        Ok(Self {
            file,
            _data: PhantomData,
        })
    }

    /// Returns the object.
    pub(crate) fn data(&self) -> &T {
        // SAFETY: The dereferences require a valid file and a `T` that is alive: `self` has a reference to the file.
        // `get` has checked that the file has the operations of `T`, so its private data are a `T`, which lives until the
        // file is released.
        unsafe { &*(*self.file.as_ptr()).private_data.cast::<T>() }
    }
}

/// The operations of a file whose private data are a `KBox<T>`.
struct Operations<T>(PhantomData<T>);

impl<T: Descriptor> Operations<T> {
    const TABLE: bindings::file_operations = bindings::file_operations {
        owner: compat::this_module(),
        // The kernel prefers `read` to `read_iter` for read(2); it takes fewer instructions.
        read: Some(Self::read),
        read_iter: Some(Self::read_iter),
        unlocked_ioctl: Some(Self::ioctl),
        compat_ioctl: Some(Self::ioctl),
        poll: Some(Self::poll),
        fasync: Some(Self::fasync),
        mmap: Some(Self::mmap),
        show_fdinfo: Some(Self::show_fdinfo),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    /// Returns the address of the table, which is always the same.
    fn address() -> *const bindings::file_operations {
        let table: &'static bindings::file_operations = &Self::TABLE;
        ptr::from_ref(table)
    }

    /// Returns the object of a file.
    ///
    /// # Safety
    ///
    /// The file must be one of [`ReservedDescriptor::install`], and open as long as the result is used.
    #[inline(always)]
    unsafe fn data<'a>(file: *mut bindings::file) -> &'a T {
        // SAFETY: The dereferences require a valid file and a `T` that is alive: the caller passes an open file of
        // `install`, which has stored the address of a `T` in its private data. The `T` lives until `release`.
        unsafe { &*(*file).private_data.cast::<T>() }
    }

    /// # Safety
    ///
    /// To be called by the kernel for a file of [`ReservedDescriptor::install`].
    unsafe extern "C" fn read(
        file: *mut bindings::file,
        to: *mut c_char,
        size: usize,
        _position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: `data` requires an open file of `install`: the kernel passes one to this operation of such files.
        let data = unsafe { Self::data(file) };
        let address = to.addr();
        match data.read(UserMemory { address, size }) {
            Ok(size) => size as isize,
            Err(error) => error.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// To be called by the kernel for a file of [`ReservedDescriptor::install`], with memory to copy to.
    unsafe extern "C" fn read_iter(
        call: *mut bindings::kiocb,
        to: *mut bindings::iov_iter,
    ) -> isize {
        // SAFETY: `data` requires an open file of `install`: the kernel passes one in `call`, which is valid.
        let data = unsafe { Self::data((*call).ki_filp) };
        // SAFETY: `from_raw` requires a valid destination that nothing else uses: the kernel passes one to `read_iter`,
        // and does not use it during the call.
        let to = unsafe { IovIterDest::from_raw(to) };
        match data.read(to) {
            Ok(size) => size as isize,
            Err(error) => error.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// To be called by the kernel for a file of [`ReservedDescriptor::install`].
    unsafe extern "C" fn ioctl(file: *mut bindings::file, command: c_uint, arg: c_ulong) -> c_long {
        // SAFETY: `data` requires an open file of `install`: the kernel passes one to this operation of such files.
        match unsafe { Self::data(file) }.ioctl(command, arg) {
            Ok(()) => 0,
            Err(error) => error.to_errno() as c_long,
        }
    }

    /// # Safety
    ///
    /// To be called by the kernel for a file of [`ReservedDescriptor::install`].
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        table: *mut bindings::poll_table_struct,
    ) -> bindings::__poll_t {
        // SAFETY: `data` requires an open file of `install`: the kernel passes one to this operation of such files.
        unsafe { Self::data(file) }.poll(Poll { file, table })
    }

    /// # Safety
    ///
    /// To be called by the kernel for a file of [`ReservedDescriptor::install`].
    unsafe extern "C" fn fasync(fd: c_int, file: *mut bindings::file, on: c_int) -> c_int {
        // SAFETY: `data` requires an open file of `install`: the kernel passes one to this operation of such files.
        let data = unsafe { Self::data(file) };
        from_result(|| data.fasync(FasyncChange { fd, file, on }).map(|()| 0))
    }

    /// # Safety
    ///
    /// To be called by the kernel for a file of [`ReservedDescriptor::install`], with an area that is being set up.
    unsafe extern "C" fn mmap(
        file: *mut bindings::file,
        area: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: `data` requires an open file of `install`: the kernel passes one to this operation of such files.
        let data = unsafe { Self::data(file) };
        // SAFETY: The writes require a valid area that nothing else uses: the kernel passes one that is being set up.
        unsafe {
            (*area).vm_ops = &Self::AREA;
            (*area).vm_private_data = ptr::null_mut();
        }
        // SAFETY: `Area::new` requires a valid area, locked for writing while it is being mapped: the kernel passes one,
        // and holds the lock of the mm during the call.
        let area = unsafe { Area::new(area) };
        from_result(|| data.mmap(&area).map(|()| 0))
    }

    const AREA: bindings::vm_operations_struct = bindings::vm_operations_struct {
        open: Some(Self::area_open),
        close: Some(Self::area_close),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// To be called by the kernel for an area of a file of [`ReservedDescriptor::install`].
    unsafe extern "C" fn area_open(area: *mut bindings::vm_area_struct) {
        // SAFETY: `data` requires an open file of `install`: the kernel passes a valid area, which keeps its file open.
        let data = unsafe { Self::data((*area).vm_file) };
        // SAFETY: `Area::new` requires a valid area: the kernel passes one, and keeps it during the call.
        data.mapping_added(&unsafe { Area::new(area) });
    }

    /// # Safety
    ///
    /// To be called by the kernel for an area of a file of [`ReservedDescriptor::install`], once.
    unsafe extern "C" fn area_close(area: *mut bindings::vm_area_struct) {
        // SAFETY: `data` requires an open file of `install`: the kernel passes a valid area, which keeps its file open.
        let data = unsafe { Self::data((*area).vm_file) };
        // SAFETY: `Area::new` requires a valid area: the kernel frees the area that it passes only
        // after the call.
        data.mapping_ended(&unsafe { Area::new(area) });
    }

    /// # Safety
    ///
    /// To be called by the kernel for a file of [`ReservedDescriptor::install`].
    unsafe extern "C" fn show_fdinfo(to: *mut bindings::seq_file, file: *mut bindings::file) {
        // SAFETY: `data` requires an open file of `install`: the kernel passes one to this operation of such files.
        let data = unsafe { Self::data(file) };
        // SAFETY: `from_raw` requires a valid `seq_file` that no other thread uses: the kernel passes one to write to,
        // and holds its lock during the call.
        data.show_fdinfo(unsafe { kernel::seq_file::SeqFile::from_raw(to) });
    }

    /// # Safety
    ///
    /// To be called by the kernel for a file of [`ReservedDescriptor::install`], once.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: The kernel passes a valid file. `from_raw` requires a pointer from `into_raw` that nothing else uses:
        // `install` has stored it, and the kernel calls `release` once, after all other operations and mappings of the
        // file have ended.
        T::close(KBox::into_pin(unsafe {
            KBox::from_raw((*file).private_data.cast::<T>())
        }));
        0
    }
}
