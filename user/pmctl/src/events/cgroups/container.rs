// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the container of a cgroup by the cgroup's name, in the forms that container managers use.

use std::path::Path;

/// The container that the name of a cgroup describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerNames {
    /// The program that runs the container, if only one program uses this form of name.
    pub(crate) runtime: Option<&'static str>,
    /// The container's ID.
    pub(crate) id: Option<String>,
    /// The UID of the container's pod, or of the pod if the cgroup is a pod.
    pub(crate) pod: Option<String>,
    /// The name of a virtual machine or of a systemd unit; for a container without a name, its ID.
    pub(crate) name: Option<String>,
}

/// Prefixes of container IDs with the runtimes that use them, as in `PREFIX-ID`, or `PREFIX-ID.scope` under systemd.
const ID_PREFIXES: [(&str, &str); 6] = [
    ("docker", "docker"),
    ("cri-containerd", "containerd"),
    ("nerdctl", "containerd"),
    ("crio", "cri-o"),
    ("libpod", "podman"),
    // Within a unit of systemd: `podman run --cgroups=split`, as Quadlet has it.
    ("libpod-payload", "podman"),
];

/// Parent cgroups of containers whose ID has no prefix, each with the runtime of these containers.
/// In pods the runtime is not known.
const ID_PARENTS: [(&str, &str); 5] = [
    ("docker", "docker"),
    ("moby", "docker"),
    ("default", "containerd"),
    ("k8s.io", "containerd"),
    ("libpod_parent", "podman"),
];

/// Suffixes of the systemd units that have cgroups.
const UNIT_SUFFIXES: [&str; 5] = [".service", ".scope", ".slice", ".socket", ".mount"];

impl ContainerNames {
    /// Parses the name of a cgroup. A cgroup within a container does not count as a container, although its name may have
    /// the form of one, as in nodes of Kubernetes that are containers: the outer container's counts include it.
    pub(crate) fn of(name: &Path) -> Self {
        let levels: Vec<String> = name
            .iter()
            .map(|level| level.to_string_lossy().into_owned())
            .collect();
        let Some((last, parents)) = levels.split_last() else {
            return Self::default();
        };
        if is_within_container(parents) {
            return Self {
                name: unit_name(last),
                ..Self::default()
            };
        }
        let parent = parents.last().map_or("", String::as_str);
        if let Some(pod) = pod_uid(last) {
            return Self {
                pod: Some(pod),
                name: unit_name(last),
                ..Self::default()
            };
        }
        if let Some((runtime, id, slice)) = find_container(last, parent) {
            return Self {
                runtime,
                name: Some(id.to_owned()),
                id: Some(id.to_owned()),
                pod: pod_uid(slice.unwrap_or(parent)),
            };
        }
        match find_machine(last, parent) {
            Some((runtime, name)) => Self {
                runtime: Some(runtime),
                name: Some(name),
                ..Self::default()
            },
            None => Self {
                name: unit_name(last),
                ..Self::default()
            },
        }
    }
}

/// Returns whether one of these levels is a container with an ID.
fn is_within_container(levels: &[String]) -> bool {
    let parents = std::iter::once("").chain(levels.iter().map(String::as_str));
    parents
        .zip(levels)
        .any(|(parent, level)| find_container(level, parent).is_some())
}

/// Returns the runtime and the ID of a container. The third value is the slice of its pod, if this level of the name
/// contains the slice, too.
fn find_container<'a>(
    level: &'a str,
    parent: &str,
) -> Option<(Option<&'static str>, &'a str, Option<&'a str>)> {
    let runtime_in = |table: &[(&str, &'static str)], word: &str| {
        let entry = table.iter().find(|(known, _)| *known == word);
        entry.map(|(_, runtime)| *runtime)
    };
    // SLICE:PREFIX:ID is written if runc uses the systemd driver, but its caller expects cgroupfs.
    if let [slice, prefix, id] = level.split(':').collect::<Vec<_>>()[..] {
        return is_id(id).then(|| (runtime_in(&ID_PREFIXES, prefix), id, Some(slice)));
    }
    let level = level.strip_suffix(".scope").unwrap_or(level);
    if is_id(level) {
        return Some((runtime_in(&ID_PARENTS, parent), level, None));
    }
    let (prefix, id) = level.rsplit_once('-')?;
    let runtime = runtime_in(&ID_PREFIXES, prefix)?;
    is_id(id).then_some((Some(runtime), id, None))
}

/// Returns the runtime and the name of a virtual machine, or of a container without an ID.
fn find_machine(level: &str, parent: &str) -> Option<(&'static str, String)> {
    let nspawn = level.strip_prefix("systemd-nspawn@");
    if let Some(name) = nspawn.and_then(|name| name.strip_suffix(".service")) {
        return Some(("systemd-nspawn", unescape(name)));
    }
    let machine = level.strip_prefix("machine-");
    if let Some(name) = machine.and_then(|name| name.strip_suffix(".scope")) {
        return Some(("machine", unescape(name)));
    }
    if let Some(name) = level.strip_prefix("lxc.payload.") {
        return Some(("lxc", name.to_owned()));
    }
    (parent == "lxc").then(|| ("lxc", level.to_owned()))
}

/// Returns the UID of a pod, if a level of a name stands for a pod. Kubernetes writes `podUID`, or
/// `-podUID.slice` with `_` for the hyphens of the UID; podman writes `libpod_pod_ID.slice`.
fn pod_uid(level: &str) -> Option<String> {
    if let Some(slice) = level.strip_suffix(".slice") {
        if let Some((_, id)) = slice.rsplit_once("libpod_pod_") {
            return is_id(id).then(|| id.to_owned());
        }
        let (before, uid) = slice.rsplit_once("-pod")?;
        let is_kubernetes = before.split('-').any(|part| part == "kubepods");
        return (is_kubernetes && is_uid(uid)).then(|| uid.replace('_', "-"));
    }
    let uid = level.strip_prefix("pod")?;
    is_uid(uid).then(|| uid.to_owned())
}

/// Returns the name of a systemd unit, if a level stands for a unit.
fn unit_name(level: &str) -> Option<String> {
    let is_unit = UNIT_SUFFIXES.iter().any(|end| level.ends_with(end));
    is_unit.then(|| level.to_owned())
}

/// Returns whether a text is the ID of a container: 64 hexadecimal digits.
fn is_id(text: &str) -> bool {
    const DIGITS: usize = 64;
    text.len() == DIGITS && is_hex(text)
}

/// Returns whether a text is the UID of a pod: a UUID, or the hash of a static pod's file.
fn is_uid(text: &str) -> bool {
    const UID_DIGITS: usize = 32;
    let digits = text.replace(['-', '_'], "");
    digits.len() == UID_DIGITS && is_hex(&digits)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a name with systemd's escapes `\xNN` replaced by their bytes.
fn unescape(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("\\x") {
        let digits = rest.get(at + 2..at + 4);
        let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            break;
        };
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        bytes.push(byte);
        rest = &rest[at + 4..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "a1b2c3d4-0000-1111-2222-333344445555";
    /// [`UID`] as it stands in the name of a slice.
    const UID_: &str = "a1b2c3d4_0000_1111_2222_333344445555";
    /// The UID of a static pod.
    const HASH: &str = "00112233445566778899aabbccddeeff";

    /// A form, and the expected runtime, ID, pod and name. `ID`, `UID`, `UID_` and `HASH` stand for the constants.
    type Form = (
        &'static str,
        &'static str,
        &'static str,
        &'static str,
        &'static str,
    );

    const FORMS: &[Form] = &[
        // Kubernetes with the cgroupfs driver.
        ("kubepods", "", "", "", ""),
        ("kubepods/burstable", "", "", "", ""),
        ("kubepods/podUID", "", "", "UID", ""),
        ("kubepods/burstable/podUID", "", "", "UID", ""),
        ("kubepods/burstable/podUID/ID", "", "ID", "UID", "ID"),
        ("kubepods/besteffort/podHASH/ID", "", "ID", "HASH", "ID"),
        ("kubepods/podUID/crio-ID", "cri-o", "ID", "UID", "ID"),
        // Kubernetes with the systemd driver.
        ("kubepods.slice", "", "", "", "kubepods.slice"),
        (
            "kubepods.slice/kubepods-podUID_.slice",
            "",
            "",
            "UID",
            "kubepods-podUID_.slice",
        ),
        (
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice/cri-containerd-ID.scope",
            "containerd",
            "ID",
            "UID",
            "ID",
        ),
        (
            "kubepods.slice/kubepods-podUID_.slice/crio-ID.scope",
            "cri-o",
            "ID",
            "UID",
            "ID",
        ),
        (
            "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podHASH.slice/docker-ID.scope",
            "docker",
            "ID",
            "HASH",
            "ID",
        ),
        // In kind and other nodes that are containers.
        (
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podUID_.slice/cri-containerd-ID.scope",
            "containerd",
            "ID",
            "UID",
            "ID",
        ),
        // CRI-O's monitor of a container, and a cgroup within a container.
        (
            "kubepods.slice/kubepods-podUID_.slice/crio-conmon-ID.scope",
            "",
            "",
            "",
            "crio-conmon-ID.scope",
        ),
        ("kubepods/podUID/ID/init.scope", "", "", "", "init.scope"),
        // containerd that expects cgroupfs, while runc uses systemd.
        (
            "system.slice/containerd.service/kubepods-burstable-podUID_.slice:cri-containerd:ID",
            "containerd",
            "ID",
            "UID",
            "ID",
        ),
        // Docker, as root and rootless.
        ("docker/ID", "docker", "ID", "", "ID"),
        ("system.slice/docker-ID.scope", "docker", "ID", "", "ID"),
        (
            "user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope",
            "docker",
            "ID",
            "",
            "ID",
        ),
        // containerd without Docker and Kubernetes.
        ("default/ID", "containerd", "ID", "", "ID"),
        (
            "system.slice/nerdctl-ID.scope",
            "containerd",
            "ID",
            "",
            "ID",
        ),
        // Podman: containers outside of pods and in pods, and crun's cgroup within the container's cgroup.
        ("machine.slice/libpod-ID.scope", "podman", "ID", "", "ID"),
        ("machine.slice/libpod-ID.scope/container", "", "", "", ""),
        (
            "machine.slice/libpod-conmon-ID.scope",
            "",
            "",
            "",
            "libpod-conmon-ID.scope",
        ),
        (
            "machine.slice/machine-libpod_pod_ID.slice",
            "",
            "",
            "ID",
            "machine-libpod_pod_ID.slice",
        ),
        (
            "machine.slice/machine-libpod_pod_ID.slice/libpod-ID.scope",
            "podman",
            "ID",
            "ID",
            "ID",
        ),
        ("libpod_parent/libpod-ID", "podman", "ID", "", "ID"),
        (
            "system.slice/web.service/libpod-payload-ID",
            "podman",
            "ID",
            "",
            "ID",
        ),
        // Within a container: a node of Kubernetes, Docker in a pod, and a name that a program has chosen.
        (
            "docker/ID/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podUID_.slice",
            "",
            "",
            "",
            "kubelet-kubepods-podUID_.slice",
        ),
        (
            "docker/ID/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podUID_.slice/cri-containerd-ID.scope",
            "",
            "",
            "",
            "cri-containerd-ID.scope",
        ),
        ("kubepods/podUID/ID/docker/ID", "", "", "", ""),
        // systemd-nspawn has no ID, so only the inner container has one.
        (
            "machine.slice/systemd-nspawn@web.service/payload/docker/ID",
            "docker",
            "ID",
            "",
            "ID",
        ),
        // Virtual machines, and containers without an ID.
        (
            "machine.slice/systemd-nspawn@web.service",
            "systemd-nspawn",
            "",
            "",
            "web",
        ),
        (
            r"machine.slice/machine-qemu\x2d1\x2dweb.scope",
            "machine",
            "",
            "",
            "qemu-1-web",
        ),
        ("lxc.payload.web", "lxc", "", "", "web"),
        ("lxc/web", "lxc", "", "", "web"),
        ("lxc.monitor.web", "", "", "", ""),
        // Systemd.
        ("system.slice/ssh.service", "", "", "", "ssh.service"),
        (
            "user.slice/user-1000.slice/session-3.scope",
            "",
            "",
            "",
            "session-3.scope",
        ),
        ("init.scope", "", "", "", "init.scope"),
        // Names that have none of these forms.
        ("", "", "", "", ""),
        ("batch/job-17", "", "", "", ""),
        ("docker/short", "", "", "", ""),
        ("podcast", "", "", "", ""),
        (
            "system.slice/other-podUID_.slice",
            "",
            "",
            "",
            "other-podUID_.slice",
        ),
    ];

    fn fill_in(text: &str) -> String {
        let text = text.replace("UID_", UID_).replace("UID", UID);
        text.replace("HASH", HASH).replace("ID", ID)
    }

    #[test]
    fn names_are_found_in_each_form() {
        for (cgroup, runtime, id, pod, name) in FORMS {
            let container = ContainerNames::of(Path::new(&fill_in(cgroup)));
            let text = |text: &str| (!text.is_empty()).then(|| fill_in(text));
            assert_eq!(container.runtime.unwrap_or(""), *runtime, "{cgroup}");
            assert_eq!(container.id, text(id), "{cgroup}");
            assert_eq!(container.pod, text(pod), "{cgroup}");
            assert_eq!(container.name, text(name), "{cgroup}");
        }
    }

    #[test]
    fn names_are_unescaped() {
        assert_eq!(unescape(r"a\x2db"), "a-b");
        assert_eq!(unescape(r"a\x"), r"a\x");
        assert_eq!(unescape(r"a\xzz\x2d"), r"a\xzz\x2d");
        assert_eq!(unescape(r"\xc3\xa9"), "é");
    }
}
