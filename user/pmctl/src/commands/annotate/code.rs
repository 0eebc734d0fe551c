// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a function.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSegment, ReadCache};

use super::SampledFunction;
use crate::recording::perfdata::{Recording, is_kernel};
use crate::recording::places::running_kernel_build_id;
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
    /// The address of the first byte, as the file or the kernel has it.
    pub(super) address: u64,
    /// The file that the bytes are from; `None` for the kernel's memory.
    pub(super) path: Option<PathBuf>,
}

impl Code {
    /// Reads the code of a function from the file that ran.
    ///
    /// # Errors
    /// A message with the reason why the code can't be read, and what to do.
    pub(super) fn read(recording: &Recording, function: &SampledFunction) -> Result<Self, String> {
        let path = Path::new(&function.path);
        let size = usize::try_from(function.length.min(MAX_FUNCTION_SIZE)).unwrap_or(0);
        let mut bytes = vec![0; size];
        let id = recording.build_id(path);
        if is_kernel(function.start) {
            let is_same = id.is_some() && running_kernel_build_id().as_deref() == id;
            if !is_same {
                return Err(
                    "the recording is of another kernel than the running one: boot that kernel to see its instructions"
                        .to_owned(),
                );
            }
            read_kernel_memory(function.start, &mut bytes)?;
            return Ok(Self {
                bytes,
                address: function.start,
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
            path: Some(file.path),
        })
    }
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
        let inside = start.checked_sub(segment.address())?;
        (inside < segment.size()).then(|| segment.file_range().0 + inside)
    });
    let offset =
        offset.ok_or_else(|| read_error("the file has no code at this address".to_owned()))?;
    let result = file.read_exact_at(bytes, offset);
    result.map_err(|error| read_error(error_text(&error)))
}
