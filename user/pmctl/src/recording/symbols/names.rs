// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions at some places of a file.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::path::Path;

use ahash::AHashSet;
use blazesym::symbolize::source::{self, Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use blazesym::{Addr, Pid};
use cpp_demangle::{DemangleOptions, ParseOptions};

use super::jit::{self, JitFunctions};
use super::length::{MAX_NAME_LENGTH, capped};
use super::sections::oversized;
use super::{DebugFiles, Elf, Targets, kallsyms};
use crate::recording::perfdata::VDSO;
use crate::recording::perfdata::{FileFacts, Symbol, SymbolTable, is_kernel};

/// Looks up the functions at addresses.
pub(crate) struct SymbolFinder {
    symbolizer: Symbolizer,
    debug_files: DebugFiles,
    /// All names of the kernel, if they are kept for further calls.
    kernel: Option<RefCell<kallsyms::CachedSymbols>>,
}

impl SymbolFinder {
    /// Creates one that has read nothing yet, and looks for separate debug files in these folders.
    pub(crate) fn new(debug_files: DebugFiles) -> Self {
        Self {
            symbolizer: Symbolizer::builder()
                .enable_auto_reload(false)
                .enable_code_info(false)
                .enable_inlined_fns(false)
                .build(),
            debug_files,
            kernel: None,
        }
    }

    /// Keeps the kernel's names from one call to the next, for a caller that asks often.
    pub(crate) fn with_kernel_kept(self) -> Self {
        Self {
            kernel: Some(RefCell::default()),
            ..self
        }
    }

    /// Returns the functions at these places; none if the file can't be read or has no names.
    pub(crate) fn look_up(&self, file: &Path, places: &AHashSet<u64>) -> SymbolTable {
        self.look_up_in(file, file, places)
    }

    /// Looks up functions of a file that is now at `path`.
    pub(crate) fn look_up_in(
        &self,
        file: &Path,
        path: &Path,
        places: &AHashSet<u64>,
    ) -> SymbolTable {
        let mut places: Vec<u64> = places.iter().copied().collect();
        places.sort_unstable();
        let mut table = SymbolTable {
            file: file.to_string_lossy().into_owned(),
            ..SymbolTable::default()
        };
        if places.first().is_some_and(|place| is_kernel(*place)) {
            table.symbols = symbols(&places, &self.of_kernel(file, &places));
        } else if file == Path::new(VDSO) {
            table.symbols = symbols(&places, &self.of_vdso(&places));
        } else if let Some(pid) = jit::process_of(file) {
            let functions = JitFunctions::read(pid, &places).unwrap_or_default();
            let found = places.iter().map(|place| {
                let (start, end, name) = functions.at(*place)?;
                Some(FoundFunction {
                    offset: place - start,
                    size: end - start,
                    name: name.to_owned(),
                })
            });
            table.symbols = symbols(&places, &found.collect::<Vec<_>>());
        } else if let Some(elf) = Elf::read(path) {
            let debug_file = if elf.has_table {
                None
            } else {
                self.debug_files.find(path, &elf)
            };
            if elf.build_id.is_none() {
                table.facts = FileFacts::of(path);
            }
            table.partial = !elf.has_table && !elf.has_mini_table && debug_file.is_none();
            // What is not mapped from the file is at no address of it.
            places.retain(|place| elf.address(*place).is_some());
            let addresses: Vec<Addr> = places
                .iter()
                .filter_map(|place| elf.address(*place))
                .collect();
            // A debug file has all names, a program without a table those of exported functions.
            let mut found = self.of_file(debug_file.as_deref().unwrap_or(path), &addresses);
            if debug_file.is_some() {
                let exported = self.of_file(path, &addresses);
                for (found, exported) in found.iter_mut().zip(exported) {
                    *found = found.take().or(exported);
                }
            }
            name_stubs(path, &elf, &addresses, &mut found);
            table.symbols = symbols(&places, &found);
        }
        table
    }

    /// Returns the functions of the running kernel or of a module at these addresses, which are in their order.
    fn of_kernel(&self, file: &Path, addresses: &[Addr]) -> Vec<Option<FoundFunction>> {
        let found = match &self.kernel {
            Some(kept) => kept.borrow_mut().look_up(file, addresses),
            None => kallsyms::look_up(file, addresses),
        };
        let function = |(found, address): (Option<kallsyms::KernelSymbol>, &Addr)| {
            let found = found?;
            Some(FoundFunction {
                offset: address - found.start,
                size: 0,
                name: found.name,
            })
        };
        found.into_iter().zip(addresses).map(function).collect()
    }

    /// In the vDSO, which is the same in all programs and in no file: pmctl has it, too.
    fn of_vdso(&self, places: &[u64]) -> Vec<Option<FoundFunction>> {
        let Some(start) = vdso() else {
            return vec![None; places.len()];
        };
        let mut process = Process::new(Pid::Slf);
        process.debug_syms = false;
        process.perf_map = false;
        process.map_files = false;
        let addresses: Vec<Addr> = places
            .iter()
            .map(|place| start.wrapping_add(*place))
            .collect();
        let source = Source::Process(process);
        self.functions(&source, Input::AbsAddr(&addresses), addresses.len())
    }

    fn of_file(&self, file: &Path, addresses: &[Addr]) -> Vec<Option<FoundFunction>> {
        if oversized(file, false).is_some() {
            return vec![None; addresses.len()];
        }
        let mut elf = source::Elf::new(file);
        elf.debug_syms = false;
        let source = Source::Elf(elf);
        self.functions(&source, Input::VirtOffset(addresses), addresses.len())
    }

    /// Returns a function or `None` for each of `count` addresses.
    fn functions(
        &self,
        source: &Source<'_>,
        input: Input<&[Addr]>,
        count: usize,
    ) -> Vec<Option<FoundFunction>> {
        let found = self.symbolizer.symbolize(source, input);
        let function = |found| match found {
            Symbolized::Sym(symbol) => Some(FoundFunction {
                offset: symbol.offset as u64,
                size: symbol.size.map_or(0, |size| size as u64),
                name: symbol.name.into_owned(),
            }),
            Symbolized::Unknown(_) => None,
        };
        let mut functions: Vec<_> = found.into_iter().flatten().map(function).collect();
        // If the file can't be read there are none.
        functions.resize(count, None);
        functions
    }
}

/// Gives stubs for functions elsewhere their names: a symbol table has none, and the function in front of them is another.
fn name_stubs(file: &Path, elf: &Elf, addresses: &[Addr], found: &mut [Option<FoundFunction>]) {
    let mut targets = None;
    for (found, address) in found.iter_mut().zip(addresses) {
        if !elf.has_stub(*address) {
            continue;
        }
        let targets = targets.get_or_insert_with(|| Targets::of(file));
        let stub = targets.at(*address).map(|(name, offset)| FoundFunction {
            offset,
            size: 0,
            name: name.to_owned(),
        });
        let is_inside = |function: &FoundFunction| function.offset < function.size;
        *found = stub.or(found.take().filter(is_inside));
    }
}

/// A function as it was found at an address.
#[derive(Clone, Debug)]
struct FoundFunction {
    /// Offset of the address from the function's beginning, in bytes.
    offset: u64,
    /// Size in bytes; 0 if it is not known.
    size: u64,
    name: String,
}

/// Returns the functions that were found at these places, which are in their order.
fn symbols(places: &[u64], found: &[Option<FoundFunction>]) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = Vec::new();
    for (place, function) in places.iter().zip(found) {
        let Some(FoundFunction { offset, size, name }) = function else {
            continue;
        };
        let start = place.saturating_sub(*offset);
        // The kernel's have no sizes: then they go as far as there are samples.
        let length = *size.max(&(offset + 1));
        match symbols.last_mut() {
            Some(last) if last.start == start => last.length = last.length.max(length),
            _ => symbols.push(Symbol {
                start,
                length,
                name: demangled(name),
            }),
        }
    }
    symbols
}

/// Returns where this process has the vDSO.
fn vdso() -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(VDSO))?;
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

/// Depth of the parts of a C++ name within each other. The parser tries one reading of a part after the other: with
/// its own limit of 96, a name of 40 bytes takes seconds. Of 14,000 names of LLVM's, two are deeper.
const MAX_NESTING: u32 = 64;

/// Returns the name as its programmer wrote it, if a C++ or Rust compiler has encoded it, and [`capped`].
///
/// C's names are never encoded. They must not be tried: the demanglers also read the encoding of a type alone, and
/// so take a function `i` for `int`.
///
/// An encoded name can refer back to parts of itself, so 200 bytes can become any length. A name that gets too long
/// stays as it is encoded.
pub(super) fn demangled(name: &str) -> String {
    let encoded = name.starts_with("_Z") || name.starts_with("_R");
    let readable = (encoded && name.len() <= MAX_NAME_LENGTH).then(|| decoded(name));
    readable
        .flatten()
        .unwrap_or_else(|| capped(name).to_owned())
}

/// Returns what a name was before a compiler encoded it; `None` if none did, or if it is too long.
fn decoded(name: &str) -> Option<String> {
    let mut text = LimitedText(String::new());
    if let Some((kind, target)) = thunk(name) {
        // The library has words of its own for a thunk; these are the usual ones.
        let written = write!(text, "{kind} thunk to {}", decoded(&target)?);
        return written.ok().map(|()| text.0);
    }
    let written = if let Ok(symbol) = rustc_demangle::try_demangle(name) {
        // Without the hash at the end.
        write!(text, "{symbol:#}")
    } else {
        let options = ParseOptions::default().recursion_limit(MAX_NESTING);
        let symbol = cpp_demangle::Symbol::new_with_options(name, &options).ok()?;
        symbol.structured_demangle(&mut text, &DemangleOptions::new())
    };
    written.ok().map(|()| text.0)
}

/// Splits the name of a small function that C++ puts in front of an override, to shift `this`, into its kind and the
/// encoded name of the override: `_ZThn16_N1B1fEv` (Itanium C++ ABI, "Virtual Tables and RTTI", `<call-offset>`).
fn thunk(name: &str) -> Option<(&'static str, String)> {
    let rest = name.strip_prefix("_ZT")?;
    let (kind, rest) = if let Some(rest) = rest.strip_prefix('c') {
        ("covariant return", offset(offset(rest)?)?)
    } else if rest.starts_with('v') {
        ("virtual", offset(rest)?)
    } else {
        ("non-virtual", offset(rest)?)
    };
    Some((kind, format!("_Z{rest}")))
}

/// Returns what is behind an offset: `h` and a number, or `v` and two, each with an underscore behind it.
fn offset(text: &str) -> Option<&str> {
    let numbers = match text.as_bytes().first()? {
        b'h' => 1,
        b'v' => 2,
        _ => return None,
    };
    (0..numbers).try_fold(&text[1..], |rest, _| {
        let (number, rest) = rest.split_once('_')?;
        let digits = number.strip_prefix('n').unwrap_or(number);
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then_some(rest)
    })
}

/// A text that takes no more than a name may have. The demanglers stop at the error.
struct LimitedText(String);

impl fmt::Write for LimitedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > MAX_NAME_LENGTH {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn only_encoded_names_are_decoded() {
        for name in [
            "i",
            "f",
            "z",
            "Pv",
            "St",
            "main",
            "R",
            "_Z",
            "_R",
            "_Zx y",
            "ptmalloc_init.part.0",
        ] {
            assert_eq!(demangled(name), name);
        }
        for (encoded, name) in [
            ("_ZN5space3fooEibc", "space::foo(int, bool, char)"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
        ] {
            assert_eq!(demangled(encoded), name);
        }
    }

    #[test]
    fn what_shifts_this_is_a_thunk() {
        for (encoded, name) in [
            ("_ZThn16_N1B1fEv", "non-virtual thunk to B::f()"),
            ("_ZTv0_n24_N1B1fEv", "virtual thunk to B::f()"),
            ("_ZTchn16_h16_N1B1fEv", "covariant return thunk to B::f()"),
            ("_ZThx_N1B1fEv", "_ZThx_N1B1fEv"),
        ] {
            assert_eq!(demangled(encoded), name);
        }
    }

    #[test]
    fn a_name_that_refers_to_itself_has_an_end() {
        // Each level is a template of two of the level before.
        let level = |level: char| format!("S_IS{level}_S{level}_E");
        let bomb = ('0'..='9').chain('A'..='C').map(level);
        let bomb = format!("_Z1f1AIiiE{}", bomb.collect::<String>());
        assert_eq!(demangled(&bomb[..10]), "f(A<int, int>)");
        assert_eq!(demangled(&bomb), bomb, "it would have 200 KB");
        // In Rust, a tuple of numbers.
        let tuple = |length: usize| format!("_RINvC1a1fT{}EE", "a".repeat(length));
        assert_eq!(demangled(&tuple(2)), "a::f::<(i8, i8)>");
        assert_eq!(demangled(&tuple(2000)), tuple(2000), "it would have 8 KB");
    }

    #[test]
    fn a_name_with_many_readings_is_given_up() {
        let begin = Instant::now();
        for count in 1..40 {
            let name = format!("_Z1fsp{}{}", "LA".repeat(count), "E".repeat(count));
            assert_eq!(demangled(&name), name);
        }
        assert!(begin.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let name = "é".repeat(MAX_NAME_LENGTH);
        assert_eq!(demangled(&name), name[..MAX_NAME_LENGTH]);
        let name = format!("_Z{name}");
        assert_eq!(demangled(&name), name[..MAX_NAME_LENGTH]);
        let name = format!("x{name}");
        assert_eq!(demangled(&name), name[..MAX_NAME_LENGTH - 1]);
        assert_eq!(capped("f"), "f");
    }
}
