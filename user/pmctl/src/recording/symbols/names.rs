// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the functions at offsets of a file.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::path::Path;

use ahash::AHashSet;
use blazesym::symbolize::source::{self, Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use blazesym::{Addr, Pid};
use cpp_demangle::{DemangleOptions, ParseOptions};

use super::jit::{self, JitFunctions};
use super::length::{MAX_NAME_LENGTH, truncate_name};
use super::sections::oversized_section;
use super::{DebugFiles, Elf, Targets, kallsyms, modules};
use crate::recording::perfdata::VDSO;
use crate::recording::perfdata::{FileFacts, Symbol, SymbolTable, is_kernel};

/// Looks up the functions at addresses.
pub(crate) struct SymbolFinder {
    symbolizer: Symbolizer,
    debug_files: DebugFiles,
    /// All symbols of the kernel, if they are kept for later calls.
    kernel_symbols: Option<RefCell<kallsyms::CachedSymbols>>,
}

impl SymbolFinder {
    /// Creates an instance that has read no file yet, and looks for separate debug files in these folders.
    pub(crate) fn new(debug_files: DebugFiles) -> Self {
        Self {
            symbolizer: Symbolizer::builder()
                .enable_auto_reload(false)
                .enable_code_info(false)
                .enable_inlined_fns(false)
                .build(),
            debug_files,
            kernel_symbols: None,
        }
    }

    /// Keeps the kernel's symbols in memory, for callers with several lookups.
    pub(crate) fn with_kernel_kept(self) -> Self {
        Self {
            kernel_symbols: Some(RefCell::default()),
            ..self
        }
    }

    /// Returns the functions at these offsets; none if the file can't be read or has no names.
    pub(crate) fn look_up(&self, file: &Path, offsets: &AHashSet<u64>) -> SymbolTable {
        self.look_up_in(file, file, offsets)
    }

    /// Returns the functions at these offsets of a file that is now at `path`. Offsets in the kernel are addresses.
    pub(crate) fn look_up_in(
        &self,
        file: &Path,
        path: &Path,
        offsets: &AHashSet<u64>,
    ) -> SymbolTable {
        let mut offsets: Vec<u64> = offsets.iter().copied().collect();
        offsets.sort_unstable();
        let mut table = SymbolTable {
            file: file.to_string_lossy().into_owned(),
            ..SymbolTable::default()
        };
        if offsets.first().is_some_and(|offset| is_kernel(*offset)) {
            table.symbols = make_symbols(&offsets, &self.of_kernel(file, &offsets));
        } else if file == Path::new(VDSO) {
            table.symbols = make_symbols(&offsets, &self.of_vdso(&offsets));
        } else if let Some(pid) = jit::process_of(file) {
            let functions = JitFunctions::read(pid, &offsets).unwrap_or_default();
            let jit_functions = offsets.iter().map(|offset| {
                let (start, end, name) = functions.at(*offset)?;
                Some(FoundFunction {
                    offset: offset - start,
                    size: end - start,
                    name: name.to_owned(),
                })
            });
            table.symbols = make_symbols(&offsets, &jit_functions.collect::<Vec<_>>());
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
            // Offsets outside of the segments have no address.
            offsets.retain(|offset| elf.address(*offset).is_some());
            let addresses: Vec<Addr> = offsets
                .iter()
                .filter_map(|offset| elf.address(*offset))
                .collect();
            // A debug file has the names of all functions, a program without a symbol table those of exported functions.
            let mut named_functions =
                self.of_file(debug_file.as_deref().unwrap_or(path), &addresses);
            if debug_file.is_some() {
                let exported_functions = self.of_file(path, &addresses);
                for (function, exported) in named_functions.iter_mut().zip(exported_functions) {
                    *function = function.take().or(exported);
                }
            }
            name_stubs(path, &elf, &addresses, &mut named_functions);
            table.symbols = make_symbols(&offsets, &named_functions);
        }
        table
    }

    /// Returns the functions of the running kernel or of a module at these addresses, which are sorted.
    fn of_kernel(&self, file: &Path, addresses: &[Addr]) -> Vec<Option<FoundFunction>> {
        let symbols = match &self.kernel_symbols {
            Some(cache) => cache.borrow_mut().look_up(file, addresses),
            None => kallsyms::look_up(file, addresses),
        };
        let function = |(symbol, address): (Option<kallsyms::KernelSymbol>, &Addr)| {
            let symbol = symbol?;
            Some(FoundFunction {
                offset: address - symbol.start,
                size: 0,
                name: symbol.name,
            })
        };
        symbols.into_iter().zip(addresses).map(function).collect()
    }

    /// Returns the functions at these offsets of the vDSO. It is in no file, and the same in all programs, so it is read from
    /// pmctl's own memory.
    fn of_vdso(&self, offsets: &[u64]) -> Vec<Option<FoundFunction>> {
        let Some(start) = vdso_start() else {
            return vec![None; offsets.len()];
        };
        let mut process = Process::new(Pid::Slf);
        process.debug_syms = false;
        process.perf_map = false;
        process.map_files = false;
        let addresses: Vec<Addr> = offsets
            .iter()
            .map(|offset| start.wrapping_add(*offset))
            .collect();
        let source = Source::Process(process);
        self.look_up_functions(&source, Input::AbsAddr(&addresses), addresses.len())
    }

    /// Returns the functions of a file at these addresses.
    fn of_file(&self, file: &Path, addresses: &[Addr]) -> Vec<Option<FoundFunction>> {
        if oversized_section(file, false).is_some() {
            return vec![None; addresses.len()];
        }
        let mut elf = source::Elf::new(file);
        elf.debug_syms = false;
        let source = Source::Elf(elf);
        self.look_up_functions(&source, Input::VirtOffset(addresses), addresses.len())
    }

    /// Returns a function or `None` for each of `count` addresses.
    fn look_up_functions(
        &self,
        source: &Source<'_>,
        input: Input<&[Addr]>,
        count: usize,
    ) -> Vec<Option<FoundFunction>> {
        let symbols = self.symbolizer.symbolize(source, input);
        let function = |symbol| match symbol {
            Symbolized::Sym(symbol) => Some(FoundFunction {
                offset: symbol.offset as u64,
                size: symbol.size.map_or(0, |size| size as u64),
                name: symbol.name.into_owned(),
            }),
            Symbolized::Unknown(_) => None,
        };
        let mut functions: Vec<_> = symbols.into_iter().flatten().map(function).collect();
        // If the file can't be read, there are no results.
        functions.resize(count, None);
        functions
    }
}

/// Gives stubs (PLT) their names. The symbol table has no names for them, so the lookup finds the function in front of the
/// stubs, which is wrong.
fn name_stubs(file: &Path, elf: &Elf, addresses: &[Addr], functions: &mut [Option<FoundFunction>]) {
    let mut targets = None;
    for (function, address) in functions.iter_mut().zip(addresses) {
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
        *function = stub.or(function.take().filter(is_inside));
    }
}

/// A function that was found at an address.
#[derive(Clone, Debug)]
struct FoundFunction {
    /// Offset of the address from the function's beginning, in bytes.
    offset: u64,
    /// Size in bytes; 0 if it is not known.
    size: u64,
    name: String,
}

/// Makes the symbols of the functions that were found at these offsets, which are sorted.
fn make_symbols(offsets: &[u64], functions: &[Option<FoundFunction>]) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = Vec::new();
    for (file_offset, function) in offsets.iter().zip(functions) {
        let Some(FoundFunction { offset, size, name }) = function else {
            continue;
        };
        let start = file_offset.saturating_sub(*offset);
        // The kernel's functions have no sizes: each reaches as far as it has samples.
        let length = *size.max(&(offset + 1));
        match symbols.last_mut() {
            Some(last) if last.start == start => last.length = last.length.max(length),
            _ => symbols.push(Symbol {
                start,
                length,
                name: demangle(name),
            }),
        }
    }
    symbols
}

/// Returns the start address of the vDSO in this process.
fn vdso_start() -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(VDSO))?;
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

/// Depth to which parts of a C++ name are nested at most. The parser tries all readings of a part: with its own limit of
/// 96, a name of 40 bytes can take seconds. Two of 14,000 names of LLVM are nested deeper.
const MAX_NESTING: u32 = 64;

/// Demangles a name of C++ or Rust, and truncates a name that is too long.
///
/// Names of C must not be demangled: the demanglers also accept a mangled type alone, and would take a function `i` for
/// `int`.
///
/// A mangled name can refer back to parts of itself, so 200 bytes can become any length. A name that gets too long stays
/// mangled.
pub(super) fn demangle(name: &str) -> String {
    let is_mangled = name.starts_with("_Z") || name.starts_with("_R");
    let readable = (is_mangled && name.len() <= MAX_NAME_LENGTH).then(|| try_demangle(name));
    readable
        .flatten()
        .unwrap_or_else(|| truncate_name(name).to_owned())
}

/// Demangles a name; `None` if it is not mangled, or if the result is too long.
fn try_demangle(name: &str) -> Option<String> {
    let mut text = LimitedText(String::new());
    if let Some((kind, target)) = split_thunk(name) {
        // cpp_demangle words this in another way than other tools do.
        let write_result = write!(text, "{kind} thunk to {}", try_demangle(&target)?);
        return write_result.ok().map(|()| text.0);
    }
    if let Some(module) = modules::initialized_module(name) {
        return Some(format!("initializer for module {module}"));
    }
    if let Some(plain) = modules::without_modules(name) {
        return Some(plain.restore(&try_demangle(&plain.mangled)?));
    }
    let write_result = if let Ok(symbol) = rustc_demangle::try_demangle(name) {
        // `#` leaves out the hash at the end.
        write!(text, "{symbol:#}")
    } else {
        let options = ParseOptions::default().recursion_limit(MAX_NESTING);
        let symbol = cpp_demangle::Symbol::new_with_options(name, &options).ok()?;
        symbol.structured_demangle(&mut text, &DemangleOptions::new())
    };
    write_result.ok().map(|()| text.0)
}

/// Splits the name of a thunk, such as `_ZThn16_N1B1fEv`, into the kind of thunk and the mangled name of its target. A
/// thunk adjusts `this` before an override is called (Itanium C++ ABI, "Virtual Tables and RTTI", `<call-offset>`).
fn split_thunk(name: &str) -> Option<(&'static str, String)> {
    let rest = name.strip_prefix("_ZT")?;
    let (kind, rest) = if let Some(rest) = rest.strip_prefix('c') {
        (
            "covariant return",
            skip_call_offset(skip_call_offset(rest)?)?,
        )
    } else if rest.starts_with('v') {
        ("virtual", skip_call_offset(rest)?)
    } else {
        ("non-virtual", skip_call_offset(rest)?)
    };
    Some((kind, format!("_Z{rest}")))
}

/// Returns the text behind a call offset, which is `h` with one number, or `v` with two. An underscore follows each
/// number.
fn skip_call_offset(text: &str) -> Option<&str> {
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

/// A text of at most [`MAX_NAME_LENGTH`] bytes. The demanglers stop at the error for more.
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
    fn only_mangled_names_are_demangled() {
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
            assert_eq!(demangle(name), name);
        }
        for (mangled, name) in [
            ("_ZN5space3fooEibc", "space::foo(int, bool, char)"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }

    #[test]
    fn thunks_are_named_like_other_tools_do() {
        for (mangled, name) in [
            ("_ZThn16_N1B1fEv", "non-virtual thunk to B::f()"),
            ("_ZTv0_n24_N1B1fEv", "virtual thunk to B::f()"),
            ("_ZTchn16_h16_N1B1fEv", "covariant return thunk to B::f()"),
            ("_ZThx_N1B1fEv", "_ZThx_N1B1fEv"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }

    #[test]
    fn a_name_that_refers_to_itself_stays_mangled() {
        // Each level is a template with two arguments of the level before.
        let level = |level: char| format!("S_IS{level}_S{level}_E");
        let long_name = ('0'..='9').chain('A'..='C').map(level);
        let long_name = format!("_Z1f1AIiiE{}", long_name.collect::<String>());
        assert_eq!(demangle(&long_name[..10]), "f(A<int, int>)");
        assert_eq!(demangle(&long_name), long_name, "it would have 200 KB");
        // A Rust name with a tuple of numbers.
        let tuple = |length: usize| format!("_RINvC1a1fT{}EE", "a".repeat(length));
        assert_eq!(demangle(&tuple(2)), "a::f::<(i8, i8)>");
        assert_eq!(demangle(&tuple(2000)), tuple(2000), "it would have 8 KB");
    }

    #[test]
    fn a_name_with_many_readings_stays_mangled() {
        let begin = Instant::now();
        for count in 1..40 {
            let name = format!("_Z1fsp{}{}", "LA".repeat(count), "E".repeat(count));
            assert_eq!(demangle(&name), name);
        }
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let name = "é".repeat(MAX_NAME_LENGTH);
        assert_eq!(demangle(&name), name[..MAX_NAME_LENGTH]);
        let name = format!("_Z{name}");
        assert_eq!(demangle(&name), name[..MAX_NAME_LENGTH]);
        let name = format!("x{name}");
        assert_eq!(demangle(&name), name[..MAX_NAME_LENGTH - 1]);
        assert_eq!(truncate_name("f"), "f");
    }
}
