// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packages of a distribution that have the debug symbols of files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the command that installs the debug symbols of these files; `None` if no package manager knows them.
pub(super) fn install_command(files: &[&Path]) -> Option<String> {
    install_command_for(files, debian_package, "apt install")
        .or_else(|| install_command_for(files, rpm_package, "dnf debuginfo-install"))
}

fn install_command_for(
    files: &[&Path],
    package: impl Fn(&Path) -> Option<String>,
    install: &str,
) -> Option<String> {
    let mut packages: Vec<String> = files.iter().filter_map(|file| package(file)).collect();
    packages.sort_unstable();
    packages.dedup();
    (!packages.is_empty()).then(|| format!("{install} {}", packages.join(" ")))
}

/// Returns the package with the debug symbols of a file on Debian or Ubuntu.
fn debian_package(file: &Path) -> Option<String> {
    let owner = |file: &Path| {
        let answer = output_of(Command::new("dpkg-query").arg("--search").arg(file))?;
        // `libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6`
        let line = answer
            .lines()
            .find(|line| !line.starts_with("diversion "))?;
        let owner = line.split([':', ',']).next()?;
        Some(owner.to_owned())
    };
    // A package lists its files where they are, or where they were before /bin and /lib moved into /usr.
    let other_path = match file.strip_prefix("/usr") {
        Ok(inside) => Path::new("/").join(inside),
        Err(_) => PathBuf::from("/usr").join(file.strip_prefix("/").unwrap_or(file)),
    };
    owner(file)
        .or_else(|| owner(&other_path))
        .map(|owner| match &owner[..] {
            "libc6" => "libc6-dbg".to_owned(),
            owner => format!("{owner}-dbgsym"),
        })
}

/// Returns the package of a file on Fedora, SUSE and other distributions with RPM.
fn rpm_package(file: &Path) -> Option<String> {
    let query = ["--query", "--queryformat", "%{NAME}", "--file"];
    output_of(Command::new("rpm").args(query).arg(file))
}

/// Returns the text that a command prints to standard output; `None` if it fails or prints nothing.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_packages_are_known() {
        let dpkg = Path::new("/usr/bin/dpkg-query");
        if !dpkg.exists() {
            return;
        }
        let moved = Path::new("/bin/dpkg-query");
        let install = "apt install dpkg-dbgsym".to_owned();
        assert_eq!(install_command(&[dpkg]), Some(install.clone()));
        assert_eq!(install_command(&[dpkg, moved]), Some(install), "once");
        assert_eq!(install_command(&[Path::new("/nonexistent")]), None);
    }
}
