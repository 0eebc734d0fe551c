// SPDX-License-Identifier: GPL-2.0-only
//! Clients of the device: its open descriptors and their openers.

use super::{owner::SessionId, ownership::OWNERSHIP, place_holder, policy::Opener};
use kernel::{bindings, fs::File, prelude::*};

/// The client of one session.
///
/// # Invariants
///
/// The session is open. If `is_writer`, no other session is a writer.
pub(crate) struct Client {
    session: SessionId,
    is_writer: bool,
    opener: Opener,
}

impl Client {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// EBUSY if `file` is open for writing and another session is a writer.
    pub(crate) fn new(file: &File) -> Result<Self> {
        let is_writer = file.flags() & bindings::O_ACCMODE != bindings::O_RDONLY;
        let session = OWNERSHIP.lock().open_session(is_writer)?;
        // INVARIANT: The session has just been opened.
        Ok(Self {
            session,
            is_writer,
            opener: Opener::new(file),
        })
    }

    /// Returns the ID of the session.
    #[inline]
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// Returns the opener of the descriptor.
    #[inline]
    pub(crate) fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Returns whether the descriptor is open for writing.
    #[inline]
    pub(crate) fn is_writer(&self) -> bool {
        self.is_writer
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        OWNERSHIP.lock().close_session(self.session);
        // The session's counters have been released. This waits until perf can use them.
        place_holder::wait_for_place_holder_end();
    }
}
