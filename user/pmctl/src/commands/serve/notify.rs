// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notifies systemd that a service of `Type=notify` is ready (`sd_notify(3)`).

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Notifies systemd that the server is ready, if systemd started it.
pub(super) fn notify_ready() {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    // A name that begins with @ is an abstract address, and not a path.
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let result = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.send_to_addr(b"READY=1", &address)
    });
    // If this fails, systemd ends the service after a timeout, and logs the reason.
    let _ = result;
}
