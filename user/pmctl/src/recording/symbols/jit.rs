// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that a program has generated at run time (JIT). Some programs write their names to `/tmp/perf-PID.map`.
//!
//! A line of the file has the first address and the size of a function, both hexadecimal, and its name, which may contain
//! blanks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::libc;
use nix::unistd::geteuid;

use super::length::truncate_name;
use crate::system::files;

/// The largest number of bytes of a file that are read. They are the last ones: programs append functions, and may use the
/// address of an earlier one again.
const MAX_MAP_SIZE: u64 = 1 << 26;

/// Returns the path of a process's map of functions. In symbol tables, this path also stands for
/// the anonymous memory of the process.
pub(crate) fn map_path(pid: u32) -> PathBuf {
    format!("/tmp/perf-{pid}.map").into()
}

/// Returns the process whose map of functions has this path.
pub(crate) fn process_of(path: &Path) -> Option<u32> {
    let name = path.to_str()?.strip_prefix("/tmp/perf-")?;
    name.strip_suffix(".map")?.parse().ok()
}

/// Returns whether a process has ended, so that files in its mount namespace are out of reach.
pub(crate) fn has_ended(pid: u32) -> bool {
    // A zombie has no root either. Without permission to look at a running process, the error is different.
    let root = fs::metadata(format!("/proc/{pid}/root"));
    root.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The functions of a process that contain one of the requested addresses.
#[derive(Debug, Default)]
pub(super) struct JitFunctions {
    /// End and name of each function by its start address. The functions do not overlap.
    functions: BTreeMap<u64, (u64, String)>,
    /// The file is larger than [`MAX_MAP_SIZE`], so that its beginning was not read.
    pub(super) is_cut: bool,
}

impl JitFunctions {
    /// Reads the functions of a process that contain at least one of `addresses`, which must be sorted. The process may
    /// be in another mount and PID namespace, or have ended.
    pub(super) fn read(pid: u32, addresses: &[u64]) -> Option<Self> {
        let begin = begin_time(pid);
        let owner = fs::metadata(format!("/proc/{pid}"))
            .ok()
            .map(|process| process.uid());
        let inner_pid = pid_in_namespace(pid).unwrap_or(pid);
        let inner_path = format!("/proc/{pid}/root/tmp/perf-{inner_pid}.map");
        let (bytes, is_cut) = [PathBuf::from(inner_path), map_path(pid)]
            .iter()
            .find_map(|path| read_trusted(path, owner, begin))?;
        Some(Self {
            is_cut,
            ..Self::parse(&String::from_utf8_lossy(&bytes), addresses)
        })
    }

    /// Parses the content of a file. Lines that can't be parsed are skipped: the program may be writing the last one.
    fn parse(text: &str, addresses: &[u64]) -> Self {
        let mut functions = Self::default();
        for line in text.lines() {
            let Some((start, size, name)) = parse_line(line) else {
                continue;
            };
            // A function of 0 bytes must not replace one that includes its address.
            if size == 0 {
                continue;
            }
            if !name.is_empty() {
                let end = start.saturating_add(size);
                let next = addresses.partition_point(|address| *address < start);
                let is_wanted = addresses.get(next).is_some_and(|address| *address < end);
                functions.add(start, end, is_wanted.then_some(name));
            }
        }
        functions
    }

    /// Removes the functions that overlap a newer one, and adds the newer one if there is a name.
    fn add(&mut self, start: u64, end: u64, name: Option<&str>) {
        let earlier_functions = self.functions.range(..end).rev();
        let overlapping = earlier_functions.take_while(|(_, (old_end, _))| *old_end > start);
        let overlapping: Vec<u64> = overlapping.map(|(start, _)| *start).collect();
        for start in overlapping {
            self.functions.remove(&start);
        }
        if let Some(name) = name {
            self.functions
                .insert(start, (end, truncate_name(name).to_owned()));
        }
    }

    /// Returns start address, end address and name of the function at an address.
    pub(super) fn at(&self, address: u64) -> Option<(u64, u64, &str)> {
        let (start, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some((*start, *end, name))
    }
}

/// Parses a line into address, size and name. Like perf, it accepts any blanks and tabs between them.
fn parse_line(line: &str) -> Option<(u64, u64, &str)> {
    let mut rest = line;
    let mut number = || {
        let (field, remainder) = rest.trim_start().split_once([' ', '\t'])?;
        rest = remainder;
        let digits = field.strip_prefix("0x").or(field.strip_prefix("0X"));
        u64::from_str_radix(digits.unwrap_or(field), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    Some((start, size, rest.trim()))
}

/// Reads the last [`MAX_MAP_SIZE`] bytes of a file that the process has written, and returns whether it has more. Returns
/// `None` if another user wrote it, or an earlier process with this number.
fn read_trusted(
    path: &Path,
    owner: Option<u32>,
    begin: Option<SystemTime>,
) -> Option<(Vec<u8>, bool)> {
    // A symbolic link could make pmctl read a file that the link's owner can't.
    let mut file = files::open_with(path, libc::O_NOFOLLOW).ok()?;
    let facts = file.metadata().ok()?;
    let is_old = begin.is_some_and(|begin| facts.modified().is_ok_and(|time| time < begin));
    if is_old || !is_trusted(facts.uid(), owner, geteuid().as_raw()) {
        return None;
    }
    let start = facts.len().saturating_sub(MAX_MAP_SIZE);
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start)).ok()?;
    file.take(MAX_MAP_SIZE).read_to_end(&mut bytes).ok()?;
    if start > 0 {
        // The rest of a line would be another function.
        let line_end = bytes.iter().position(|byte| *byte == b'\n');
        bytes.drain(..line_end.unwrap_or(bytes.len()));
    }
    Some((bytes, start > 0))
}

/// Returns whether the map of functions of a process is trusted, by the user ids of the file, of the process (`None`
/// once it has ended), and of pmctl. After the end of a process any user could write the file, so it must belong to
/// root or to the user of pmctl. perf has the same rule.
fn is_trusted(file_user: u32, process_user: Option<u32>, own_user: u32) -> bool {
    file_user == 0 || file_user == process_user.unwrap_or(own_user)
}

/// Returns the process number that a process has in its own PID namespace.
fn pid_in_namespace(pid: u32) -> Option<u32> {
    let status = files::read_lossy(format!("/proc/{pid}/status")).ok()?;
    let numbers = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

/// Returns the time when a process began, or up to a second earlier; `None` if the process has ended.
pub(crate) fn begin_time(pid: u32) -> Option<SystemTime> {
    /// `USER_HZ`, which is part of the ABI on x86.
    const USER_HZ: f64 = 100.0;
    /// Seconds by which the result may be too early. The margin covers rounding, so that the result is never too late.
    const START_MARGIN: f64 = 1.0;
    let status = files::read_lossy(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything (proc_pid_stat(5)); the third field follows it.
    let (_, fields) = status.rsplit_once(')')?;
    let start: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let age = uptime - start / USER_HZ + START_MARGIN;
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(age).ok()?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_process_is_known_by_its_maps_path() {
        assert_eq!(process_of(&map_path(42)), Some(42));
        for other in ["/tmp/perf-x.map", "/tmp/perf-42", "/var/tmp/perf-42.map"] {
            assert_eq!(process_of(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn fields_have_any_blanks_between_them() {
        for line in ["1000 20 a b", "0x1000\t0X20\ta b", "  1000   20\t  a b \r"] {
            assert_eq!(parse_line(line), Some((0x1000, 0x20, "a b")), "{line:?}");
        }
        for line in ["", "1000", "1000 20", "x 20 a"] {
            assert_eq!(parse_line(line), None, "{line:?}");
        }
        assert_eq!(parse_line("1000 20 "), Some((0x1000, 0x20, "")));
    }

    #[test]
    fn lines_are_functions_and_later_ones_replace_earlier_ones() {
        let text = "1000 100 old\n0x2000 0x10 a b::c(int)\nx y z\n3000\n1080 100 new\n1200 10 behind\n4000 20 ";
        let mut addresses = vec![0x1000, 0x10ff, 0x1180, 0x1205, 0x2000, 0x4000];
        let functions = JitFunctions::parse(text, &addresses);
        let name = |address| functions.at(address).map(|(_, _, name)| name);
        assert_eq!(name(0x1000), None, "its memory has another function");
        assert_eq!(functions.at(0x10ff), Some((0x1080, 0x1180, "new")));
        assert_eq!(name(0x1180), None);
        assert_eq!(name(0x1205), Some("behind"));
        assert_eq!(name(0x2000), Some("a b::c(int)"));
        assert_eq!(name(0x4000), None, "the line is not complete");
        assert_eq!(functions.functions.len(), 3);
        // Functions that contain none of the addresses take no memory.
        addresses = vec![0x1000, 0x1205];
        let functions = JitFunctions::parse(text, &addresses);
        assert_eq!(functions.at(0x1000), None);
        assert_eq!(functions.functions.len(), 1);
    }

    #[test]
    fn an_empty_function_replaces_nothing() {
        let functions = JitFunctions::parse("1000 100 around\n1080 0 label", &[0x10c0]);
        assert_eq!(functions.at(0x10c0), Some((0x1000, 0x1100, "around")));
    }

    /// A process that sleeps, and its map of functions, which is removed at the end.
    struct Program(std::process::Child, PathBuf);

    impl Program {
        fn new() -> Self {
            let mut sleep = std::process::Command::new("sleep");
            let child = sleep.arg("60").spawn().expect("there is one");
            let path = map_path(child.id());
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
    fn the_end_of_a_large_file_is_read() {
        let program = Program::new();
        // The last 64 MB begin behind the first digits.
        fs::write(&program.1, "99991000 10 wrong\n").expect("there is room");
        let file = fs::File::options().append(true).open(&program.1);
        let mut file = file.expect("it is there");
        let end = b"\n2000 10 new\n";
        // A hole, which takes no room.
        let hole_end = MAX_MAP_SIZE + 4 - end.len() as u64;
        file.set_len(hole_end).expect("it is ours");
        file.write_all(end).expect("there is room");
        let functions = JitFunctions::read(program.0.id(), &[0x1000, 0x2000]);
        let functions = functions.expect("it is there");
        assert!(functions.is_cut);
        assert_eq!(functions.at(0x1000), None);
        assert_eq!(functions.at(0x2000), Some((0x2000, 0x2010, "new")));
    }

    #[test]
    fn a_file_of_an_earlier_process_is_not_read() {
        let program = Program::new();
        let file = fs::File::options()
            .write(true)
            .open(&program.1)
            .expect("it is there");
        let earlier_time = SystemTime::now() - Duration::from_secs(3600);
        file.set_modified(earlier_time).expect("it is ours");
        assert_eq!(program.name(), None);
    }

    #[test]
    fn map_of_an_ended_process_must_belong_to_root_or_this_user() {
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
    fn only_regular_files_are_read() {
        let program = Program::new();
        fs::remove_file(&program.1).expect("it is there");
        nix::unistd::mkfifo(&program.1, nix::sys::stat::Mode::S_IRWXU).expect("it can be made");
        assert_eq!(program.name(), None, "and opening the pipe does not wait");
        fs::remove_file(&program.1).expect("it is there");
        let other_file = tempfile::NamedTempFile::new().expect("it can be made");
        fs::write(other_file.path(), "1000 10 f\n").expect("it can be written");
        std::os::unix::fs::symlink(other_file.path(), &program.1).expect("it can be made");
        assert_eq!(program.name(), None);
    }
}
