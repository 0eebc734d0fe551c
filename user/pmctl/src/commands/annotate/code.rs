// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the machine code of a function.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSegment, ReadCache};

use super::SampledFunction;
use crate::recording::address_spaces::file_name;
use crate::recording::file_text::path_of_text;
use crate::recording::perfdata::{Body, KERNEL, Recording, is_kernel_address};
use crate::recording::places::running_kernel_build_id;
use crate::recording::procfs;
use crate::recording::symbols::{DebugFiles, jit};
use crate::system::files;
use crate::system::text::error_text;

/// The memory of the running kernel, as a file.
const KCORE: &str = "/proc/kcore";
/// The largest function that is shown, in bytes.
const MAX_FUNCTION_SIZE: u64 = 1 << 20;

/// The machine code of a function.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) bytes: Vec<u8>,
    /// The address of the first byte, by the headers of the file. For the kernel, the address
    /// during the recording.
    pub(super) address: u64,
    /// Size of the program's registers in bits: 32 or 64.
    pub(super) bits: u32,
    /// The file that the bytes are from; `None` for the kernel's memory.
    pub(super) path: Option<PathBuf>,
}

impl Code {
    /// Reads the code of a function: from the program's file, or from the kernel's memory.
    ///
    /// # Errors
    /// A message that says why the code can't be read, and what to do.
    pub(super) fn read(recording: &Recording, function: &SampledFunction) -> Result<Self, String> {
        let path = &*path_of_text(&function.path);
        let size = usize::try_from(function.length.min(MAX_FUNCTION_SIZE)).unwrap_or(0);
        let mut bytes = vec![0; size];
        if is_kernel_address(function.start) {
            let displacement = kernel_displacement(recording, path)?;
            read_kernel_memory(function.start.wrapping_add(displacement), &mut bytes)?;
            return Ok(Self {
                bytes,
                address: function.start,
                bits: 64,
                path: None,
            });
        }
        let name = &function.path;
        if jit::process_of(path).is_some() {
            return Err(
                "this function was compiled at run time (JIT), and its code was not recorded. `pmctl report` shows its share"
                    .to_owned(),
            );
        }
        let file = DebugFiles::of_user().locate(path, recording.version(path));
        let file = file.map_err(|absence| {
            format!("{}: its instructions are not shown", absence.reason(name))
        })?;
        let address = file.elf.address(function.start);
        let address = address.ok_or_else(|| format!("{name}: this function is not in the file"))?;
        let result =
            files::open(&file.path).and_then(|file| file.read_exact_at(&mut bytes, function.start));
        result.map_err(|error| format!("can't read {name}: {}", error_text(&error)))?;
        Ok(Self {
            bytes,
            address,
            bits: file.elf.bits(),
            path: Some(file.path),
        })
    }
}

/// Returns the number of bytes by which KASLR has moved the kernel's image since the recording: the
/// address may change at each boot. For a module, returns 0, or fails if the module has moved.
///
/// # Errors
/// The reason why the recorded code can't be found in memory.
fn kernel_displacement(recording: &Recording, part: &Path) -> Result<u64, String> {
    let image = Path::new(KERNEL);
    let id = recording.build_id(image);
    if id.is_none() || running_kernel_build_id().as_deref() != id {
        return Err(
            "the recording is of another kernel than the running one: boot that kernel to see its instructions"
                .to_owned(),
        );
    }
    let recorded_start = recorded_start(recording, part);
    if part == image {
        return displacement(recorded_start, procfs::kernel_start());
    }
    let name = part.to_string_lossy();
    if !name.starts_with('[') {
        return Err(format!(
            "{name} was compiled at run time (BPF), and its code was not recorded"
        ));
    }
    let mut modules = procfs::modules().into_iter();
    let current_start = modules.find_map(|(module, start, _)| (module == name).then_some(start));
    // A module that was loaded again may be another version.
    let is_unmoved = current_start.is_some() && current_start == recorded_start;
    is_unmoved.then_some(0).ok_or_else(|| {
        format!("the module {name} is not where it was recorded: it was removed or loaded again")
    })
}

/// Returns the address at which a part of the kernel began in a recording, if it is known.
fn recorded_start(recording: &Recording, part: &Path) -> Option<u64> {
    recording
        .records
        .iter()
        .find_map(|record| match record.ok()?.body {
            Body::Map(map) if map.is_kernel && file_name(&map) == part => Some(map.start),
            _ => None,
        })
}

/// Returns the distance in bytes between the start addresses of the kernel's image in the recording and now.
fn displacement(recorded_start: Option<u64>, current_start: Option<u64>) -> Result<u64, String> {
    let recorded_start =
        recorded_start.ok_or("the recording does not tell at which address the kernel was")?;
    let current_start = current_start.ok_or(
        "the kernel may have moved since the recording, and its addresses are hidden: try as root, or set \
         `sysctl kernel.kptr_restrict=0`",
    )?;
    Ok(current_start.wrapping_sub(recorded_start))
}

/// Reads memory of the running kernel.
fn read_kernel_memory(start: u64, bytes: &mut [u8]) -> Result<(), String> {
    let read_error = |reason: String| {
        format!(
            "can't read the kernel's instructions from {KCORE}: {reason}. Try as root (CAP_SYS_RAWIO)"
        )
    };
    let file = File::open(KCORE).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!(
            "can't read the kernel's instructions: there is no {KCORE}, as this kernel is built without \
             CONFIG_PROC_KCORE. `pmctl annotate SYMBOL` shows a function of a program"
        ),
        _ => read_error(error_text(&error)),
    })?;
    let cache = ReadCache::new(&file);
    let core = object::File::parse(&cache).map_err(|error| read_error(error_text(&error)))?;
    let offset = core.segments().find_map(|segment| {
        let offset_in_segment = start.checked_sub(segment.address())?;
        (offset_in_segment < segment.size()).then(|| segment.file_range().0 + offset_in_segment)
    });
    let offset =
        offset.ok_or_else(|| read_error("the file has no code at this address".to_owned()))?;
    let result = file.read_exact_at(bytes, offset);
    result.map_err(|error| read_error(error_text(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::{BuildId, Map, Record, Records, Stamp};

    #[test]
    fn a_kernel_that_has_moved_is_found() {
        let start = 0xffff_ffff_8f00_0000;
        let image = Map {
            is_kernel: true,
            start,
            file: format!("{KERNEL}_text").into(),
            ..Map::default()
        };
        let record = Record {
            stamp: Stamp::default(),
            body: Body::Map(image),
        };
        let recording = Recording {
            records: Records::from(&[record][..]),
            ..Recording::default()
        };
        let recorded = recorded_start(&recording, Path::new(KERNEL));
        for now in [start, start + 0x100_0000, start - 0x100_0000] {
            let place =
                displacement(recorded, Some(now)).map(|bytes| (start + 8).wrapping_add(bytes));
            assert_eq!(place, Ok(now + 8));
        }
        let error = displacement(recorded, None).expect_err("the address is hidden");
        assert!(error.contains("kptr_restrict"), "{error}");
        let error = displacement(None, Some(start)).expect_err("it was hidden");
        assert!(error.contains("does not tell"), "{error}");
    }

    #[test]
    fn the_reason_why_a_module_is_not_shown_is_its_own() {
        let mut recording = Recording::default();
        let reason = |recording: &Recording, part: &str| {
            kernel_displacement(recording, Path::new(part)).expect_err("it is not there")
        };
        assert!(reason(&recording, "[module]").contains("another kernel"));
        recording.build_ids = vec![BuildId {
            file: KERNEL.into(),
            is_kernel: true,
            id: running_kernel_build_id().expect("each kernel has one"),
        }];
        let words = reason(&recording, "[module]");
        assert!(
            words.contains("[module] is not where it was recorded"),
            "{words}"
        );
        let words = reason(&recording, "bpf_prog_12_x");
        assert!(words.contains("compiled at run time (BPF)"), "{words}");
    }
}
