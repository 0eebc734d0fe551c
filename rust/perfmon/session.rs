// SPDX-License-Identifier: GPL-2.0-only
//! A session: one open descriptor of the device, with its client and its trace.

use crate::{counting, ownership::Client, trace::Trace};
use kernel::{fs::File, prelude::*};

/// The private data of an open descriptor of the device, from open(2) to the last close(2).
///
/// Calls get the part that they work on, by [`AsRef`].
#[pin_data(PinnedDrop)]
pub(crate) struct Session {
    /// Dropped before `client`: the trace is stopped and its buffers are freed before another session can be opened
    /// for writing, which may need that memory for its own trace.
    #[pin]
    trace: Trace,
    client: Client,
}

impl Session {
    /// Begins a session.
    ///
    /// # Errors
    ///
    /// EBUSY if `file` is open for writing and another session is open for writing.
    pub(crate) fn new(file: &File) -> impl PinInit<Self, Error> + '_ {
        try_pin_init!(Self {
            trace <- Trace::new(),
            client: Client::new(file)?,
        })
    }
}

impl AsRef<Client> for Session {
    #[inline(always)]
    fn as_ref(&self) -> &Client {
        &self.client
    }
}

impl AsRef<Trace> for Session {
    #[inline(always)]
    fn as_ref(&self) -> &Trace {
        &self.trace
    }
}

#[pinned_drop]
impl PinnedDrop for Session {
    fn drop(self: Pin<&mut Self>) {
        counting::release_session_counters(&self.client);
    }
}
