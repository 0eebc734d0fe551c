// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rights to open the device node. Tells a user who may not open the node its owner, group and
//! mode, and what to do.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::unistd::{Gid, Uid, getgroups};

use crate::system::users::{NamedGroup, UserName};

/// The owner, the group and the mode of a device node.
#[derive(Clone, Debug)]
struct Node {
    owner: String,
    group: String,
    mode: u32,
}

/// A user, and the user's relation to the group of a node.
#[derive(Clone, Debug)]
struct NodeUser {
    name: String,
    is_root: bool,
    /// This process has the group.
    has_group: bool,
    /// The list of groups says that the user is a member.
    is_listed: bool,
}

/// Returns two sentences for this user, who may not open the node at `path`: what its mode is, and what to do. Returns
/// `None` if the node can't be read.
pub(crate) fn explain(path: &Path) -> Option<(String, String)> {
    let facts = fs::metadata(path).ok()?;
    let gid = Gid::from_raw(facts.gid());
    let group = NamedGroup::from_gid(gid);
    let uid = Uid::effective();
    let name = UserName(uid).to_string();
    let user = NodeUser {
        is_root: uid.is_root(),
        has_group: Gid::effective() == gid || getgroups().is_ok_and(|all| all.contains(&gid)),
        is_listed: group
            .as_ref()
            .is_some_and(|group| group.members.contains(&name)),
        name,
    };
    let node = Node {
        owner: UserName(Uid::from_raw(facts.uid())).to_string(),
        group: group.map_or_else(|| gid.to_string(), |group| group.name),
        mode: facts.permissions().mode() & 0o777,
    };
    Some((node.in_words(), node.advice(&user)))
}

impl Node {
    fn in_words(&self) -> String {
        let Self { owner, group, mode } = self;
        format!("It belongs to {owner} and the group {group}, with mode {mode:04o}.")
    }

    /// Returns what this user can do to open the node.
    fn advice(&self, user: &NodeUser) -> String {
        /// Bits of the mode: the group may read and write.
        const GROUP_ACCESS: u32 = 0o060;
        let (name, group) = (&user.name, &self.group);
        let has_open_group = self.mode & GROUP_ACCESS == GROUP_ACCESS && group != "root";
        match (has_open_group, user) {
            (_, NodeUser { is_root: true, .. })
            | (true, NodeUser { has_group: true, .. }) => format!(
                "By this mode {name} may open it: a container or a security module forbids it. Pass the device on to the \
                 container; the audit log names the rule of a security module."
            ),
            (true, NodeUser { is_listed: true, .. }) => format!(
                "{name} has become a member of this group after this login: log in again, or run `newgrp {group}`."
            ),
            (true, _) => format!(
                "{name} is not a member of this group: let root run `usermod -aG {group} {name}`, then log in again. Or run \
                 pmctl as root."
            ),
            (false, _) => "Run pmctl as root. The packages and `make install` have a rule of udev that gives the device \
                           to the group perfmon."
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_for_this_user() {
        let node = |group: &str, mode| Node {
            owner: "root".to_owned(),
            group: group.to_owned(),
            mode,
        };
        let user = |is_root, has_group, is_listed| NodeUser {
            name: "alice".to_owned(),
            is_root,
            has_group,
            is_listed,
        };
        let (of_group, of_root) = (node("perfmon", 0o660), node("root", 0o600));
        for (node, user, expected) in [
            (
                &of_group,
                user(false, false, false),
                "`usermod -aG perfmon alice`",
            ),
            (&of_group, user(false, false, true), "`newgrp perfmon`"),
            (&of_group, user(false, true, true), "a container"),
            (&of_group, user(true, false, false), "a container"),
            (&of_root, user(true, true, false), "a container"),
            (&of_root, user(false, false, false), "Run pmctl as root"),
            (
                &node("perfmon", 0o600),
                user(false, true, true),
                "Run pmctl as root",
            ),
        ] {
            let advice = node.advice(&user);
            assert!(advice.contains(expected), "{node:?}, {user:?}: {advice}");
        }
    }

    #[test]
    fn a_node_is_described() {
        let (words, _) = explain(Path::new("/dev/null")).expect("it exists");
        assert_eq!(
            words,
            "It belongs to root and the group root, with mode 0666."
        );
        assert_eq!(explain(Path::new("/nonexistent")), None);
    }
}
