// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packs `tables/*.txt` into a form that the library searches without parsing.
//!
//! A table has a line each for its name, its version, every range of CPUs and every event:
//!
//! ```text
//! table skylake
//! version v59
//! counters 4 3                           the numbers of general and of fixed counters
//! kind core                              only of hybrid processors: core, atom or lowpower
//! cpu GenuineIntel 6 4e-4e ffff          vendor, family, models, and bit n for stepping n
//! NAME EVENT UMASK [inv] [edge] [any] [deprecated] [cmask=N] [counters=MASK] [period=N] [fixed=N] [msr=REGISTER:VALUE]
//! ```
//!
//! All numbers are hexadecimal. `build_metrics.rs` does the same with `tables/metrics/*.txt`.

#[path = "build_metrics.rs"]
mod metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The number of names in a block. The first name of a block is stored whole. Each other name is
/// stored without the prefix that it shares with the name before it.
const NAMES_PER_BLOCK: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Encoding {
    number: u16,
    unit_mask: u16,
    counter_mask: u8,
    flags: u8,
    counters: u16,
    /// 0xff if there is no fixed counter.
    fixed: u8,
    period: u32,
    /// The extra register and its value; 0 if there is none.
    extra: (u16, u64),
}

#[derive(Default)]
struct Table {
    name: String,
    version: String,
    counters: (u8, u8),
    kind: String,
    cpus: Vec<String>,
    events: Vec<(String, Encoding)>,
}

/// The events of all tables.
struct PackedEvents {
    /// The names, as [`pack_names`] packs them.
    names: Vec<u8>,
    /// The Rust source of the offsets of the blocks of names.
    blocks: String,
    /// The Rust source of everything else.
    tables: String,
}

fn main() {
    println!("cargo::rerun-if-changed=tables");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build_metrics.rs");
    let mut paths: Vec<PathBuf> = fs::read_dir("tables")
        .expect("the tables are there")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    let tables: Vec<Table> = paths.iter().map(|path| read_table(path)).collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let table_names = tables.iter().map(|table| &*table.name);
    let (metrics, metric_ranges) = metrics::pack(Path::new("tables/metrics"), table_names);
    let packed = pack(&tables, &metric_ranges);
    let write = |name, content: &[u8]| {
        fs::write(out.join(name), content).expect("OUT_DIR can be written");
    };
    write("names.bin", &packed.names);
    write("blocks.rs", packed.blocks.as_bytes());
    write("tables.rs", (packed.tables + &metrics).as_bytes());
}

fn read_table(path: &Path) -> Table {
    let text = fs::read_to_string(path).expect("a table can be read");
    let mut table = Table {
        kind: "Only".to_owned(),
        ..Table::default()
    };
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["table", name] => name.clone_into(&mut table.name),
            ["version", version] => version.clone_into(&mut table.version),
            ["counters", general, fixed] => {
                table.counters = (hexadecimal(general), hexadecimal(fixed));
            }
            ["kind", kind] => {
                let kinds = [("core", "Core"), ("atom", "Atom"), ("lowpower", "LowPower")];
                let variant = kinds.iter().find(|(name, _)| *name == kind);
                variant
                    .expect("the kind is known")
                    .1
                    .clone_into(&mut table.kind);
            }
            ["cpu", vendor, family, models, steppings] => {
                let (first, last) = models.split_once('-').expect("models are a range");
                table.cpus.push(format!(
                    "CpuRange {{ vendor: *b\"{vendor}\", family: 0x{family}, models: (0x{first}, 0x{last}), \
                     steppings: 0x{steppings} }}"
                ));
            }
            [name, number, unit_mask, ref fields @ ..] => {
                let encoding = parse_encoding(number, unit_mask, fields);
                table.events.push((name.to_owned(), encoding));
            }
            _ => panic!("{}: unknown kind of line: {line}", path.display()),
        }
    }
    assert!(
        !table.name.is_empty() && !table.cpus.is_empty() && !table.events.is_empty(),
        "{}: no name, no CPU or no event",
        path.display()
    );
    table
}

fn hexadecimal<T: TryFrom<u64>>(text: &str) -> T {
    let number = u64::from_str_radix(text, 16).expect("a number is hexadecimal");
    T::try_from(number).ok().expect("a number is not too large")
}

fn parse_encoding(number: &str, unit_mask: &str, fields: &[&str]) -> Encoding {
    let mut encoding = Encoding {
        number: hexadecimal(number),
        unit_mask: hexadecimal(unit_mask),
        fixed: u8::MAX,
        ..Encoding::default()
    };
    for field in fields {
        match field.split_once('=') {
            None => {
                let flags = ["inv", "edge", "any", "deprecated"];
                let bit = flags.iter().position(|flag| flag == field);
                encoding.flags |= 1 << bit.expect("a flag is known");
            }
            Some(("cmask", value)) => encoding.counter_mask = hexadecimal(value),
            Some(("counters", value)) => encoding.counters = hexadecimal(value),
            Some(("period", value)) => encoding.period = hexadecimal(value),
            Some(("fixed", value)) => encoding.fixed = hexadecimal(value),
            Some(("msr", value)) => {
                let (register, value) = value.split_once(':').expect("a register has a value");
                encoding.extra = (hexadecimal(register), hexadecimal(value));
            }
            Some(_) => panic!("a field is unknown: {field}"),
        }
    }
    encoding
}

/// Packs the events. `metrics` is, for each table, the Rust source of the range of its metrics.
fn pack(tables: &[Table], metrics: &[String]) -> PackedEvents {
    // The map is sorted without regard to case, as the search needs it.
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for (name, _) in tables.iter().flat_map(|table| &table.events) {
        let earlier_name = names.insert(name.to_ascii_lowercase(), name);
        assert!(
            earlier_name.is_none_or(|earlier_name| earlier_name == name),
            "{name} has a second spelling"
        );
    }
    let (packed_names, blocks) = pack_names(names.values().copied());

    let encodings: BTreeSet<&Encoding> = tables
        .iter()
        .flat_map(|table| &table.events)
        .map(|(_, encoding)| encoding)
        .collect();
    let encodings: Vec<&Encoding> = encodings.into_iter().collect();
    let numbers: BTreeMap<&str, u16> = (0..)
        .zip(names.keys())
        .map(|(id, name)| (name.as_str(), id))
        .collect();

    let (mut pairs, mut models, mut end) = (String::new(), String::new(), 0);
    for (table, metrics) in tables.iter().zip(metrics) {
        let first = end;
        let pair = |(name, encoding): &(String, Encoding)| {
            let name = numbers[name.to_ascii_lowercase().as_str()];
            (name, index_of(&encodings, &encoding))
        };
        let mut events: Vec<(u16, u16)> = table.events.iter().map(pair).collect();
        events.sort_unstable();
        assert!(
            events.windows(2).all(|two| two[0].0 < two[1].0),
            "{}: two events with the same name",
            table.name
        );
        for (name, encoding) in &events {
            pairs += &format!("[{name},{encoding}],");
        }
        end += events.len();
        models += &format!(
            "Model {{ name: {:?}, version: {:?}, counters: {:?}, kind: Kind::{}, cpus: &[{}], events: ({first}, {end}), {metrics} }},\n",
            table.name,
            table.version,
            table.counters,
            table.kind,
            table.cpus.join(", ")
        );
    }
    let blocks = format!(
        "pub(super) const NAMES_PER_BLOCK: usize = {NAMES_PER_BLOCK};\npub(super) const NAME_COUNT: usize = {};\n\
         pub(super) static BLOCKS: [u32; {}] = {blocks:?};\n",
        names.len(),
        blocks.len()
    );
    let tables = format!(
        "{}\
         pub(super) static EVENTS: [[u16; 2]; {end}] = [{pairs}];\n\
         pub(super) static MODELS: [Model; {}] = [\n{models}];\n",
        encodings_text(&encodings),
        tables.len()
    );
    PackedEvents {
        names: packed_names,
        blocks,
        tables,
    }
}

/// Returns the encodings as Rust source. Registers and periods have tables of their own, because
/// they have few different values.
fn encodings_text(encodings: &[&Encoding]) -> String {
    let extras: BTreeSet<(u16, u64)> = encodings.iter().map(|e| e.extra).collect();
    let periods: BTreeSet<u32> = encodings.iter().map(|e| e.period).collect();
    let extras: Vec<(u16, u64)> = extras.into_iter().collect();
    let periods: Vec<u32> = periods.into_iter().collect();
    let rows: Vec<String> = encodings
        .iter()
        .map(|e| {
            format!(
                "PackedEvent {{ number: {}, unit_mask: {}, counters: {}, extra: {}, period: {}, counter_mask: {}, flags: {}, \
                 fixed: {} }},",
                e.number,
                e.unit_mask,
                e.counters,
                index_of(&extras, &e.extra),
                index_of(&periods, &e.period),
                e.counter_mask,
                e.flags,
                e.fixed,
            )
        })
        .collect();
    format!(
        "pub(super) static EXTRAS: [(u16, u64); {}] = {extras:?};\n\
         pub(super) static PERIODS: [u32; {}] = {periods:?};\n\
         pub(super) static ENCODINGS: [PackedEvent; {}] = [{}];\n",
        extras.len(),
        periods.len(),
        rows.len(),
        rows.join("\n")
    )
}

/// Returns the index of an item, which `items` must contain.
fn index_of<T: Ord>(items: &[T], item: &T) -> u16 {
    let index = items.binary_search(item).expect("it was collected");
    u16::try_from(index).expect("there are few enough")
}

/// Returns the packed names, and the offset of each block. A name is packed as the number of bytes that it shares with the
/// name before it in its block, the number of its other bytes, and its other bytes.
fn pack_names<'a>(names: impl Iterator<Item = &'a str>) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
    let mut name_before = "";
    for (number, name) in names.enumerate() {
        if number % NAMES_PER_BLOCK == 0 {
            blocks.push(bytes.len());
            name_before = "";
        }
        let shared = name_before
            .bytes()
            .zip(name.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let length = |length: usize| u8::try_from(length).expect("a name has at most 255 bytes");
        bytes.extend([length(shared), length(name.len() - shared)]);
        bytes.extend(&name.as_bytes()[shared..]);
        name_before = name;
    }
    (bytes, blocks)
}
