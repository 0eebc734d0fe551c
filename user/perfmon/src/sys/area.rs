// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the driver that is mapped into the program.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::fork::{self, ForkMutex, HeldLock};

/// A mapping of a descriptor of the driver.
///
/// A child of fork(2) does not inherit the driver's memory, but finds zeros in its place. So an
/// area that was mapped before the fork stays valid in the child: a page shows no counter there,
/// and a ring shows no records.
///
/// # Invariants
/// Until the drop, `start` is the beginning of a mapping of `length` bytes: of the driver's memory in the process that called
/// [`Area::new`], of private memory in its children. `AREAS` has an entry with both.
#[derive(Debug)]
pub(crate) struct Area {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

/// The address, the size and the protection of an area.
struct MappedArea {
    address: usize,
    length: NonZeroUsize,
    protection: ProtFlags,
}

/// All areas of the process. The mutex is locked while they change, and while the process forks.
static AREAS: ForkMutex<Vec<MappedArea>> = ForkMutex::new(Vec::new(), &HELD_LOCK);

thread_local! {
    /// The lock of `AREAS` while this thread forks.
    static HELD_LOCK: HeldLock<Vec<MappedArea>> = const { Cell::new(None) };
}

// SAFETY: `Send` requires that another thread may use and drop the value. A mapping is valid in all threads of its process,
// and any of them may unmap it.
unsafe impl Send for Area {}
// SAFETY: `Sync` requires that several threads may use a shared reference at once. A reference gives only the address and
// the length, which never change.
unsafe impl Sync for Area {}

impl Area {
    /// Maps the first `length` bytes of a descriptor, shared with the kernel.
    ///
    /// # Errors
    /// The errors of mmap(2).
    pub(crate) fn new(
        descriptor: BorrowedFd<'_>,
        length: NonZeroUsize,
        protection: ProtFlags,
    ) -> Result<Self, Errno> {
        replace_in_children()?;
        let mut areas = AREAS.lock();
        // SAFETY: `mmap` requires that it replaces no mapping in use. Without an address and MAP_FIXED the kernel chooses a
        // free range.
        let start = unsafe {
            mmap(
                None,
                length,
                protection,
                MapFlags::MAP_SHARED,
                descriptor,
                0,
            )
        }?;
        areas.push(MappedArea {
            address: start.as_ptr() as usize,
            length,
            protection,
        });
        // INVARIANT: `mmap` has just returned `start` for `length` bytes, which only the drop
        // unmaps. `AREAS` has an entry with both values. `AREAS` was locked meanwhile, so every
        // child of a fork maps memory there.
        Ok(Self {
            start: start.cast(),
            length,
        })
    }

    /// Returns the first byte, which is aligned to pages.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the number of bytes.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.length.get()
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        let mut areas = AREAS.lock();
        areas.retain(|area| area.address != self.start.as_ptr() as usize);
        // SAFETY: `munmap` requires that nothing uses the memory afterwards. By the type invariant `start` is a mapping of
        // `length` bytes that nothing else unmaps, and references to its content borrow the value that has the area.
        let result = unsafe { munmap(self.start.cast(), self.length.get()) };
        debug_assert!(result.is_ok(), "munmap of a mapping of mmap");
    }
}

/// Makes fork(2) map private memory in children at the addresses of the areas.
fn replace_in_children() -> Result<(), Errno> {
    extern "C" fn hold_areas() {
        AREAS.hold();
    }
    extern "C" fn release_areas() {
        drop(AREAS.take_held());
    }
    extern "C" fn replace_areas() {
        for area in AREAS.take_held().iter().flat_map(|areas| areas.iter()) {
            map_private_memory(area);
        }
    }
    static RESULT: OnceLock<Result<(), Errno>> = OnceLock::new();
    *RESULT.get_or_init(|| fork::register(Some(hold_areas), Some(release_areas), replace_areas))
}

/// Maps private memory at the address of an area that this process, a new child, has not inherited.
fn map_private_memory(area: &MappedArea) {
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED_NOREPLACE | MapFlags::MAP_NORESERVE;
    let address = NonZeroUsize::new(area.address);
    // SAFETY: `mmap_anonymous` requires that it replaces no mapping in use, and MAP_FIXED_NOREPLACE replaces none.
    let result = unsafe { mmap_anonymous(address, area.length, area.protection, flags) };
    // EEXIST: the child has inherited the area, because a test made it from a file other than the
    // driver's.
    if result.is_err_and(|errno| errno != Errno::EEXIST) {
        // Without private memory, the child would access whatever is mapped at this address later.
        // SAFETY: _exit(2) takes an integer, accesses no memory and does not return.
        unsafe { libc::_exit(libc::EXIT_FAILURE) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicU64, Ordering};

    use nix::sys::mman::{MmapAdvise, madvise};
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    const LENGTH: NonZeroUsize = NonZeroUsize::new(8192).expect("two pages");

    fn word(area: &Area) -> &AtomicU64 {
        // SAFETY: `as_ref` requires an aligned word that lives as long as the area: an area begins with a whole page,
        // which is mapped until the area is dropped.
        unsafe { area.start().cast().as_ref() }
    }

    /// Runs a function in a child, and returns how the child ended.
    fn in_child(run: impl FnOnce() -> bool) -> WaitStatus {
        // SAFETY: `fork` requires that the child takes no lock that another thread may hold, since the child lacks the
        // thread: it only executes `run`, which takes no lock.
        match unsafe { fork() }.expect("a child") {
            ForkResult::Parent { child } => waitpid(child, None).expect("the child's end"),
            ForkResult::Child => {
                let code = i32::from(!run());
                // SAFETY: _exit(2) takes an integer, accesses no memory and does not return.
                unsafe { libc::_exit(code) }
            }
        }
    }

    /// Children do not inherit the driver's mappings. Here a mapping of a file with `MADV_DONTFORK`
    /// stands for such a mapping.
    #[test]
    fn a_child_finds_zeros_in_the_place_of_an_area() {
        let file = memory_file();
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let area = Area::new(file.as_fd(), LENGTH, protection).expect("a mapping");
        // SAFETY: `madvise` requires that the advice changes no memory that is in use: `MADV_DONTFORK` changes only
        // what a child inherits, and the mapping is the test's own.
        unsafe {
            madvise(
                area.start().cast(),
                area.length(),
                MmapAdvise::MADV_DONTFORK,
            )
        }
        .expect("advice");
        word(&area).store(7, Ordering::Relaxed);
        let status = in_child(|| word(&area).load(Ordering::Relaxed) == 0);
        assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
        assert_eq!(word(&area).load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_child_has_another_generation() {
        fork::watch().expect("memory");
        let parent = fork::generation();
        let status = in_child(|| fork::generation() == parent + 1);
        assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
        assert_eq!(fork::generation(), parent);
    }

    fn memory_file() -> File {
        let memory = nix::sys::memfd::memfd_create(c"area", nix::sys::memfd::MFdFlags::empty());
        let file = File::from(memory.expect("a file"));
        file.set_len(LENGTH.get() as u64).expect("memory");
        file
    }
}
