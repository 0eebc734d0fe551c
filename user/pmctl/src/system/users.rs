// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of users.

use std::fmt;

use nix::unistd::{Uid, User};

/// A user, shown by name if it has one.
pub(crate) struct UserName(pub(crate) Uid);

impl UserName {
    /// Returns the user as an argument of chown(1): the name, or the number of a user without one.
    pub(crate) fn as_argument(&self) -> String {
        match User::from_uid(self.0) {
            Ok(Some(user)) => user.name,
            _ => self.0.to_string(),
        }
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match User::from_uid(self.0) {
            Ok(Some(user)) => f.write_str(&user.name),
            _ => write!(f, "user {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_has_a_number() {
        let nameless = UserName(Uid::from_raw(4_294_000_000));
        assert_eq!(nameless.to_string(), "user 4294000000");
        assert_eq!(nameless.as_argument(), "4294000000");
        let root = UserName(Uid::from_raw(0));
        assert_eq!(root.as_argument(), root.to_string());
    }
}
