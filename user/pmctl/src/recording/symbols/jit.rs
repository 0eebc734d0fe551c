// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code that a program has made at run time: some write its functions to `/tmp/perf-PID.map`.
//!
//! A line of the file has the first address and the size of a function, both hexadecimal, and its name, which may have
//! blanks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::libc;
use nix::unistd::geteuid;

use super::length::capped;
use crate::system::files;

/// The largest file that is read, in bytes.
const MAX_MAP_SIZE: u64 = 1 << 26;

/// Returns the name that memory without a file has for a process: where its functions are.
pub(crate) fn map_of(pid: u32) -> PathBuf {
    format!("/tmp/perf-{pid}.map").into()
}

/// Returns the process whose memory has this name.
pub(crate) fn process_of(path: &Path) -> Option<u32> {
    let name = path.to_str()?.strip_prefix("/tmp/perf-")?;
    name.strip_suffix(".map")?.parse().ok()
}

/// Returns whether a process has ended, so that files in its mount namespace are out of reach.
pub(crate) fn has_ended(pid: u32) -> bool {
    // A process that was not waited for yet has no root either. Without rights to see it the error is another.
    let root = fs::metadata(format!("/proc/{pid}/root"));
    root.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The functions of a process at some places.
#[derive(Debug, Default)]
pub(super) struct JitFunctions {
    /// End and name by the beginning; none overlap.
    functions: BTreeMap<u64, (u64, String)>,
}

impl JitFunctions {
    /// Reads the functions of a process, which may be in another mount and PID namespace or have ended. `places` are
    /// sorted.
    pub(super) fn read(pid: u32, places: &[u64]) -> Option<Self> {
        let begin = begin(pid);
        let owner = fs::metadata(format!("/proc/{pid}"))
            .ok()
            .map(|process| process.uid());
        let inside = inner_number(pid).unwrap_or(pid);
        let inside = format!("/proc/{pid}/root/tmp/perf-{inside}.map");
        let bytes = [PathBuf::from(inside), map_of(pid)]
            .iter()
            .find_map(|path| read(path, owner, begin))?;
        Some(Self::parse(&String::from_utf8_lossy(&bytes), places))
    }

    /// Parses the content of a file. What is no line of a function is skipped: the program may be writing the last one.
    fn parse(text: &str, places: &[u64]) -> Self {
        let mut all = Self::default();
        for line in text.lines() {
            let Some((start, size, name)) = function(line) else {
                continue;
            };
            // An empty function covers nothing, so it replaces none around it.
            if size == 0 {
                continue;
            }
            if !name.is_empty() {
                let end = start.saturating_add(size);
                let next = places.partition_point(|place| *place < start);
                let is_wanted = places.get(next).is_some_and(|place| *place < end);
                all.add(start, end, is_wanted.then_some(name));
            }
        }
        all
    }

    /// Adds a function, if it has a name. It replaces those whose memory it has now.
    fn add(&mut self, start: u64, end: u64, name: Option<&str>) {
        let before = self.functions.range(..end).rev();
        let covered = before.take_while(|(_, (old_end, _))| *old_end > start);
        let covered: Vec<u64> = covered.map(|(start, _)| *start).collect();
        for start in covered {
            self.functions.remove(&start);
        }
        if let Some(name) = name {
            self.functions.insert(start, (end, capped(name).to_owned()));
        }
    }

    /// Returns beginning, end and name of the function at an address.
    pub(super) fn at(&self, address: u64) -> Option<(u64, u64, &str)> {
        let (start, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some((*start, *end, name))
    }
}

/// Parses a line: address, size and name, with any blanks and tabs between them, as perf does it.
fn function(line: &str) -> Option<(u64, u64, &str)> {
    let mut rest = line;
    let mut number = || {
        let (field, behind) = rest.trim_start().split_once([' ', '\t'])?;
        rest = behind;
        let digits = field.strip_prefix("0x").or(field.strip_prefix("0X"));
        u64::from_str_radix(digits.unwrap_or(field), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    Some((start, size, rest.trim()))
}

/// Reads a file if it is the process's: not another user's, and not from an earlier process of this number.
fn read(path: &Path, owner: Option<u32>, begin: Option<SystemTime>) -> Option<Vec<u8>> {
    // A link must not lead elsewhere.
    let file = files::open_with(path, libc::O_NOFOLLOW).ok()?;
    let facts = file.metadata().ok()?;
    let is_old = begin.is_some_and(|begin| facts.modified().is_ok_and(|time| time < begin));
    if is_old || !is_trusted(facts.uid(), owner, geteuid().as_raw()) {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_MAP_SIZE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns whether a file of user `file` tells what a process has, of user `owner` if it still lives. Once it has
/// ended, anybody can have written a file of this name: as with perf, it must be root's or that of pmctl's user.
fn is_trusted(file: u32, owner: Option<u32>, user: u32) -> bool {
    file == 0 || file == owner.unwrap_or(user)
}

/// Returns the number that a process has in its own PID namespace.
fn inner_number(pid: u32) -> Option<u32> {
    let status = files::read_lossy(format!("/proc/{pid}/status")).ok()?;
    let numbers = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

/// Returns when a process began, or somewhat earlier; `None` if it has ended.
pub(crate) fn begin(pid: u32) -> Option<SystemTime> {
    /// `USER_HZ`, which is part of the ABI on x86.
    const USER_HZ: f64 = 100.0;
    const START_MARGIN: f64 = 1.0;
    let status = files::read_lossy(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything (proc_pid_stat(5)): the third field is behind it.
    let (_, fields) = status.rsplit_once(')')?;
    let start: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let age = uptime - start / USER_HZ + START_MARGIN;
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(age).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_in_the_name() {
        assert_eq!(process_of(&map_of(42)), Some(42));
        for other in ["/tmp/perf-x.map", "/tmp/perf-42", "/var/tmp/perf-42.map"] {
            assert_eq!(process_of(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn fields_have_any_blanks_between_them() {
        for line in ["1000 20 a b", "0x1000\t0X20\ta b", "  1000   20\t  a b \r"] {
            assert_eq!(function(line), Some((0x1000, 0x20, "a b")), "{line:?}");
        }
        for line in ["", "1000", "1000 20", "x 20 a"] {
            assert_eq!(function(line), None, "{line:?}");
        }
        assert_eq!(function("1000 20 "), Some((0x1000, 0x20, "")));
    }

    #[test]
    fn lines_are_functions_and_later_ones_replace_earlier_ones() {
        let text = "1000 100 old\n0x2000 0x10 a b::c(int)\nx y z\n3000\n1080 100 new\n1200 10 behind\n4000 20 ";
        let mut places = vec![0x1000, 0x10ff, 0x1180, 0x1205, 0x2000, 0x4000];
        let functions = JitFunctions::parse(text, &places);
        let name = |address| functions.at(address).map(|(_, _, name)| name);
        assert_eq!(name(0x1000), None, "its memory has another function");
        assert_eq!(functions.at(0x10ff), Some((0x1080, 0x1180, "new")));
        assert_eq!(name(0x1180), None);
        assert_eq!(name(0x1205), Some("behind"));
        assert_eq!(name(0x2000), Some("a b::c(int)"));
        assert_eq!(name(0x4000), None, "its line is not complete");
        assert_eq!(functions.functions.len(), 3);
        // What is not asked for takes no memory.
        places = vec![0x1000, 0x1205];
        let functions = JitFunctions::parse(text, &places);
        assert_eq!(functions.at(0x1000), None);
        assert_eq!(functions.functions.len(), 1);
    }

    #[test]
    fn an_empty_function_takes_nothing() {
        let functions = JitFunctions::parse("1000 100 around\n1080 0 label", &[0x10c0]);
        assert_eq!(functions.at(0x10c0), Some((0x1000, 0x1100, "around")));
    }

    /// A process that sleeps, and its file, which is removed.
    struct Program(std::process::Child, PathBuf);

    impl Program {
        fn new() -> Self {
            let mut sleep = std::process::Command::new("sleep");
            let child = sleep.arg("60").spawn().expect("there is one");
            let path = map_of(child.id());
            fs::write(&path, "1000 10 f\n").expect("it can be written");
            Self(child, path)
        }

        fn name(&self) -> Option<String> {
            let functions = JitFunctions::read(self.0.id(), &[0x1000])?;
            functions.at(0x1000).map(|(_, _, name)| name.to_owned())
        }

        fn end(&mut self) {
            self.0.kill().expect("it is ours");
            self.0.wait().expect("it ends");
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            self.end();
            let _ = fs::remove_file(&self.1);
        }
    }

    #[test]
    fn a_process_has_functions_while_it_lives_and_afterwards() {
        let mut program = Program::new();
        assert_eq!(program.name().as_deref(), Some("f"));
        program.end();
        assert_eq!(program.name().as_deref(), Some("f"));
    }

    #[test]
    fn a_file_of_an_earlier_process_is_not_read() {
        let program = Program::new();
        let file = fs::File::options()
            .write(true)
            .open(&program.1)
            .expect("it is there");
        let earlier = SystemTime::now() - Duration::from_secs(3600);
        file.set_modified(earlier).expect("it is ours");
        assert_eq!(program.name(), None);
    }

    #[test]
    fn the_file_of_a_process_that_has_ended_is_ones_own_or_roots() {
        const ROOT: u32 = 0;
        for (file, owner, user, trusted) in [
            (7, Some(7), ROOT, true),
            (7, Some(8), ROOT, false),
            (7, Some(8), 7, false),
            (ROOT, Some(8), 7, true),
            (7, None, ROOT, false),
            (7, None, 7, true),
            (8, None, 7, false),
            (ROOT, None, 7, true),
        ] {
            assert_eq!(
                is_trusted(file, owner, user),
                trusted,
                "{file} {owner:?} {user}"
            );
        }
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        let program = Program::new();
        fs::remove_file(&program.1).expect("it is there");
        nix::unistd::mkfifo(&program.1, nix::sys::stat::Mode::S_IRWXU).expect("it can be made");
        assert_eq!(program.name(), None, "and there is an answer");
        fs::remove_file(&program.1).expect("it is there");
        let elsewhere = tempfile::NamedTempFile::new().expect("it can be made");
        fs::write(elsewhere.path(), "1000 10 f\n").expect("it can be written");
        std::os::unix::fs::symlink(elsewhere.path(), &program.1).expect("it can be made");
        assert_eq!(program.name(), None);
    }
}
