// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of users.

use std::fmt;

use nix::unistd::{Uid, User};

/// A user, shown by name if it has one.
pub(crate) struct UserName(pub(crate) Uid);

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match User::from_uid(self.0) {
            Ok(Some(user)) => f.write_str(&user.name),
            _ => write!(f, "user {}", self.0),
        }
    }
}
