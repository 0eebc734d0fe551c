// SPDX-License-Identifier: MIT OR Apache-2.0
//! State before the recording, from `/proc`: names and mappings of processes, and the kernel's addresses.
//!
//! Crate procfs is not used: a path that is not UTF-8 makes it fail for all mappings of a process, a short path that
//! begins with /SYSV makes it panic, and it reads neither the modules' addresses nor the kernel's symbols.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::recording::address_spaces::is_memfd;
use crate::recording::perfdata::{Body, KERNEL, Map, Record, Stamp, Task};
use crate::system::files::read_lossy;

/// The mappings of processes that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MappingKinds {
    /// Mappings that can be executed.
    Code,
    /// All mappings.
    CodeAndData,
}

/// Time in the records of the state before the recording, in nanoseconds.
const BEFORE_RECORDING: u64 = 0;

fn make_record(task: Task, body: Body) -> Record {
    Record {
        stamp: Stamp {
            time: BEFORE_RECORDING,
            task,
            cpu: 0,
        },
        body,
    }
}

/// Returns records of the names and the mappings of all processes.
pub(crate) fn process_records(kinds: MappingKinds) -> Vec<Record> {
    numeric_names("/proc")
        .into_iter()
        .flat_map(|pid| process_records_of(pid, kinds))
        .collect()
}

/// Returns records of the names of a process's threads and of its mappings; none if the process has ended.
pub(crate) fn process_records_of(pid: u32, kinds: MappingKinds) -> Vec<Record> {
    let names = numeric_names(format!("/proc/{pid}/task"))
        .into_iter()
        .filter_map(|tid| {
            let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
            let task = Task { pid, tid };
            let name = String::from_utf8_lossy(&name).trim_end().to_owned();
            let exec = false;
            Some(make_record(task, Body::Comm { task, name, exec }))
        });
    names.chain(mapping_records(pid, kinds)).collect()
}

/// Returns whether a process or thread exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let status = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name is in parentheses and may contain anything; the state is after it (proc_pid_stat(5)).
    let mut after_name = status.rsplit(|byte| *byte == b')');
    matches!(after_name.next(), Some([b' ', state, ..]) if !b"ZXx".contains(state))
}

/// Returns whether one of these processes or threads is alive.
pub(crate) fn is_any_alive(tids: &[u32]) -> bool {
    tids.iter().any(|tid| is_alive(*tid))
}

/// Returns the process of a thread; the thread's own number if the thread has ended.
pub(crate) fn process_of(tid: u32) -> u32 {
    let status = read_lossy(format!("/proc/{tid}/status")).unwrap_or_default();
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    number
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(tid)
}

/// Returns records of the mappings of a process. A program of `memfd_create(2)` comes first, as
/// [`is_memfd`] requires.
fn mapping_records(pid: u32, kinds: MappingKinds) -> Vec<Record> {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let task = Task::leader(pid);
    let maps = maps.split(|byte| *byte == b'\n').filter_map(parse_mapping);
    let maps = maps.filter(|map| kinds == MappingKinds::CodeAndData || !map.is_data);
    let mut maps: Vec<Record> = maps
        .map(|map| make_record(task, Body::Map(Map { task, ..map })))
        .collect();
    if maps.iter().any(|record| is_memfd(&record.body)) {
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let is_program = |body: &Body| match body {
            Body::Map(map) => Some(&map.file) == program.as_ref(),
            _ => false,
        };
        maps.sort_by_key(|record| !is_program(&record.body));
    }
    maps
}

/// Returns the numbers among the names in a folder.
fn numeric_names(folder: impl AsRef<Path>) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.collect()
}

/// Parses a line of `/proc/PID/maps`, such as `00400000-00401000 r-xp 00001000 08:01 99        /bin/true`. A path may have
/// any bytes; the kernel writes a newline in it as `\012`.
fn parse_mapping(line: &[u8]) -> Option<Map> {
    const EXECUTE: u32 = 4;
    const READ: u32 = 1;
    const WRITE: u32 = 2;
    const PRIVATE: u32 = 2;
    const SHARED: u32 = 1;
    let parse_hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let hexadecimal_u32 = |text: &str| u32::from_str_radix(text, 16).ok();

    let mut parts = line.splitn(6, |byte| *byte == b' ');
    let mut fields = parts
        .by_ref()
        .take(5)
        .map_while(|field| std::str::from_utf8(field).ok());
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (parse_hexadecimal(start)?, parse_hexadecimal(end)?);
    let flags = fields.next()?;
    let offset = parse_hexadecimal(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let file = match parts.next().unwrap_or_default().trim_ascii_start() {
        b"" => PathBuf::from("//anon"),
        path => PathBuf::from(OsString::from_vec(with_newlines(path))),
    };
    let bit = |letter, bit| if flags.contains(letter) { bit } else { 0 };
    Some(Map {
        is_data: !flags.contains('x'),
        start,
        length: end.checked_sub(start)?,
        offset,
        device: (hexadecimal_u32(major)?, hexadecimal_u32(minor)?),
        inode,
        protection: bit('r', READ) | bit('w', WRITE) | bit('x', EXECUTE),
        flags: bit('p', PRIVATE) | bit('s', SHARED),
        file,
        ..Map::default()
    })
}

/// Returns a path of `/proc/PID/maps` with newlines in place of `\012`.
fn with_newlines(path: &[u8]) -> Vec<u8> {
    const NEWLINE: &[u8] = br"\012";
    let mut parts = path.to_vec();
    while let Some(at) = parts
        .windows(NEWLINE.len())
        .position(|text| text == NEWLINE)
    {
        parts.splice(at..at + NEWLINE.len(), *b"\n");
    }
    parts
}

/// Returns the addresses of the beginning and the end of the kernel's code; `None` if they are hidden from this user.
fn kernel_code() -> Option<(u64, u64)> {
    let symbols = File::open("/proc/kallsyms").map(BufReader::new).ok()?;
    let length = code_length(&fs::read_to_string("/proc/iomem").unwrap_or_default());
    kernel_code_range(symbols, length)
}

/// Returns the address at which the image of the running kernel begins; `None` if it is hidden from this user.
pub(crate) fn kernel_start() -> Option<u64> {
    kernel_code().map(|(start, _)| start)
}

/// Returns records of the mappings of the kernel and its modules; none if the addresses are hidden from this user.
pub(crate) fn kernel_records() -> Vec<Record> {
    let Some((start, end)) = kernel_code() else {
        return Vec::new();
    };
    // perf finds out by the address of the symbol in the name how far KASLR has moved the kernel.
    let image = (format!("{KERNEL}_text"), start, end - start);
    [image]
        .into_iter()
        .chain(modules())
        .map(|(name, start, length)| {
            // The kernel has no process, which perf shows as -1, and no thread.
            let task = Task {
                pid: u32::MAX,
                tid: 0,
            };
            make_record(
                task,
                Body::Map(Map {
                    task,
                    is_kernel: true,
                    start,
                    length,
                    offset: start,
                    file: name.into(),
                    ..Map::default()
                }),
            )
        })
        .collect()
}

/// Returns the names, start addresses and lengths in bytes of the kernel's modules; none if the addresses are hidden
/// from this user.
pub(crate) fn modules() -> Vec<(String, u64, u64)> {
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    modules.lines().filter_map(parse_module).collect()
}

/// Returns the addresses of the beginning and the end of the kernel's code; `None` if they read as 0, as they do without
/// privilege.
///
/// Reads as few symbols as possible, since the kernel takes thousands of instructions to write each. The symbols are in the
/// order of their addresses, so the first few suffice if the `length` of the code is known.
fn kernel_code_range(mut symbols: impl BufRead, length: Option<u64>) -> Option<(u64, u64)> {
    let mut start: Option<u64> = None;
    let mut line = Vec::new();
    while symbols.read_until(b'\n', &mut line).ok()? != 0 {
        let mut words = line.trim_ascii_end().split(|byte| *byte == b' ');
        let (address, _, name) = (words.next()?, words.next(), words.next());
        let address = || u64::from_str_radix(std::str::from_utf8(address).ok()?, 16).ok();
        match name {
            Some(b"_text") => {
                start = Some(address()?).filter(|start| *start != 0);
                if let Some(length) = length {
                    return start.and_then(|start| Some((start, start.checked_add(length)?)));
                }
            }
            Some(b"_etext") => {
                let (start, end) = (start?, address()?);
                return (start < end).then_some((start, end));
            }
            _ => {}
        }
        line.clear();
    }
    None
}

/// Returns the length of the kernel's code in bytes from `/proc/iomem`, which has a line like
/// `  01000000-0173dd9f : Kernel code`; `None` if the addresses in it are 0, as they are without privilege.
fn code_length(iomem: &str) -> Option<u64> {
    let code = iomem
        .lines()
        .find_map(|line| line.trim_start().strip_suffix(" : Kernel code"))?;
    let (start, last) = code.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let (start, last) = (number(start)?, number(last)?);
    (0 < start && start < last).then_some(last - start + 1)
}

/// Parses a line of `/proc/modules`, such as `perfmon 65536 0 - Live 0xffffffffc0000000`, into name, start and length.
fn parse_module(line: &str) -> Option<(String, u64, u64)> {
    let mut fields = line.split(' ');
    let name = fields.next()?;
    let length = fields.next()?.parse().ok()?;
    let start = fields.nth(3)?.strip_prefix("0x")?;
    let start = u64::from_str_radix(start, 16).ok()?;
    (start != 0).then(|| (format!("[{name}]"), start, length))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn mappings_are_parsed() {
        let map =
            parse_mapping(b"00400000-00401000 r-xp 00001000 08:02 99                   /bin/a b")
                .expect("it is well formed");
        assert_eq!(
            (map.start, map.length, map.offset),
            (0x40_0000, 0x1000, 0x1000)
        );
        assert_eq!((map.device, map.inode), ((8, 2), 99));
        assert_eq!((map.protection, map.flags), (5, 2));
        assert_eq!(map.file, Path::new("/bin/a b"));
        let map =
            parse_mapping(b"7f0000000000-7f0000001000 rwxp 00000000 00:00 0 ").expect("it is, too");
        assert_eq!(map.file, Path::new("//anon"));
        assert!(!map.is_data);
        let data = parse_mapping(b"00400000-00401000 rw-p 00001000 08:02 99 /bin/true");
        assert!(data.is_some_and(|map| map.is_data && map.protection == 3));
        let odd = parse_mapping(b"00400000-00401000 r-xp 0 08:02 99 /caf\xe9/a\\012b\\012c");
        let path = Path::new(OsStr::from_bytes(b"/caf\xe9/a\nb\nc"));
        assert!(odd.is_some_and(|map| map.file == path));
        for other in ["", "x"] {
            assert_eq!(parse_mapping(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn this_process_has_a_name_and_mappings() {
        let has_record = |kinds, wanted: fn(&Body) -> bool| {
            let records = process_records_of(std::process::id(), kinds);
            records.iter().any(|record| wanted(&record.body))
        };
        let is_data = |body: &Body| matches!(body, Body::Map(map) if map.is_data);
        for kinds in [MappingKinds::Code, MappingKinds::CodeAndData] {
            assert!(has_record(kinds, |body| matches!(body, Body::Comm { .. })));
            assert!(has_record(
                kinds,
                |body| matches!(body, Body::Map(map) if !map.is_data && map.file.is_absolute())
            ));
        }
        assert!(has_record(MappingKinds::CodeAndData, is_data));
        assert!(!has_record(MappingKinds::Code, is_data));
    }

    #[test]
    fn a_process_is_alive_until_it_ends() {
        assert!(is_alive(std::process::id()));
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("there is one");
        let pid = child.id();
        // The child stays a zombie until it is waited for.
        while is_alive(pid) {
            std::thread::yield_now();
        }
        child.wait().expect("it ends");
        assert!(!is_alive(pid));
    }

    #[test]
    fn the_kernels_addresses_may_be_hidden() {
        let symbols = |text: u64| {
            format!(
                "0000000000000000 A first\n{text:016x} T _text\n{text:016x} T _stext\nffffffff82000000 T _etext\n"
            )
        };
        let start = 0xffff_ffff_8100_0000;
        let image_of = |text: &str| kernel_code_range(text.as_bytes(), None);
        let code_range = Some((start, 0xffff_ffff_8200_0000));
        assert_eq!(image_of(&symbols(start)), code_range);
        assert_eq!(image_of(&symbols(0)), None);
        assert_eq!(image_of(""), None);
        // Symbols after the code are not read.
        let text = symbols(start) + "ffffffff83000000 D data\n";
        let mut rest = text.as_bytes();
        assert_eq!(kernel_code_range(&mut rest, None), code_range);
        assert_eq!(rest, b"ffffffff83000000 D data\n");
        // If the length is known, only the beginning is read.
        let text = "ffffffff81000000 T _text\nffffffff82000000 T _etext\n";
        let mut rest = text.as_bytes();
        assert_eq!(
            kernel_code_range(&mut rest, Some(0x1000)),
            Some((start, start + 0x1000))
        );
        assert_eq!(rest, b"ffffffff82000000 T _etext\n");
    }

    #[test]
    fn the_code_length_is_parsed() {
        let iomem = "00100000-7ffdbfff : System RAM\n  01000000-0173dd9f : Kernel code\n";
        assert_eq!(code_length(iomem), Some(0x73_dda0));
        assert_eq!(code_length("  00000000-00000000 : Kernel code\n"), None);
        assert_eq!(code_length("00100000-7ffdbfff : System RAM\n"), None);
    }

    #[test]
    fn modules_are_parsed() {
        let line = "perfmon 65536 0 - Live 0xffffffffc0000000 (O)";
        let module_at = ("[perfmon]".to_owned(), 0xffff_ffff_c000_0000, 65536);
        assert_eq!(parse_module(line), Some(module_at));
        assert_eq!(
            parse_module("perfmon 65536 0 - Live 0x0000000000000000"),
            None
        );
    }
}
