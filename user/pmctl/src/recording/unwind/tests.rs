// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the unwinder with a program that dumps its registers, stack and mappings to a file.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, str};

use object::{Object, ObjectSection, ObjectSymbol};
use proptest::prelude::*;
use tempfile::TempDir;

use super::cut_chains::CutReason;
use super::{CutChains, Programs, RecordedFiles, Unwinder, UnwoundProcess, vdso_build_id};
use crate::recording::address_spaces::AddressSpaces;
use crate::recording::perfdata::{
    Body, BuildId, Map, Record, Recording, Records, Sample, Stamp, Task, UserStack,
};
use crate::recording::places::Places;
use crate::recording::profile::each_sample;
use crate::recording::symbols::Absence;

const PID: u32 = 7;

/// The functions of the program's call chain, the innermost first.
const CHAIN: [&str; 11] = [
    "leaf",
    "on_signal",
    "first",
    "aligned",
    "recurse",
    "recurse",
    "recurse",
    "recurse",
    "recurse",
    "middle",
    "main",
];

/// The compiled test program, and the mappings and the stack that it has written.
struct ProgramState {
    folder: TempDir,
    program: PathBuf,
    maps: Vec<Map>,
    user_stack: UserStack,
}

impl ProgramState {
    /// Compiles the program with these flags, and runs it.
    fn new(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (source, program) = (folder.path().join("chain.c"), folder.path().join("chain"));
        fs::write(&source, include_str!("chain.c")).expect("it can be written");
        let options = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
        run(Command::new("cc")
            .args(options)
            .args(["-Wl,--build-id", "-o"])
            .args([&program, &source])
            .args(flags));
        let output = run(&mut Command::new(&program));
        let (words, rest) = output.split_at(8 * (UserStack::REGISTERS + 1));
        let mut words = words.chunks_exact(8).map(|word| {
            let word = word.try_into().expect("it has 8 bytes");
            u64::from_le_bytes(word)
        });
        let registers = [(); UserStack::REGISTERS].map(|()| words.next().expect("it is there"));
        let size = words.next().expect("it is there");
        let (stack, maps) = rest.split_at(usize::try_from(size).expect("it is small"));
        let maps = str::from_utf8(maps).expect("it is text");
        Self {
            folder,
            program,
            maps: maps.lines().filter_map(parse_map).collect(),
            user_stack: UserStack {
                is_64_bit: true,
                registers,
                stack: stack.to_vec(),
                requested_bytes: 8192,
            },
        }
    }

    /// Returns the first address of a function of the program, which is not position-independent.
    fn address_of(&self, function: &str) -> u64 {
        let program = fs::read(&self.program).expect("it was compiled");
        let program = object::File::parse(&*program).expect("it is well formed");
        let symbol = program.symbol_by_name(function);
        symbol.expect("it is there").address()
    }

    /// Returns a recording with one sample.
    fn recording(&self) -> Recording {
        self.recording_of(self.user_stack.registers[8])
    }

    /// Returns a recording with one sample, whose address is `ip`.
    fn recording_of(&self, ip: u64) -> Recording {
        let sample = Body::Sample(Sample {
            ip,
            chain: vec![],
            user_stack: Some(Box::new(self.user_stack.clone())),
            ..Sample::default()
        });
        let maps = self.maps.iter().cloned().map(Body::Map);
        let stamp = Stamp {
            task: Task::leader(PID),
            ..Stamp::default()
        };
        let records: Vec<_> = maps
            .chain([sample])
            .map(|body| Record { stamp, body })
            .collect();
        let mut places = Places::default();
        records.iter().for_each(|record| places.note_record(record));
        let mut recording = Recording {
            records: Records::from(&records[..]),
            ..Recording::default()
        };
        (recording.notes.symbols, recording.build_ids) = places.look_up();
        recording
    }

    /// Removes the names from the program, puts its debug information into another file, and returns that file's path.
    fn split(&self) -> PathBuf {
        let debug = self.folder.path().join("chain.debug");
        run(Command::new("objcopy")
            .args(["--only-keep-debug", "--compress-debug-sections=zlib"])
            .args([&self.program, &debug]));
        let link = format!("--add-gnu-debuglink={}", debug.display());
        run(Command::new("objcopy")
            .args(["--strip-all", &link])
            .arg(&self.program));
        debug
    }
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("it is installed");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output.stdout
}

/// Parses a line of `/proc/PID/maps`; `None` if the mapping is not executable.
fn parse_map(line: &str) -> Option<Map> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let is_code = words.next()?.contains('x');
    let offset = number(words.next()?)?;
    let start = number(start)?;
    is_code.then(|| Map {
        task: Task::leader(PID),
        start,
        length: number(end).expect("it is a number") - start,
        offset,
        file: words.nth(2).unwrap_or("//anon").into(),
        ..Map::default()
    })
}

/// Returns the functions of the sample's call chain. Those of the C library are called `libc`.
fn functions(recording: &Recording) -> (Vec<String>, CutChains) {
    let mut functions = Vec::new();
    let cut_chains = each_sample(recording, |named, names| {
        functions.extend(names.chain(named).map(|frame| {
            if frame.site.dso().starts_with("libc") {
                "libc".to_owned()
            } else {
                frame.label()
            }
        }));
        Ok(())
    });
    (functions, cut_chains.expect("nothing fails"))
}

/// Returns the functions of the complete call chain.
fn complete_chain() -> Vec<String> {
    let mut chain: Vec<_> = CHAIN.map(str::to_owned).into();
    // The frame of the signal, and the callers of main.
    chain.insert(2, "libc".to_owned());
    chain.extend(["libc", "libc", "_start"].map(str::to_owned));
    chain
}

#[test]
fn all_callers_are_found_without_frame_pointers() {
    for flags in [
        &[][..],
        // Programs without an index of the tables, and at fixed addresses.
        &["-Wl,--no-eh-frame-hdr"],
        &["-no-pie"],
        &["-fno-asynchronous-unwind-tables", "-g"],
        &["-fno-asynchronous-unwind-tables", "-g", "-gz=zlib"],
    ] {
        let state = ProgramState::new(flags);
        let (functions, cut_chains) = functions(&state.recording());
        assert_eq!(functions, complete_chain(), "{flags:?}");
        assert_eq!(cut_chains.numbers(), (1, 0), "{flags:?}");
    }
}

#[test]
fn a_stub_of_the_linker_has_its_caller() {
    let mut state = ProgramState::new(&["-static"]);
    let program = fs::read(&state.program).expect("it was compiled");
    let program = object::File::parse(&*program).expect("it is well formed");
    let stubs = program.section_by_name(".plt").expect("there are some");
    // Moves the program to the stub, as if the function had just called it.
    let caller = state.user_stack.registers[8];
    state.user_stack.registers[7] -= 8;
    state.user_stack.registers[8] = stubs.address();
    state.user_stack.stack.splice(..0, caller.to_le_bytes());
    let (functions, cut_chains) = functions(&state.recording());
    assert_eq!(functions[1..3], ["leaf", "on_signal"]);
    assert_eq!(cut_chains.numbers(), (1, 0), "{functions:?}");
}

#[test]
fn a_precise_sample_has_the_callers_of_its_instruction() {
    let mut state = ProgramState::new(&["-no-pie"]);
    let next_instruction = state.user_stack.registers[8];
    let [leaf, middle] = ["leaf", "middle"].map(|name| state.address_of(name));
    let first_functions = |state: &ProgramState, ip| {
        let (chain, cut_chains) = functions(&state.recording_of(ip));
        assert_eq!(cut_chains.numbers(), (1, 0), "{chain:?}");
        chain[..3].to_vec()
    };
    assert_eq!(
        first_functions(&state, next_instruction - 1),
        ["leaf", "on_signal", "libc"]
    );
    // UD2 has 2 bytes, and RET comes after it: the registers are the caller's.
    assert_eq!(
        first_functions(&state, state.address_of("first") + 2),
        ["first", "leaf", "on_signal"]
    );
    // The address of a call in a chain is that of its last byte. The instruction has 5.
    let mut call = 0;
    each_sample(&state.recording(), |named, names| {
        call = names.chain(named).nth(1).map_or(0, |frame| frame.address);
        Ok(())
    })
    .expect("nothing fails");
    assert_eq!(
        first_functions(&state, call - 4),
        ["on_signal", "libc", "first"]
    );
    assert_eq!(
        first_functions(&state, state.address_of("jump")),
        ["jump", "on_signal", "libc"]
    );
    // The registers are from some instructions after the sampled one: in the first case after a
    // return, in the second case after a jump to `leaf`.
    assert_eq!(
        first_functions(&state, middle),
        ["middle", "leaf", "on_signal"]
    );
    state.user_stack.registers[8] = leaf;
    assert_eq!(
        first_functions(&state, middle),
        ["middle", "on_signal", "libc"]
    );
}

#[test]
fn a_debug_file_has_the_tables_too() {
    let state = ProgramState::new(&["-fno-asynchronous-unwind-tables", "-g"]);
    let debug = state.split();
    let (chain, _) = functions(&state.recording());
    assert_eq!(chain, complete_chain());
    fs::remove_file(debug).expect("it is there");
    let (_, cut_chains) = functions(&state.recording());
    assert_eq!(cut_chains.numbers(), (1, 1));
    let text = warnings(&cut_chains);
    assert!(text.contains("chain has no table for a function"), "{text}");
}

#[test]
fn a_frame_pointer_of_0_marks_the_outermost_function() {
    let mut state = ProgramState::new(&["-fno-asynchronous-unwind-tables"]);
    let (_, cut_chains) = functions(&state.recording());
    assert_eq!(cut_chains.numbers(), (1, 1));
    state.user_stack.registers[6] = 0;
    let (chain, cut_chains) = functions(&state.recording());
    assert_eq!(chain, ["leaf"]);
    assert_eq!(cut_chains.numbers(), (1, 0));
}

/// Returns the warnings about incomplete chains.
fn warnings(cut_chains: &CutChains) -> String {
    let mut text = Vec::new();
    let colors = crate::system::screen::Colors::default();
    cut_chains
        .write(colors, &mut text)
        .expect("a vector takes everything");
    String::from_utf8(text).expect("it is text")
}

#[test]
fn an_incomplete_stack_is_warned_of() {
    let mut state = ProgramState::new(&[]);
    let length = state.user_stack.stack.len();
    state.user_stack.stack.truncate(length - 600);
    state.user_stack.requested_bytes = state.user_stack.stack.len() as u64;
    let (chain, cut_chains) = functions(&state.recording());
    assert!(chain.len() < complete_chain().len(), "{chain:?}");
    assert_eq!(chain[..], complete_chain()[..chain.len()]);
    let text = warnings(&cut_chains);
    assert!(
        text.starts_with("CUT: 1 of 1 call chain: the stack is longer than"),
        "{text}"
    );
    state.user_stack.requested_bytes += 8;
    let (_, cut_chains) = functions(&state.recording());
    let text = warnings(&cut_chains);
    assert!(text.contains("paged out"), "{text}");
}

#[test]
fn a_replaced_program_is_not_unwound() {
    let state = ProgramState::new(&[]);
    let mut recording = state.recording();
    let ids = recording.build_ids.iter_mut();
    let of_program = ids.filter(|id| id.file == state.program);
    of_program.for_each(|id| id.id[0] ^= 1);
    let (chain, cut_chains) = functions(&recording);
    assert_eq!(chain, ["leaf"]);
    let text = warnings(&cut_chains);
    assert!(text.contains("chain was replaced since"), "{text}");
    // The same without any file.
    fs::remove_file(&state.program).expect("it is there");
    let (_, cut_chains) = functions(&recording);
    assert!(
        warnings(&cut_chains).contains("chain is not on this machine"),
        "{}",
        warnings(&cut_chains)
    );
}

#[test]
fn a_file_of_unknown_version_is_used_unless_it_is_newer() {
    let state = ProgramState::new(&["-Wl,--build-id=none"]);
    let mut recording = state.recording();
    assert!(
        recording
            .build_ids
            .iter()
            .all(|id| id.file != state.program)
    );
    // Recordings of earlier versions have no facts.
    for table in &mut recording.notes.symbols {
        assert_eq!(
            table.facts.is_some(),
            Path::new(&table.file) == state.program
        );
        table.facts = None;
    }
    let change_time = state.program.metadata().expect("it is there");
    let change_time = change_time.modified().expect("it is known");
    let second = std::time::Duration::from_secs(1);
    recording.end = Some(change_time + second);
    assert_eq!(functions(&recording).0, complete_chain());
    recording.end = Some(change_time - second);
    assert_eq!(functions(&recording).0, ["leaf"]);
    recording.end = None;
    assert_eq!(functions(&recording).0, ["leaf"]);
    // Another file with the same path.
    recording.end = Some(change_time + second);
    let mut records: Vec<Record> = recording
        .records
        .iter()
        .collect::<Result<_, _>>()
        .expect("they are whole");
    for record in &mut records {
        if let Body::Map(map) = &mut record.body {
            map.inode += 1;
        }
    }
    recording.records = records[..].into();
    assert_eq!(functions(&recording).0, ["leaf"]);
}

#[test]
fn the_vdso_has_tables() {
    let path = Path::new(crate::recording::perfdata::VDSO);
    let id = vdso_build_id().expect("there is one");
    let tables = |id: Vec<u8>| {
        let recording = Recording {
            build_ids: vec![BuildId {
                file: path.into(),
                is_kernel: false,
                id,
            }],
            ..Recording::default()
        };
        let map = Map {
            file: path.into(),
            start: 1 << 40,
            length: 1,
            ..Map::default()
        };
        let mut spaces = AddressSpaces::default();
        let body = Body::Map(map);
        let stamp = Stamp::default();
        spaces.apply(&Record { stamp, body });
        let file = spaces.find(0, 1 << 40).expect("it is mapped").file;
        super::files::read_tables(file, &spaces, &RecordedFiles::of(&recording))
    };
    let mut unwind_tables = tables(id.clone()).expect("it has tables");
    let debug_files = crate::recording::symbols::DebugFiles::of_user();
    let mut steps =
        (0..0x2000).filter(|offset| unwind_tables.step(*offset, &debug_files).is_some());
    assert!(steps.next().is_some());
    let of_other_version = tables([&[id[0] ^ 1], &id[1..]].concat());
    assert!(matches!(of_other_version, Err(CutReason::Replaced(_))));
}

#[test]
fn each_file_of_a_path_is_found_by_its_inode() {
    let path = std::env::current_exe().expect("this program has a path");
    let inode = path.metadata().expect("it is there").ino();
    let recording = Recording {
        end: Some(std::time::SystemTime::now()),
        ..Recording::default()
    };
    let mut spaces = AddressSpaces::default();
    let mut find = |pid, inode| {
        let map = Map {
            task: Task::leader(pid),
            inode,
            file: path.clone(),
            length: 1,
            ..Map::default()
        };
        let (stamp, body) = (Stamp::default(), Body::Map(map));
        spaces.apply(&Record { stamp, body });
        let file = spaces.find(pid, 0).expect("it is mapped").file;
        RecordedFiles::of(&recording).find(file, &spaces)
    };
    assert_eq!(find(1, inode + 1), Err(Absence::Unknown));
    assert_eq!(find(2, inode).as_ref(), Ok(&path));
    assert_eq!(find(3, inode + 2), Err(Absence::Unknown));
}

#[test]
fn a_loop_in_the_tables_ends() {
    let state = ProgramState::new(&["-DENDLESS"]);
    let (chain, cut_chains) = functions(&state.recording());
    assert!(chain.iter().all(|function| function == "leaf"));
    assert_eq!(chain.len(), super::unwinder::MAX_CALLERS as usize + 1);
    assert!(
        warnings(&cut_chains).contains("contradict the stack"),
        "{}",
        warnings(&cut_chains)
    );
}

#[test]
fn a_32_bit_program_has_one_function() {
    let mut state = ProgramState::new(&[]);
    state.user_stack.is_64_bit = false;
    let (chain, cut_chains) = functions(&state.recording());
    assert_eq!(chain, ["leaf"]);
    assert!(warnings(&cut_chains).contains("32-bit programs"));
}

#[test]
fn as_many_calls_as_the_processor_holds_count_as_incomplete() {
    let mut unwinder = Unwinder::default();
    for calls in [0, 1, 31, 32] {
        unwinder.count_calls(calls);
    }
    let cut_chains = unwinder.into_cut_chains();
    assert_eq!(cut_chains.numbers(), (3, 1));
    assert!(
        warnings(&cut_chains).contains("no more than 32"),
        "{}",
        warnings(&cut_chains)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn any_stack_does_not_panic(
        registers in any::<[u64; UserStack::REGISTERS]>(),
        words in prop::collection::vec(any::<prop::sample::Index>(), 0..100),
        at in any::<prop::sample::Index>(),
    ) {
        // Addresses of this program, and of its own stack.
        let maps = fs::read_to_string("/proc/self/maps").expect("it is there");
        let mut spaces = AddressSpaces::default();
        for map in maps.lines().filter_map(parse_map) {
            let body = Body::Map(map);
            spaces.apply(&Record { stamp: Stamp::default(), body });
        }
        let function_address = any_stack_does_not_panic as *const () as usize as u64;
        let near = |index: &prop::sample::Index| {
            let number = index.index(1 << 20) as u64;
            if number % 2 == 0 { function_address.wrapping_add(number) } else { 0x7000_0000 + number % 1000 * 8 }
        };
        let mut user_stack = UserStack {
            is_64_bit: true,
            registers,
            stack: words.iter().flat_map(|word| near(word).to_le_bytes()).collect(),
            requested_bytes: 800,
        };
        user_stack.registers[7] = 0x7000_0000;
        user_stack.registers[8] = near(&at);
        let mut chain = Vec::new();
        let recording = Recording::default();
        let process = UnwoundProcess {
            pid: PID,
            spaces: &spaces,
            programs: &RecordedFiles::of(&recording),
        };
        Unwinder::default().append(process, near(&at), &user_stack, &mut chain);
        prop_assert!(chain.len() <= words.len() + 2);
    }
}
