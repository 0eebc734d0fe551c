// SPDX-License-Identifier: GPL-2.0-only
//! What one open descriptor owns.

use crate::{arbiter::ARBITER, counting, trace};
use kernel::prelude::*;

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
}

impl Session {
    /// Begins a session.
    ///
    /// # Errors
    ///
    /// EBUSY if `writer` and there is one already.
    pub(crate) fn new(writer: bool) -> Result<Self> {
        let id = ARBITER.lock().admit(writer)?;
        // INVARIANT: The arbiter has just named it.
        Ok(Self { id, writer })
    }

    /// Its name.
    #[inline]
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// Whether the descriptor is open for writing.
    #[inline]
    pub(crate) fn is_writer(&self) -> bool {
        self.writer
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut arbiter = ARBITER.lock();
        if self.writer {
            trace::release(&mut arbiter);
        }
        counting::release(&mut arbiter, self.id);
        arbiter.dismiss(self.id);
    }
}
