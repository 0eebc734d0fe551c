// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compressed sections: by zlib, by zstd, and in programs of Fedora by xz.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::ZlibDecoder;
use object::{CompressionFormat, Object, ObjectSection, ReadCache, ReadRef};
use xz2::stream::Stream;

use crate::system::files;

/// Bytes of the largest section that is read. The unwind tables of the largest programs take a tenth of this limit. The
/// limit guards against small files with a section that unpacks to any size.
pub(crate) const MAX_SECTION_SIZE: u64 = 1 << 28;

/// The highest ratio of unpacked to packed size with which a section above [`MAX_SECTION_SIZE`] is accepted.
const MAX_RATIO: u64 = 100;

/// The section with the small symbol table that Fedora leaves in stripped programs. It is a compressed ELF file.
pub(super) const MINI_DEBUG: &str = ".gnu_debugdata";

/// Returns the bytes of a section, unpacked; `None` if the section is missing, empty, or larger than [`MAX_SECTION_SIZE`].
pub(crate) fn section_content<'a, R: ReadRef<'a>>(
    file: &object::File<'a, R>,
    name: &str,
) -> Option<Vec<u8>> {
    let section = file.section_by_name(name)?;
    let range = section.compressed_file_range().ok()?;
    if range.compressed_size.max(range.uncompressed_size) > MAX_SECTION_SIZE {
        return None;
    }
    let content = section.compressed_data().ok()?;
    let mut bytes = Vec::new();
    let mut unpack = |reader: &mut dyn Read| {
        let size = content.uncompressed_size;
        reader.take(size).read_to_end(&mut bytes).ok()
    };
    match content.format {
        CompressionFormat::None => bytes.extend(content.data),
        CompressionFormat::Zlib => {
            unpack(&mut ZlibDecoder::new(content.data))?;
        }
        CompressionFormat::Zstandard => {
            unpack(&mut zstd::Decoder::with_buffer(content.data).ok()?)?;
        }
        _ => return None,
    }
    // A debug file has the program's other sections without content.
    (!bytes.is_empty()).then_some(bytes)
}

/// Returns the name of a section that would unpack to a size out of proportion, if the file has one. blazesym would unpack
/// it, and run out of memory. `with_debug_info`: looks at sections with debug information, too.
pub(super) fn oversized_section(path: &Path, with_debug_info: bool) -> Option<String> {
    section_larger_than(MAX_SECTION_SIZE, path, with_debug_info)
}

fn section_larger_than(max_size: u64, path: &Path, with_debug_info: bool) -> Option<String> {
    let cache = ReadCache::new(files::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    file.sections().find_map(|section| {
        let name = section.name().ok()?;
        if !with_debug_info && name.starts_with(".debug_") {
            return None;
        }
        let content = section.compressed_data().ok()?;
        let size = content.data.len() as u64;
        let max_unpacked = max_size.max(size.saturating_mul(MAX_RATIO));
        let is_larger = |reader: &mut dyn Read| {
            let copy_result = io::copy(&mut reader.take(max_unpacked + 1), &mut io::sink());
            copy_result.is_ok_and(|unpacked| unpacked > max_unpacked)
        };
        let is_oversized = if name == MINI_DEBUG {
            // The file also says how much memory unpacking takes, which is limited here.
            let stream = Stream::new_stream_decoder(MAX_SECTION_SIZE, 0).ok()?;
            let mut reader = xz2::bufread::XzDecoder::new_stream(content.data, stream);
            is_larger(&mut reader)
        } else if content.format == CompressionFormat::Zstandard {
            is_larger(&mut zstd::Decoder::with_buffer(content.data).ok()?)
        } else {
            // zlib does not pack to less than a thousandth of the size.
            false
        };
        is_oversized.then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn a_section_that_is_too_large_is_not_unpacked() {
        for (kind, number) in [("zlib", 1_u64), ("zstd", 2)] {
            let folder = tempfile::tempdir().expect("a folder can be made");
            let at = |name| folder.path().join(name);
            let source = ".section .debug_frame\n.zero 65536\n";
            fs::write(at("a.s"), source).expect("it can be written");
            let mut compiler = Command::new("cc");
            compiler.arg(format!("-Wa,--compress-debug-sections={kind}"));
            let status = compiler.args(["-c".into(), "-o".into(), at("a.o"), at("a.s")]);
            assert!(status.status().expect("there is a compiler").success());
            let mut program = fs::read(at("a.o")).expect("it was compiled");
            let length = |program: &[u8]| {
                let file = object::File::parse(program).expect("it is well formed");
                section_content(&file, ".debug_frame").map(|bytes| bytes.len())
            };
            assert_eq!(length(&program), Some(65536), "{kind}");
            // The header before the compressed bytes has a type, a reserved word, and the size.
            let head = [&number.to_le_bytes()[..], &65536_u64.to_le_bytes()].concat();
            let position = program.windows(head.len()).position(|part| part == head);
            let size = position.expect("it is compressed") + 8;
            program[size..size + 8].copy_from_slice(&(MAX_SECTION_SIZE + 1).to_le_bytes());
            assert_eq!(length(&program), None, "{kind}");
        }
    }

    #[test]
    fn sections_that_unpack_to_very_much_are_recognized() {
        const SIZE: u64 = 1 << 20;
        let folder = tempfile::tempdir().expect("a folder can be made");
        let at = |name| folder.path().join(name);
        let mut packer = xz2::read::XzEncoder::new(io::repeat(0).take(2 * SIZE), 0);
        let mut packed_file = fs::File::create(at("packed")).expect("it can be made");
        io::copy(&mut packer, &mut packed_file).expect("it can be written");
        let larger = |sections: &str| {
            fs::write(at("a.s"), sections).expect("it can be written");
            let mut compiler = Command::new("cc");
            compiler.args([
                "-c",
                "-Wa,--compress-debug-sections=zstd",
                "-o",
                "a.o",
                "a.s",
            ]);
            let status = compiler.current_dir(folder.path()).status();
            assert!(status.expect("there is a compiler").success());
            [true, false].map(|debug| section_larger_than(SIZE, &at("a.o"), debug))
        };
        let zeros = |size: u64| format!(".section .debug_info\n.zero {size}\n");
        let debug = Some(".debug_info".to_owned());
        assert_eq!(larger(&zeros(2 * SIZE)), [debug, None]);
        assert_eq!(larger(&zeros(SIZE)), [None, None]);
        let mini = ".section .gnu_debugdata,\"\"\n.incbin \"packed\"\n";
        let expected = Some(MINI_DEBUG.to_owned());
        assert_eq!(larger(mini), [expected.clone(), expected]);
    }
}
