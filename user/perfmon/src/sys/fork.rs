// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that fork(2) calls, locks that are held during a fork, and a number that distinguishes
//! a child from its parent.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::LocalKey;

use nix::errno::Errno;
use nix::libc;

/// A function that fork(2) calls. It must be safe to call in a child that has only the thread that forked.
pub(crate) type Handler = extern "C" fn();

/// Number of forks between the process that loaded this library and this process.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Returns a number that differs between a process and its children, from the first [`watch`] on.
#[inline]
pub(crate) fn generation() -> u64 {
    // ATOMICS: Needs no order: the number changes only while a process has one thread.
    GENERATION.load(Ordering::Relaxed)
}

/// Makes [`generation`] change in children of fork(2).
///
/// # Errors
/// ENOMEM.
pub(crate) fn watch() -> Result<(), Errno> {
    extern "C" fn count_fork() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    static RESULT: OnceLock<Result<(), Errno>> = OnceLock::new();
    *RESULT.get_or_init(|| register(None, None, count_fork))
}

/// Registers functions that fork(2) calls: `before` in the parent before it forks, then `parent` in the parent and
/// `child` in the child.
///
/// # Errors
/// ENOMEM.
pub(crate) fn register(
    before: Option<Handler>,
    parent: Option<Handler>,
    child: Handler,
) -> Result<(), Errno> {
    /// Converts a handler to the type of function that the C library takes.
    fn as_unsafe(handler: Handler) -> unsafe extern "C" fn() {
        handler
    }
    let [before, parent] = [before, parent].map(|handler| handler.map(as_unsafe));
    // SAFETY: `pthread_atfork` requires functions that stay loaded and are safe to call at a fork. They are statics of this
    // library, and safe by the type `Handler`.
    match unsafe { libc::pthread_atfork(before, parent, Some(as_unsafe(child))) } {
        0 => Ok(()),
        errno => Err(Errno::from_raw(errno)),
    }
}

/// The lock of a [`ForkMutex`] while a thread forks. Each mutex has a thread-local variable of this type.
pub(crate) type HeldLock<T> = Cell<Option<MutexGuard<'static, T>>>;

/// A mutex that is locked while the process forks. Otherwise a child could find it locked by a thread that the child
/// does not have. The functions that are given to [`register`] call [`Self::hold`] and [`Self::take_held`].
pub(crate) struct ForkMutex<T: 'static> {
    mutex: Mutex<T>,
    held: &'static LocalKey<HeldLock<T>>,
}

impl<T> ForkMutex<T> {
    /// Returns a new mutex.
    pub(crate) const fn new(value: T, held: &'static LocalKey<HeldLock<T>>) -> Self {
        Self {
            mutex: Mutex::new(value),
            held,
        }
    }

    /// Locks the mutex.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the mutex, and keeps the lock for this thread while it forks.
    pub(crate) fn hold(&'static self) {
        let guard = self.lock();
        // A thread that forks while it ends has no thread-local variables any more, so its lock is
        // released here.
        let _ = self.held.try_with(|held| held.set(Some(guard)));
    }

    /// Returns the lock that this thread has kept while it forks. If the thread could not keep the lock, locks the
    /// mutex again, and returns `None` if another thread has it locked.
    pub(crate) fn take_held(&'static self) -> Option<MutexGuard<'static, T>> {
        let held = self.held.try_with(Cell::take).ok().flatten();
        held.or_else(|| self.mutex.try_lock().ok())
    }
}
