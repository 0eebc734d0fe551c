// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds call chains by frame pointers that end early, as chains of programs do that were compiled
//! without frame pointers. The kernel does not say why a chain ends, so the names of the chain's
//! functions decide whether it ends early. The unwinder knows which of these functions are in
//! assembly code.

use super::sample_names::{NamedSample, SampleNames, Site};
use crate::recording::call_chain::{call_in_front_of, is_mark};
use crate::recording::perfdata::is_kernel_address;

/// Functions without a caller, and `main`, whose callers say nothing about the program. A C library without frame pointers
/// may hide the functions that called `main` or a thread's function.
const OUTERMOST: [&str; 11] = [
    "_start",
    "main",
    "_dl_start_user",
    "start_thread",
    "thread_start",
    // musl's threads.
    "start",
    "start_c11",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
];

/// The beginnings of further names: glibc's callers of `main`, and the outermost functions of Go.
const OUTERMOST_PREFIXES: [&str; 6] = [
    "__libc_start_",
    "libc_start_main_",
    "runtime.goexit",
    "runtime.mstart",
    "runtime.mcall",
    "runtime.systemstack",
];

/// The beginnings of the names of C libraries and dynamic loaders, whose local functions have no names without debug symbols.
const C_LIBRARIES: [&str; 5] = ["libc.", "libc-", "libpthread", "ld-linux", "ld-musl"];

impl SampleNames<'_> {
    /// Returns whether the call chain of a program's sample, which was recorded by frame pointers, ends early: it has
    /// only the sampled function, or only that and its caller, and neither is an outermost function. Returns `None` if
    /// the sample is not of a program, or has no chain.
    ///
    /// In doubt, returns false.
    pub(super) fn ends_early(&self, named: &NamedSample<'_>) -> Option<bool> {
        let sample = named.sample;
        if sample.in_kernel() || sample.guest_mode.is_some() {
            return None;
        }
        let mut addresses = sample.chain.iter().copied();
        let mut next = || addresses.find(|word| !is_mark(*word) && !is_kernel_address(*word));
        let _sampled = next()?;
        let (caller, third) = (next(), next());
        if third.is_some() || is_outermost(&named.site) {
            return Some(false);
        }
        let Some(return_address) = caller else {
            return Some(true);
        };
        // The call may be the last instruction of its function.
        let call = call_in_front_of(return_address);
        let caller = self.site(named.stamp.task.pid, call);
        // A word that is in no file is no return address: the register that led to it was not a frame pointer.
        let is_address = caller.file_number().is_some();
        // No call is in front of the first instruction of a function, unless another function ends there.
        let is_function_start = || {
            let returned_to = self.site(named.stamp.task.pid, return_address);
            returned_to.has_symbol() && returned_to.offset == 0
        };
        let is_nameless = !caller.has_symbol() && !is_function_start();
        let may_be_outermost = is_outermost(&caller) || is_in_c_library(&caller) || is_nameless;
        Some(!(is_address && may_be_outermost))
    }
}

fn is_outermost(site: &Site<'_>) -> bool {
    let name = site.symbol();
    OUTERMOST.contains(&name)
        || OUTERMOST_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

fn is_in_c_library(site: &Site<'_>) -> bool {
    let file = site.dso();
    C_LIBRARIES.iter().any(|prefix| file.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use object::{Object, ObjectSection};
    use perfmon_core::logic::perf_event::PERF_CONTEXT_USER;

    use crate::recording::perfdata::{
        Body, Map, Record, Recording, Records, Sample, Stamp, Symbol, SymbolTable, Task,
    };
    use crate::recording::profile::each_sample;
    use crate::system::screen::Colors;

    const PROGRAM: u64 = 0x40_0000;
    const C_LIBRARY: u64 = 0x7f00_0000_0000;
    /// The length of each function.
    const LENGTH: u64 = 0x100;
    /// The functions of the program, one after the other. One has no name.
    const FUNCTIONS: [&str; 6] = ["work", "caller", "main", "_start", "", "stub"];

    /// Returns an address in a function of the program.
    fn address(function: &str) -> u64 {
        let index = FUNCTIONS.iter().position(|name| *name == function);
        PROGRAM + index.expect("it is there") as u64 * LENGTH + 8
    }

    /// Returns a recording of samples with these call chains in a program.
    fn recorded_in(program: &str, chains: &[Vec<u64>]) -> Recording {
        let task = Task::leader(7);
        let stamp = Stamp {
            task,
            ..Stamp::default()
        };
        let map = |(file, start): (&str, u64)| {
            Body::Map(Map {
                task,
                start,
                length: 0x1_0000,
                file: file.into(),
                ..Map::default()
            })
        };
        let maps = [(program, PROGRAM), ("/lib/libc.so.6", C_LIBRARY)].map(map);
        let samples = chains.iter().map(|chain| {
            Body::Sample(Sample {
                ip: chain[0],
                chain: [&[PERF_CONTEXT_USER], &chain[..]].concat(),
                ..Sample::default()
            })
        });
        let records: Vec<Record> = maps
            .into_iter()
            .chain(samples)
            .map(|body| Record { stamp, body })
            .collect();
        let named = FUNCTIONS.iter().zip(0..);
        let symbols = named.filter(|(name, _)| !name.is_empty());
        let symbols = symbols.map(|(name, index)| Symbol {
            start: index * LENGTH,
            length: LENGTH,
            name: (*name).to_owned(),
        });
        let mut recording = Recording {
            records: Records::from(&records[..]),
            ..Recording::default()
        };
        recording.notes.symbols = vec![SymbolTable {
            file: program.to_owned(),
            symbols: symbols.collect(),
            ..SymbolTable::default()
        }];
        recording
    }

    fn recorded(chains: &[Vec<u64>]) -> Recording {
        recorded_in("/nonexistent/program", chains)
    }

    /// Returns the note on the call chains of a recording.
    fn note_on(recording: &Recording) -> String {
        let cut_chains = each_sample(recording, |_, _| Ok(())).expect("nothing fails");
        let mut text = Vec::new();
        let result = cut_chains.write(Colors::default(), &mut text);
        result.expect("there is room");
        String::from_utf8(text).expect("it is text")
    }

    /// Returns whether a call chain ends early.
    fn ends_early(chain: &[u64]) -> Option<bool> {
        let recording = recorded(&[chain.to_vec()]);
        let mut result = None;
        each_sample(&recording, |named, names| {
            result = names.ends_early(named);
            Ok(())
        })
        .expect("nothing fails");
        result
    }

    #[test]
    fn a_chain_without_frame_pointers_ends_early() {
        assert_eq!(ends_early(&[address("work")]), Some(true));
        assert_eq!(ends_early(&[address("")]), Some(true));
        // A register that is used for data led to the second word.
        assert_eq!(ends_early(&[address("work"), 0x1234]), Some(true));
        assert_eq!(
            ends_early(&[address("work"), address("caller")]),
            Some(true)
        );
        assert_eq!(ends_early(&[C_LIBRARY + 8]), Some(true));
        // The register points to a word of data with the address of a function, as in `.fini_array`.
        let begin = address("stub") - 8;
        assert_eq!(ends_early(&[address("work"), begin]), Some(true));
    }

    #[test]
    fn a_chain_to_an_outermost_function_is_whole() {
        for chain in [
            &["_start"][..],
            &["main"],
            &["work", "main"],
            &["work", "_start"],
            &["work", "caller", "main"],
        ] {
            let chain: Vec<u64> = chain.iter().map(|name| address(name)).collect();
            assert_eq!(ends_early(&chain), Some(false));
        }
        // The function of a thread, called by one of the C library without a name.
        assert_eq!(ends_early(&[address("work"), C_LIBRARY + 8]), Some(false));
        // `call` is the last instruction of `_start`, so it returns to the next function.
        let after_start = address("") - 8;
        assert_eq!(ends_early(&[address("work"), after_start]), Some(false));
        // The thread's start in a static program without symbols.
        assert_eq!(ends_early(&[address("work"), address("")]), Some(false));
    }

    #[test]
    fn the_kernels_samples_do_not_count() {
        assert_eq!(ends_early(&[1 << 63, address("work")]), None);
    }

    #[test]
    fn a_note_says_if_most_chains_end_early() {
        let note = |early, whole| {
            let chains = [
                vec![vec![address("work")]; early],
                vec![vec![address("work"), address("main")]; whole],
            ];
            note_on(&recorded(&chains.concat()))
        };
        assert_eq!(
            note(60, 40),
            "CUT: 60 of 100 call chains of programs end early, since functions of the programs or of libraries have no \
             frame pointers; `pmctl record --call-graph=dwarf`, or `=lbr` where the processor can, finds the callers.\n"
        );
        assert_eq!(note(50, 50), "");
        // Too few for a statement about the program.
        assert_eq!(note(9, 0), "");
    }

    #[test]
    fn assembly_without_tables_does_not_count() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for (name, text, is_noted) in [
            (
                "loop.s",
                ".globl _start\n_start: nop\nagain: jmp again\n",
                false,
            ),
            (
                "loop.c",
                "void _start(void) { for (;;) __asm__(\"nop\"); }",
                true,
            ),
        ] {
            let (source, program) = (folder.path().join(name), folder.path().join("program"));
            fs::write(&source, text).expect("there is room");
            let compiled = Command::new("cc")
                .args(["-O2", "-fasynchronous-unwind-tables"])
                .args(["-nostdlib", "-static", "-o"])
                .args([&program, &source])
                .status();
            assert!(compiled.expect("there is a compiler").success());
            let content = fs::read(&program).expect("it was compiled");
            let file = object::File::parse(&*content).expect("it is well formed");
            let code = file.section_by_name(".text").expect("it has code");
            let (offset, _) = code.file_range().expect("it is in the file");
            let chain = vec![PROGRAM + offset + 1];
            let program = program.to_str().expect("it is text");
            let mut recording = recorded_in(program, &vec![chain; 20]);
            // The recording names no function, and the program has not changed since.
            recording.notes.symbols.clear();
            recording.end = Some(std::time::SystemTime::now());
            assert_eq!(!note_on(&recording).is_empty(), is_noted, "{name}");
        }
    }
}
