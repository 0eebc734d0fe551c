// SPDX-License-Identifier: MIT OR Apache-2.0
//! The build-ids of files, of the kernel and of the vDSO, as they are now.

use std::fs;
use std::path::Path;

use crate::recording::perfdata::{BuildId, KERNEL, VDSO};
use crate::recording::symbols::Elf;
use crate::recording::unwind::vdso_build_id;

/// Returns the build-id of a file, or of the kernel's image, if it has one. `path` is where the file is now.
pub(crate) fn build_id(file: &Path, path: &Path) -> Option<BuildId> {
    let is_kernel = file == Path::new(KERNEL);
    let id = if is_kernel {
        running_kernel_build_id()?
    } else if path == Path::new(VDSO) {
        vdso_build_id()?
    } else if path.is_absolute() {
        Elf::read(path)?.build_id?
    } else {
        // The name is no path, for example that of a module.
        return None;
    };
    Some(BuildId {
        file: file.to_owned(),
        is_kernel,
        id,
    })
}

/// Returns the build-id of the running kernel.
pub(crate) fn running_kernel_build_id() -> Option<Vec<u8>> {
    kernel_build_id(&fs::read("/sys/kernel/notes").ok()?)
}

/// Returns the build-id among ELF notes. A note has the sizes of its name and of its content, its type, and then the name
/// and the content, each padded to 4 bytes (System V gABI, "Note Section").
fn kernel_build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    const BUILD_ID: u32 = 3;
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_ne_bytes);
    loop {
        let (header, rest) = notes.split_at_checked(12)?;
        let size = |at: usize| usize::try_from(number(&header[at..at + 4])?).ok();
        let (name, rest) = rest.split_at_checked(size(0)?.next_multiple_of(4))?;
        let length = size(4)?;
        let content = rest.get(..length)?;
        if number(&header[8..])? == BUILD_ID && name == b"GNU\0" {
            return Some(content.to_vec());
        }
        notes = rest.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_name_of_a_module_is_no_path() {
        let program = std::env::current_exe().expect("it is known");
        assert!(build_id(&program, &program).is_some());
        let folder = std::env::current_dir().expect("it is known");
        let mut relative_path: PathBuf = folder.iter().skip(1).map(|_| "..").collect();
        relative_path.push(program.strip_prefix("/").expect("it is absolute"));
        assert!(relative_path.is_file());
        assert_eq!(build_id(&relative_path, &relative_path), None);
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let note = |kind: u32, name: &[u8], content: &[u8]| {
            let mut bytes = Vec::new();
            for number in [name.len(), content.len(), kind as usize] {
                bytes.extend(u32::try_from(number).expect("it is small").to_ne_bytes());
            }
            bytes.extend(name);
            bytes.extend(content);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let other_note = note(6, b"Xen\0", &[1, 2]);
        let id = note(3, b"GNU\0", &[7; 20]);
        assert_eq!(
            kernel_build_id(&[other_note.clone(), id].concat()),
            Some(vec![7; 20])
        );
        assert_eq!(kernel_build_id(&other_note), None);
        assert_eq!(kernel_build_id(&[0xff; 12]), None);
    }
}
