// SPDX-License-Identifier: GPL-2.0-only
//! What one open descriptor owns.

use crate::{arbiter::ARBITER, counting, policy::Opener, trace};
use kernel::{bindings, fs::File, prelude::*};

/// Tells sessions apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionId(pub(crate) u64);

/// One open(2) of the device, to its last close(2).
///
/// # Invariants
///
/// `id` is known to the arbiter, and if `writer` it is the only writer. The counters that it has set
/// up are in the arbiter's table, and so is its trace.
pub(crate) struct Session {
    id: SessionId,
    writer: bool,
    opener: Opener,
}

impl Session {
    /// Begins a session.
    ///
    /// # Errors
    ///
    /// EBUSY if `file` is open for writing and there is such a session already.
    pub(crate) fn new(file: &File) -> Result<Self> {
        let writer = file.flags() & bindings::O_ACCMODE != bindings::O_RDONLY;
        let id = ARBITER.lock().admit(writer)?;
        // INVARIANT: The arbiter has just named it.
        Ok(Self {
            id,
            writer,
            opener: Opener::new(file),
        })
    }

    /// Its name.
    #[inline]
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// Who opened the descriptor.
    #[inline]
    pub(crate) fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Whether the descriptor is open for writing.
    #[inline]
    pub(crate) fn is_writer(&self) -> bool {
        self.writer
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let trace = {
            let mut arbiter = ARBITER.lock();
            let trace = self.writer.then(|| trace::release(&mut arbiter));
            counting::release(&mut arbiter, self.id);
            trace
        };
        // The buffers are freed without the lock, which would take others long to wait for, and before
        // there can be another writer: that one may want as much memory.
        drop(trace);
        if self.writer {
            ARBITER.lock().dismiss(self.id);
        }
    }
}
