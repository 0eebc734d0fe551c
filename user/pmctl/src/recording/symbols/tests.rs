// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the names of stripped programs, with and without debug files.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::testing::{Inlined, SplitProgram, compile, run};
use super::{DebugFiles, Elf, Lines, SymbolFinder};
use crate::recording::perfdata::{FileFacts, FileVersion};

#[test]
fn a_stripped_program_has_exported_functions() {
    let (names, all) = SplitProgram::new().names();
    assert_eq!(names, ["shown"]);
    assert!(!all);
}

#[test]
fn a_debug_file_has_all_functions() {
    let split_program = SplitProgram::new();
    let id = split_program.build_id();
    let (first, rest) = id.split_at(2);
    for path in [
        format!("system/.build-id/{first}/{rest}.debug"),
        format!("debuginfod/{id}/debuginfo"),
        format!("perf/.build-id/{first}/{rest}/elf"),
        format!("perf/.build-id/{first}/{rest}/debug"),
        "program.separate".to_owned(),
        ".debug/program.separate".to_owned(),
    ] {
        split_program.put(&split_program.debug, &path);
        let names = ["hidden", "shown"].map(str::to_owned).to_vec();
        assert_eq!(split_program.names(), (names, true), "{path}");
        fs::remove_file(split_program.folder.path().join(path)).expect("it is there");
    }
    assert_eq!(split_program.names().0, ["shown"]);
}

#[test]
fn a_build_id_is_compared_as_far_as_recordings_have_it() {
    let long_id: Vec<u8> = (0..32).collect();
    let mut elf = Elf::default();
    elf.build_id = Some(long_id.clone());
    assert!(elf.has_build_id(&long_id) && elf.has_build_id(&long_id[..20]));
    assert!(!elf.has_build_id(&long_id[..16]) && !elf.has_build_id(&[7; 20]));
    assert!(!Elf::default().has_build_id(&[]));
}

#[test]
fn a_debug_link_is_followed_below_the_system_s_folder() {
    let split_program = SplitProgram::new();
    let folder = split_program
        .folder
        .path()
        .canonicalize()
        .expect("it is there");
    let inside = folder.strip_prefix("/").expect("it is absolute").display();
    // The path of the program may contain a symbolic link.
    symlink(&folder, folder.join("link")).expect("it can be made");
    split_program.put(
        &split_program.debug,
        &format!("system/{inside}/program.separate"),
    );
    assert_eq!(split_program.names().0, ["hidden", "shown"]);
}

#[test]
fn the_debug_file_of_another_version_has_no_names() {
    let split_program = SplitProgram::new();
    let other_folder = split_program.folder.path().join("other");
    fs::create_dir(&other_folder).expect("it can be made");
    let (_, other_debug) = compile(&other_folder, "program", 2);
    let id = split_program.build_id();
    split_program.put(&other_debug, &format!("debuginfod/{id}/debuginfo"));
    split_program.put(&other_debug, "program.separate");
    assert_eq!(split_program.names(), (vec!["shown".to_owned()], false));
    // debuginfod caches an empty file if there is no debug file.
    fs::write(
        split_program
            .folder
            .path()
            .join(format!("debuginfod/{id}/debuginfo")),
        "",
    )
    .expect("it can be written");
    assert_eq!(split_program.names().0, ["shown"]);
}

#[test]
fn functions_of_the_vdso_have_names() {
    let maps = fs::read_to_string("/proc/self/maps").expect("it is there");
    if !maps.contains("[vdso]") {
        return;
    }
    let names = SymbolFinder::new(DebugFiles::of_user());
    let offsets = (0..0x2000).collect();
    let table = names.look_up_in(Path::new("[vdso]"), Path::new("[vdso]"), &offsets);
    assert!(
        table
            .symbols
            .iter()
            .any(|symbol| symbol.name.ends_with("clock_gettime")),
        "{table:?}"
    );
}

#[test]
fn a_pipe_beside_the_debug_information_is_not_opened() {
    let program = Inlined::new(&["-g"]);
    let version = FileVersion {
        build_id: program.build_id.as_deref(),
        facts: None,
    };
    let look_up = || {
        let lines = Lines::new(DebugFiles::of_user());
        let levels = lines.at((0, &program.path), || version, program.here);
        (levels[0].line.is_some(), lines.warnings())
    };
    assert_eq!(look_up(), (true, Vec::new()));
    let package = program.path.with_file_name("inlined.dwp");
    mkfifo(&package, Mode::S_IRWXU).expect("it can be made");
    let (is_known, warnings) = look_up();
    assert!(!is_known);
    assert!(
        warnings[0].contains("inlined.dwp is not a regular file"),
        "{warnings:?}"
    );
}

#[test]
fn the_version_of_a_file_is_asked_for_once() {
    let program = Inlined::new(&["-g"]);
    let lines = Lines::new(DebugFiles::of_user());
    let asked = Cell::new(0);
    let version = || {
        asked.set(asked.get() + 1);
        FileVersion {
            build_id: program.build_id.as_deref(),
            facts: None,
        }
    };
    for offset in [program.here, program.here, program.here + 1] {
        lines.at((0, &program.path), version, offset);
    }
    assert_eq!(asked.get(), 1);
}

/// Returns whether the line of the inlined function is found, and the warnings.
fn line_is_known(program: &Inlined) -> (bool, Vec<String>) {
    let version = FileVersion {
        build_id: program.build_id.as_deref(),
        facts: None,
    };
    let lines = Lines::new(DebugFiles::of_user());
    let levels = lines.at((0, &program.path), || version, program.here);
    (levels[0].line.is_some(), lines.warnings())
}

#[test]
fn a_program_without_a_build_id_has_lines_until_it_changes() {
    let program = Inlined::new(&["-g", Inlined::NO_BUILD_ID]);
    let facts = FileFacts::of(&program.path);
    let look_up = |facts: Option<&FileFacts>| {
        let lines = Lines::new(DebugFiles::of_user());
        let build_id = program.build_id.as_deref();
        let version = FileVersion { build_id, facts };
        let levels = lines.at((0, &program.path), || version, program.here);
        let inlined = levels.iter().filter_map(|level| level.inlined.as_ref());
        let inlined: Vec<String> = inlined.map(|name| name.text.to_string()).collect();
        (inlined, levels[0].line.is_some(), lines.warnings())
    };
    let names = ["inner", "middle"].map(str::to_owned).to_vec();
    assert_eq!(look_up(facts.as_ref()), (names, true, Vec::new()));
    program.touch();
    let expected = [
        (facts.as_ref(), "was replaced since the recording"),
        (None, "has no build-id, and the recording does not tell"),
    ];
    for (facts, reason) in expected {
        let (names, is_known, warnings) = look_up(facts);
        assert!(names.is_empty() && !is_known, "{names:?}");
        assert!(warnings[0].contains(reason), "{warnings:?}");
    }
}

#[test]
fn compressed_lines_are_read() {
    for flag in [
        "-Wl,--compress-debug-sections=zlib",
        "-Wl,--compress-debug-sections=zstd",
    ] {
        let program = Inlined::new(&["-g", flag]);
        assert_eq!(line_is_known(&program), (true, Vec::new()), "{flag}");
    }
}

#[test]
fn unread_debug_information_is_warned_of() {
    let program = Inlined::new(&["-g", "-gsplit-dwarf"]);
    let (is_known, warnings) = line_is_known(&program);
    assert!(is_known);
    assert!(warnings[0].contains("are in .dwo files"), "{warnings:?}");
    let program = Inlined::new(&["-g"]);
    run(Command::new("objcopy")
        .arg("--add-section=.gnu_debugaltlink=/dev/null")
        .arg(&program.path));
    let (_, warnings) = line_is_known(&program);
    assert!(warnings[0].contains("that dwz made"), "{warnings:?}");
}

#[test]
fn a_small_symbol_table_has_all_functions() {
    let split_program = SplitProgram::new();
    let at = |name: &str| split_program.folder.path().join(name);
    run(Command::new("objcopy")
        .args(["--strip-all", "--keep-symbol=hidden"])
        .args([at("program.whole"), at("small")]));
    let small_file = fs::read(at("small")).expect("it was made");
    let mut packer = xz2::read::XzEncoder::new(&small_file[..], 1);
    let mut packed_file = File::create(at("small.xz")).expect("it can be made");
    io::copy(&mut packer, &mut packed_file).expect("it can be written");
    let section = format!("--add-section=.gnu_debugdata={}", at("small.xz").display());
    run(Command::new("objcopy")
        .arg(section)
        .arg(&split_program.program));
    let names = ["hidden", "shown"].map(str::to_owned).to_vec();
    assert_eq!(split_program.names(), (names, true));
}
