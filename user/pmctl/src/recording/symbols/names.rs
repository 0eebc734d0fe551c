// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the functions at offsets of a file.

use std::cell::RefCell;
use std::path::Path;

use ahash::AHashSet;
use blazesym::symbolize::source::{self, Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use blazesym::{Addr, Pid};

use super::demangle::demangle;
use super::jit::{self, JitFunctions};
use super::sections::oversized_section;
use super::{DebugFiles, Elf, Targets, kallsyms};
use crate::recording::file_text::text_of_path;
use crate::recording::perfdata::VDSO;
use crate::recording::perfdata::{FileFacts, Symbol, SymbolTable, is_kernel_address};

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
    pub(crate) fn with_kernel_cache(self) -> Self {
        Self {
            kernel_symbols: Some(RefCell::default()),
            ..self
        }
    }

    /// Returns the functions at these offsets of a file that is now at `path`. The table is empty if the file can't be read
    /// or has no names. Offsets in the kernel are addresses.
    pub(crate) fn look_up_in(
        &self,
        file: &Path,
        path: &Path,
        offsets: &AHashSet<u64>,
    ) -> SymbolTable {
        let mut offsets: Vec<u64> = offsets.iter().copied().collect();
        offsets.sort_unstable();
        let mut table = SymbolTable {
            file: text_of_path(file).into_owned(),
            ..SymbolTable::default()
        };
        if offsets
            .first()
            .is_some_and(|offset| is_kernel_address(*offset))
        {
            table.symbols = make_symbols(&offsets, &self.kernel_functions_at(file, &offsets));
        } else if file == Path::new(VDSO) {
            table.symbols = make_symbols(&offsets, &self.vdso_functions(&offsets));
        } else if let Some(pid) = jit::process_of(file) {
            let functions = JitFunctions::read(pid, &offsets).unwrap_or_default();
            table.partial = functions.is_cut;
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
                self.functions_of_file(debug_file.as_deref().unwrap_or(path), &addresses);
            if debug_file.is_some() {
                let exported_functions = self.functions_of_file(path, &addresses);
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
    fn kernel_functions_at(&self, file: &Path, addresses: &[Addr]) -> Vec<Option<FoundFunction>> {
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

    /// Returns the functions at these offsets of the vDSO. The vDSO is in no file, and the same in all programs, so it is
    /// read from pmctl's own memory.
    fn vdso_functions(&self, offsets: &[u64]) -> Vec<Option<FoundFunction>> {
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
    fn functions_of_file(&self, file: &Path, addresses: &[Addr]) -> Vec<Option<FoundFunction>> {
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
            name,
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
        // The kernel's functions have no sizes, so a function ends after its last sampled address.
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
