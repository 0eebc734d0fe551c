// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs for tests: with separate debug files, with generated code, and with inlined functions.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use ahash::AHashSet;
use object::{Object, ObjectSymbol};
use tempfile::TempDir;

use super::debug_files::hexadecimal;
use super::{DebugFiles, Elf, SymbolFinder, jit};
use crate::recording::perfdata::{
    Body, BuildId, Map, Record, Recording, Records, Sample, Stamp, Task,
};

const SOURCE: &str = "
static __attribute__((noinline)) long hidden(long n) { __asm__ volatile(\"\" : \"+r\"(n)); return n * 3; }
__attribute__((noinline)) long shown(long n) { return hidden(n) + VALUE; }
int main(int argc, char **argv) { return shown(argc); }
";

/// A program without a symbol table, and its debug file.
pub(crate) struct SplitProgram {
    pub(crate) folder: TempDir,
    pub(crate) program: PathBuf,
    pub(crate) debug: PathBuf,
    /// Offset in the file of a function that is not exported.
    pub(crate) hidden: u64,
    /// Offset in the file of an exported function.
    pub(crate) shown: u64,
}

/// A running program that generates a function `made`, executes it, and waits.
pub(crate) struct Generator {
    pub(crate) process: Child,
    /// Address of the generated function.
    pub(crate) address: u64,
    pub(crate) path: PathBuf,
    _folder: TempDir,
}

impl Generator {
    const SOURCE: &str = "
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	static const unsigned char code[] = { 0xb8, 42, 0, 0, 0, 0xc3 };
	char name[64];
	void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *map;

	memcpy(made, code, sizeof(code));
	sprintf(name, \"/tmp/perf-%d.map\", getpid());
	map = fopen(name, \"w\");
	fprintf(map, \"%lx %zx made\\n\", (unsigned long)made, sizeof(code));
	fclose(map);
	printf(\"%lx %d\\n\", (unsigned long)made, ((int (*)(void))made)());
	fflush(stdout);
	return pause();
}
";

    /// Compiles the program and starts it.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (source, path) = (folder.path().join("made.c"), folder.path().join("made"));
        fs::write(&source, Self::SOURCE).expect("it can be written");
        run(Command::new("cc").arg("-o").args([&path, &source]));
        let mut process = Command::new(&path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was compiled");
        let mut line = String::new();
        let output = process.stdout.as_mut().expect("it is a pipe");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it is text");
        let (address, result) = line.trim().split_once(' ').expect("there are two numbers");
        assert_eq!(result, "42");
        Self {
            address: u64::from_str_radix(address, 16).expect("it is a number"),
            process,
            path,
            _folder: folder,
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(jit::map_path(self.process.id()));
    }
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().expect("it is installed");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

impl SplitProgram {
    /// Compiles a program, and splits it.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (program, debug) = compile(folder.path(), "program", 1);
        let elf = Elf::read(&program).expect("it is well formed");
        let whole_program = folder.path().join("program.whole");
        Self {
            hidden: offset(&whole_program, &elf, "hidden"),
            shown: offset(&whole_program, &elf, "shown"),
            folder,
            program,
            debug,
        }
    }

    /// Returns the names of those of both functions that are found, and whether the file has the
    /// names of all functions.
    pub(crate) fn names(&self) -> (Vec<String>, bool) {
        let names = SymbolFinder::new(self.debug_files());
        let offsets = AHashSet::from_iter([self.hidden + 1, self.shown + 2]);
        let table = names.look_up_in(&self.program, &self.program, &offsets);
        for symbol in &table.symbols {
            let start = match &symbol.name[..] {
                "hidden" => self.hidden,
                _ => self.shown,
            };
            assert_eq!(symbol.start, start, "{symbol:?}");
        }
        let mut names: Vec<String> = table.symbols.into_iter().map(|s| s.name).collect();
        names.sort_unstable();
        (names, !table.partial)
    }

    /// Returns folders for debug files, all of them below the program's folder.
    pub(crate) fn debug_files(&self) -> DebugFiles {
        let root = self.folder.path();
        DebugFiles {
            system_folder: root.join("system"),
            debuginfod_caches: vec![root.join("debuginfod")],
            perf_cache: Some(root.join("perf")),
        }
    }

    /// Returns the build-id of the program.
    pub(crate) fn build_id(&self) -> String {
        let elf = Elf::read(&self.program).expect("it is well formed");
        hexadecimal(&elf.build_id.expect("it has one"))
    }

    /// Copies a file to this path below the program's folder.
    pub(crate) fn put(&self, file: &Path, path: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("it can be made");
        fs::copy(file, path).expect("it can be copied");
    }
}

/// Compiles a program `NAME.whole`, splits it, and returns the paths of the stripped program and of the debug file.
pub(crate) fn compile(folder: &Path, name: &str, value: u32) -> (PathBuf, PathBuf) {
    let path_of = |end: &str| folder.join(format!("{name}{end}"));
    fs::write(path_of(".c"), SOURCE).expect("it can be written");
    let (whole, program, debug) = (path_of(".whole"), path_of(""), path_of(".separate"));
    run(Command::new("cc")
        .args(["-O1", "-g", "-rdynamic", "-Wl,--build-id", "-o"])
        .args([&whole, &path_of(".c")])
        .arg(format!("-DVALUE={value}")));
    run(Command::new("objcopy")
        .arg("--only-keep-debug")
        .args([&whole, &debug]));
    let link = format!("--add-gnu-debuglink={}", debug.display());
    run(Command::new("objcopy")
        .args(["--strip-all", &link])
        .args([&whole, &program]));
    let moved_debug = folder.join("elsewhere");
    fs::rename(&debug, &moved_debug).expect("it can be moved");
    (program, moved_debug)
}

/// A program with two functions that were inlined into a third.
pub(crate) struct Inlined {
    _folder: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) build_id: Option<Vec<u8>>,
    /// Offset in the file of an instruction in the innermost function.
    pub(crate) here: u64,
}

impl Inlined {
    /// Address at which the program is mapped in [`Self::recorded`].
    pub(crate) const START: u64 = 0x40_0000;
    const SOURCE: &str = "static inline __attribute__((always_inline)) long inner(long n) {
	__asm__ volatile(\".globl here\\nhere: nop\" : \"+r\"(n)); return n; }

static inline __attribute__((always_inline)) long middle(long n) {
	return inner(n + 1) * 2; }

int main(int argc, char **argv) {
	return middle(argc); }
";

    /// The flag for a program without a build-id.
    pub(crate) const NO_BUILD_ID: &str = "-Wl,--build-id=none";

    /// Compiles the program with these flags.
    pub(crate) fn new(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (source, path) = (
            folder.path().join("inlined.c"),
            folder.path().join("inlined"),
        );
        fs::write(&source, Self::SOURCE).expect("it can be written");
        run(Command::new("cc")
            .args(["-O1", "-Wl,--build-id"])
            .args(flags)
            .arg("-o")
            .args([&path, &source]));
        let elf = Elf::read(&path).expect("it is well formed");
        Self {
            here: offset(&path, &elf, "here"),
            build_id: elf.build_id,
            path,
            _folder: folder,
        }
    }

    /// Updates the program's time of last change, as a linker does when it writes the same program again.
    pub(crate) fn touch(&self) {
        let file = File::options().append(true).open(&self.path);
        let result = file.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH));
        result.expect("it is ours");
    }

    /// Returns a recording of the program with these samples.
    pub(crate) fn recorded(&self, samples: &[Sample]) -> Recording {
        let task = Task::leader(7);
        let map = Body::Map(Map {
            task,
            start: Self::START,
            length: 0x10_0000,
            file: self.path.clone(),
            ..Map::default()
        });
        let stamp = Stamp {
            task,
            ..Stamp::default()
        };
        let samples = samples.iter().cloned().map(Body::Sample);
        let records: Vec<Record> = [map]
            .into_iter()
            .chain(samples)
            .map(|body| Record { stamp, body })
            .collect();
        Recording {
            records: Records::from(&records[..]),
            build_ids: Vec::from_iter(self.build_id.clone().map(|id| BuildId {
                file: self.path.clone(),
                is_kernel: false,
                id,
            })),
            ..Recording::default()
        }
    }
}

/// Looks up a symbol in `whole_program`, and returns its offset in the file of `elf`.
pub(crate) fn offset(whole_program: &Path, elf: &Elf, name: &str) -> u64 {
    let content = fs::read(whole_program).expect("it was compiled");
    let whole_program = object::File::parse(&*content).expect("it is well formed");
    let symbol = whole_program
        .symbols()
        .find(|symbol| symbol.name() == Ok(name));
    let address = symbol.expect("it has a name").address();
    let mut offsets = (0..1 << 20).filter(|offset| elf.address(*offset) == Some(address));
    offsets.next().expect("it is mapped")
}
