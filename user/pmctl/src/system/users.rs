// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of users and groups.
//!
//! pmctl is linked statically, for machines with any C library. So it must not call the C library's functions for names,
//! such as getpwuid(3): they load modules of the machine's own C library, which end a static program of another version.
//! Names are read from /etc instead, and those that are kept elsewhere are asked of getent(1).

use std::fmt;
use std::fs;
use std::process::{Command, Stdio};

use nix::unistd::{Gid, Uid};

/// A user. The user is shown by name, or by number without a name.
pub(crate) struct UserName(pub(crate) Uid);

impl UserName {
    /// Returns the user as an argument of chown(1): the name, or the number of a user without one.
    pub(crate) fn as_argument(&self) -> String {
        self.name().unwrap_or_else(|| self.0.to_string())
    }

    fn name(&self) -> Option<String> {
        let [name, ..] = entry("passwd", self.0.as_raw())?;
        Some(name)
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(&name),
            None => write!(f, "user {}", self.0),
        }
    }
}

/// A group that has a name.
pub(crate) struct NamedGroup {
    pub(crate) name: String,
    /// The names of the users that the list of groups has as members. A user whose primary group it
    /// is need not be listed.
    pub(crate) members: Vec<String>,
}

impl NamedGroup {
    /// Returns the group with this number; `None` if it has no name.
    pub(crate) fn from_gid(gid: Gid) -> Option<Self> {
        let [name, members] = entry("group", gid.as_raw())?;
        let members = members.split(',').filter(|member| !member.is_empty());
        let members = members.map(str::to_owned).collect();
        Some(Self { name, members })
    }
}

/// Returns the first and the fourth field of the entry with this number in a list of names, `passwd` or `group`.
fn entry(list: &str, number: u32) -> Option<[String; 2]> {
    let file = fs::read(format!("/etc/{list}")).unwrap_or_default();
    find(&String::from_utf8_lossy(&file), number).or_else(|| {
        let mut getent = Command::new("getent");
        getent.args([list, &number.to_string()]);
        let output = getent.stdin(Stdio::null()).stderr(Stdio::null()).output();
        find(&String::from_utf8_lossy(&output.ok()?.stdout), number)
    })
}

/// Finds the entry with this number among lines of fields with colons between them: passwd(5), group(5).
fn find(lines: &str, number: u32) -> Option<[String; 2]> {
    lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, found) = (fields.next()?, fields.next()?, fields.next()?);
        let is_wanted = found.parse() == Ok(number) && !name.is_empty();
        is_wanted.then(|| [name, fields.next().unwrap_or_default()].map(str::to_owned))
    })
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

    #[test]
    fn a_group_has_members() {
        let lines = "root:x:0:\n# a comment\n+\nperfmon:x:990:alice,bob\nlast:x:991\n";
        let entry = |name: &str, members: &str| Some([name, members].map(str::to_owned));
        assert_eq!(find(lines, 0), entry("root", ""));
        assert_eq!(find(lines, 990), entry("perfmon", "alice,bob"));
        assert_eq!(find(lines, 991), entry("last", ""));
        assert_eq!(find(lines, 99), None);
        let root = NamedGroup::from_gid(Gid::from_raw(0)).expect("it has a name");
        assert_eq!(root.name, "root");
    }
}
