// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own functions, from `/proc/kallsyms`.
//!
//! The kernel writes a line only when it is read, which takes thousands of instructions, and there may be 200,000 lines.
//! So they are read once, no further than necessary, and only the symbols that are asked for are kept.
//!
//! The file has no sizes. Each symbol reaches to the next one, of any kind and any module. So addresses after the last
//! function of a module, or where a module was, have no name.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::recording::perfdata::KERNEL;

/// A symbol, which reaches to the start of the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelSymbol {
    pub(super) start: u64,
    pub(super) name: String,
}

/// A part of the kernel that has symbols of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelPart<'a> {
    Image,
    Module(&'a str),
    /// A BPF program, by its name.
    Program(&'a str),
}

impl<'a> KernelPart<'a> {
    /// Returns the part that is mapped under this name.
    fn of(file: &'a Path) -> Self {
        let name = file.to_str().unwrap_or_default();
        let module = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        match module {
            _ if name == KERNEL => Self::Image,
            Some(module) => Self::Module(module),
            None => Self::Program(name),
        }
    }

    /// Returns whether a symbol belongs to this part, and names code.
    fn contains(self, symbol: &KallsymsLine<'_>) -> bool {
        let is_own = match self {
            Self::Image => symbol.module.is_none(),
            Self::Module(name) => symbol.module == Some(name.as_bytes()),
            Self::Program(name) => symbol.module == Some(b"bpf") && symbol.name == name.as_bytes(),
        };
        is_own && symbol.is_code()
    }
}

/// Returns the function of a part of the running kernel at each address. If several functions begin
/// at one address, the first one wins. The addresses must be in ascending order.
pub(super) fn look_up(file: &Path, addresses: &[u64]) -> Vec<Option<KernelSymbol>> {
    match File::open("/proc/kallsyms") {
        Ok(lines) => {
            let lines = BufReader::with_capacity(1 << 16, lines);
            find(lines, KernelPart::of(file), addresses)
        }
        Err(_) => vec![None; addresses.len()],
    }
}

/// All symbols of the kernel, which are read at the first use.
#[derive(Debug, Default)]
pub(super) struct CachedSymbols {
    symbols: Vec<CachedSymbol>,
    /// Names of modules, each once.
    modules: Vec<Rc<[u8]>>,
    /// Time at which the symbols were read; `None` before that.
    read_at: Option<Instant>,
}

/// A symbol in the cache: the fields of a [`KallsymsLine`].
#[derive(Debug)]
struct CachedSymbol {
    start: u64,
    kind: u8,
    module: Option<Rc<[u8]>>,
    name: String,
}

impl CachedSymbol {
    fn line(&self) -> KallsymsLine<'_> {
        KallsymsLine {
            start: self.start,
            kind: self.kind,
            name: self.name.as_bytes(),
            module: self.module.as_deref(),
        }
    }
}

impl CachedSymbols {
    /// The shortest time between two reads of the symbols.
    const MIN_REREAD_INTERVAL: Duration = Duration::from_secs(60);

    /// Returns the same as [`look_up`]. Modules may have been loaded or removed since, so for parts other than the image
    /// the symbols are read again, but at most once a minute.
    pub(super) fn look_up(&mut self, file: &Path, addresses: &[u64]) -> Vec<Option<KernelSymbol>> {
        let part = KernelPart::of(file);
        let is_outdated = |read_at: Instant| {
            part != KernelPart::Image && read_at.elapsed() >= Self::MIN_REREAD_INTERVAL
        };
        if self.read_at.is_none_or(is_outdated) {
            self.read_at = Some(Instant::now());
            if let Ok(lines) = File::open("/proc/kallsyms") {
                self.read(BufReader::with_capacity(1 << 16, lines));
            }
        }
        let symbols = addresses.iter().map(|address| self.at(part, *address));
        symbols.collect()
    }

    /// Replaces the symbols by the symbols in `lines`.
    fn read(&mut self, lines: impl BufRead) {
        self.symbols.clear();
        self.modules.clear();
        each_line(lines, |symbol| {
            let module = symbol.module.map(|name| self.intern_module(name));
            self.symbols.push(CachedSymbol {
                start: symbol.start,
                kind: symbol.kind,
                module,
                name: String::from_utf8_lossy(symbol.name).into_owned(),
            });
            ControlFlow::Continue(())
        });
        // If several symbols have one address, a function wins over others, and otherwise the first one.
        self.symbols
            .sort_by_key(|symbol| (symbol.start, !symbol.line().is_code()));
        self.symbols.dedup_by_key(|symbol| symbol.start);
    }

    /// Returns the stored name of a module. The module that was added last is looked at first: most lines have the same
    /// module as the line before.
    fn intern_module(&mut self, name: &[u8]) -> Rc<[u8]> {
        if let Some(known) = self.modules.iter().rev().find(|known| ***known == *name) {
            return Rc::clone(known);
        }
        let name: Rc<[u8]> = name.into();
        self.modules.push(Rc::clone(&name));
        name
    }

    fn at(&self, part: KernelPart<'_>, address: u64) -> Option<KernelSymbol> {
        let next_index = self.symbols.partition_point(|s| s.start <= address);
        let symbol = self.symbols[..next_index].last()?;
        part.contains(&symbol.line()).then(|| KernelSymbol {
            start: symbol.start,
            name: symbol.name.clone(),
        })
    }
}

/// Finds the functions at addresses among lines. The image's lines come first, by address, and then those of modules, in
/// any order.
fn find(lines: impl BufRead, part: KernelPart<'_>, addresses: &[u64]) -> Vec<Option<KernelSymbol>> {
    // For each address, the last symbol between the preceding address and this one, and whether it is a function of the
    // part.
    let mut nearest: Vec<(KernelSymbol, bool)> = vec![Default::default(); addresses.len()];
    // The index among the addresses at which the preceding symbol belongs, and the addresses on both sides of it.
    let (mut index, mut low, mut high) = (0, 0, 0);
    each_line(lines, |symbol| {
        match (part, symbol.module) {
            // The image's symbols have ended.
            (KernelPart::Image, Some(_)) => return ControlFlow::Break(()),
            (KernelPart::Module(_) | KernelPart::Program(_), None) => {
                return ControlFlow::Continue(());
            }
            _ => {}
        }
        let start = symbol.start;
        if start <= low || start > high {
            index = addresses.partition_point(|address| *address < start);
            low = index.checked_sub(1).map_or(0, |before| addresses[before]);
            high = addresses.get(index).copied().unwrap_or(u64::MAX);
        }
        match nearest.get_mut(index) {
            Some((candidate, is_own)) => {
                let in_part = part.contains(symbol);
                if start > candidate.start || start == candidate.start && in_part && !*is_own {
                    candidate.start = start;
                    *is_own = in_part;
                    candidate.name.clear();
                    if in_part {
                        candidate
                            .name
                            .push_str(&String::from_utf8_lossy(symbol.name));
                    }
                }
            }
            None if part == KernelPart::Image => return ControlFlow::Break(()),
            None => {}
        }
        ControlFlow::Continue(())
    });
    let mut last = None;
    let symbols = nearest.into_iter().map(|(symbol, is_own)| {
        if symbol.start != 0 {
            last = is_own.then_some(symbol);
        }
        last.clone()
    });
    symbols.collect()
}

/// Calls `visit` for each symbol, until it returns `Break`.
fn each_line(mut lines: impl BufRead, mut visit: impl FnMut(&KallsymsLine<'_>) -> ControlFlow<()>) {
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).unwrap_or(0) != 0 {
        if KallsymsLine::parse(&line).is_some_and(|symbol| visit(&symbol).is_break()) {
            return;
        }
        line.clear();
    }
}

/// A line, such as `ffffffff81000000 T name\t[module]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KallsymsLine<'a> {
    start: u64,
    /// The type of the symbol, as `nm` shows it.
    kind: u8,
    name: &'a [u8],
    module: Option<&'a [u8]>,
}

impl<'a> KallsymsLine<'a> {
    /// Parses a line; `None` if the address is hidden. To save time on up to 200,000 lines, looks for the start of the
    /// module only in a line that ends with a module.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let (start, rest) = split_address(line)?;
        let [b' ', kind, b' ', rest @ ..] = rest.trim_ascii_end() else {
            return None;
        };
        let (name, module) = match rest.strip_suffix(b"]") {
            None => (rest, None),
            Some(named) => {
                let tab = named.iter().rposition(|byte| *byte == b'\t')?;
                (&named[..tab], Some(named[tab + 1..].strip_prefix(b"[")?))
            }
        };
        (start != 0).then_some(Self {
            start,
            kind: *kind,
            name,
            module,
        })
    }

    /// Returns whether the symbol names code, and not data or the end of code.
    fn is_code(&self) -> bool {
        b"tTwWi".contains(&self.kind) && ![&b"_etext"[..], b"_einittext"].contains(&self.name)
    }
}

/// Parses the hexadecimal number that a line begins with, and returns it with the rest of the line.
fn split_address(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (index, byte) in line.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return Some((number, &line[index..])),
        };
        number = number << 4 | u64::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
0000000000000000 A fixed_percpu_data
0000000000001000 A cpu_tss
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 t first
ffffffff81000200 T second
ffffffff81000300 D data
ffffffff81000300 T behind_data
ffffffff81000400 T _etext
ffffffff81000500 D rodata
ffffffffc0002000 t last\t[module]
ffffffffc0001000 t earlier\t[module]
ffffffffc0001800 d parameter\t[module]
ffffffffc0003000 t other\t[other]
ffffffffc0004000 t bpf_prog_12_x\t[bpf]
";
    const MODULE: KernelPart<'_> = KernelPart::Module("module");

    /// A part of the kernel, an address, and the name of the address in that part.
    const EXPECTED: [(KernelPart<'_>, u64, Option<&str>); 18] = [
        (KernelPart::Image, 0x10, None),
        (KernelPart::Image, 0x1008, None),
        (KernelPart::Image, 0xffff_ffff_8100_0000, Some("_text")),
        (KernelPart::Image, 0xffff_ffff_8100_0010, Some("_text")),
        (KernelPart::Image, 0xffff_ffff_8100_0100, Some("first")),
        (KernelPart::Image, 0xffff_ffff_8100_01ff, Some("first")),
        (KernelPart::Image, 0xffff_ffff_8100_0210, Some("second")),
        (
            KernelPart::Image,
            0xffff_ffff_8100_0310,
            Some("behind_data"),
        ),
        // The end of the code, data, and an address outside of the image.
        (KernelPart::Image, 0xffff_ffff_8100_0410, None),
        (KernelPart::Image, 0xffff_ffff_8100_0510, None),
        (MODULE, 0xffff_ffff_c000_0fff, None),
        (MODULE, 0xffff_ffff_c000_1010, Some("earlier")),
        (MODULE, 0xffff_ffff_c000_1810, None),
        (MODULE, 0xffff_ffff_c000_2fff, Some("last")),
        // An address in another module, and one of a module that is not loaded.
        (MODULE, 0xffff_ffff_c000_3010, None),
        (KernelPart::Module("gone"), 0xffff_ffff_c000_1010, None),
        (
            KernelPart::Program("bpf_prog_12_x"),
            0xffff_ffff_c000_4001,
            Some("bpf_prog_12_x"),
        ),
        (
            KernelPart::Program("bpf_prog_9_y"),
            0xffff_ffff_c000_4001,
            None,
        ),
    ];

    #[test]
    fn each_address_is_in_the_nearest_function_before_it() {
        let name =
            |symbol: &Option<KernelSymbol>| symbol.as_ref().map(|symbol| symbol.name.clone());
        for part in [
            KernelPart::Image,
            MODULE,
            KernelPart::Module("gone"),
            KernelPart::Program("bpf_prog_12_x"),
        ] {
            let of_part = EXPECTED.iter().filter(|(of, ..)| *of == part);
            let (addresses, names): (Vec<u64>, Vec<_>) = of_part
                .map(|(_, address, name)| (*address, name.map(str::to_owned)))
                .unzip();
            let symbols = find(LINES.as_bytes(), part, &addresses);
            assert_eq!(symbols.iter().map(name).collect::<Vec<_>>(), names);
        }
        for (part, address, expected) in EXPECTED {
            let symbols = find(LINES.as_bytes(), part, &[address]);
            assert_eq!(name(&symbols[0]).as_deref(), expected, "{address:x}");
        }
        assert_eq!(find(LINES.as_bytes(), KernelPart::Image, &[]), []);
    }

    #[test]
    fn a_kernel_part_is_known_by_its_name() {
        for (name, part) in [
            (KERNEL, KernelPart::Image),
            ("[msr]", KernelPart::Module("msr")),
            // The kernel of another machine.
            (
                "[guest.kernel.kallsyms]",
                KernelPart::Module("guest.kernel.kallsyms"),
            ),
            ("bpf_prog_12_x", KernelPart::Program("bpf_prog_12_x")),
        ] {
            assert_eq!(KernelPart::of(Path::new(name)), part);
        }
    }

    #[test]
    fn cached_symbols_are_the_same_and_not_read_again() {
        let mut cached_symbols = CachedSymbols {
            read_at: Some(Instant::now()),
            ..CachedSymbols::default()
        };
        cached_symbols.read(LINES.as_bytes());
        for (part, address, expected) in EXPECTED {
            let symbol = cached_symbols.at(part, address);
            let name = symbol.map(|symbol| symbol.name);
            assert_eq!(name.as_deref(), expected, "{address:x}");
        }
        let minute = Instant::now().checked_sub(CachedSymbols::MIN_REREAD_INTERVAL);
        if let Some(before) = minute {
            let address = [0xffff_ffff_8100_0010];
            cached_symbols.read_at = Some(before);
            // Reading again would replace the symbols by those of this machine.
            assert!(cached_symbols.look_up(Path::new(KERNEL), &address)[0].is_some());
            assert_eq!(
                cached_symbols.read_at,
                Some(before),
                "the image does not change"
            );
            cached_symbols.look_up(Path::new("[module]"), &address);
            assert!(cached_symbols.read_at > Some(before), "modules come and go");
        }
    }

    #[test]
    fn lines_behind_all_addresses_are_not_read() {
        let mut lines = LINES.as_bytes();
        let symbols = find(&mut lines, KernelPart::Image, &[0xffff_ffff_8100_0110]);
        assert_eq!(
            symbols[0].as_ref().map(|symbol| &*symbol.name),
            Some("first")
        );
        assert!(lines.starts_with(b"ffffffff81000300 D data"), "{lines:?}");
    }

    #[test]
    fn hidden_addresses_give_no_symbols() {
        let lines = "0000000000000000 T _text\n0000000000000000 t x\t[m]\n";
        let symbols = find(
            lines.as_bytes(),
            KernelPart::Image,
            &[0xffff_ffff_8100_0110],
        );
        assert_eq!(symbols, [None]);
    }
}
