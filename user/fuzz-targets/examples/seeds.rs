// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the inputs that the fuzzer begins with into `fuzz/seeds`: `cargo run -p fuzz-targets --example seeds`.
//!
//! The folders also contain inputs for which the fuzzer has found a fault.

use std::fs;
use std::io;
use std::path::Path;

use perfmon::abi::{
    PERFMON_CONFIG_FLAG_LAST_BRANCH as BRANCHES, PERFMON_CONFIG_FLAG_OS as KERNEL,
    PERFMON_CONFIG_FLAG_PC as PC, PERFMON_CONFIG_FLAG_TIMEBASE0 as TIMEBASE,
    PERFMON_CONFIG_FLAG_USER as USER, perfmon_last_branch,
};
use perfmon::trace::{ArchEvent, Branches, EventId, FixedEvent, Record};

const FIXED: EventId = EventId::fixed(FixedEvent::Instructions);
const ARCH: EventId = EventId::arch(ArchEvent::LlcMisses);
const MODEL: EventId = EventId::model(2);

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(folder.join(target))?;
        fs::write(folder.join(target).join(name), bytes)
    };
    for (name, rows) in CONFIGS {
        write("config", name, &config_input(rows))?;
    }
    write("decode", "all-kinds", &records())?;
    write("decode", "cut-off", &records()[..90])?;
    for (name, text) in TEXTS {
        write("events", name, text.as_bytes())?;
    }
    write("recording", "plain", &pmctl::fuzz::example(false))?;
    write("recording", "branches", &pmctl::fuzz::example(true))?;
    for (name, bits, available) in SELECTS {
        let words = [bits.to_le_bytes(), available.to_le_bytes()];
        write("select", name, &words.concat())?;
    }
    Ok(())
}

/// An event with its rate and its flags.
type Row = (EventId, u32, u32);
type Rows = &'static [Row];

const CONFIGS: [(&str, Rows); 4] = [
    ("empty", &[]),
    ("sampling", &[(FIXED, 1000, USER | PC), (MODEL, 0, KERNEL)]),
    (
        "timebase",
        &[
            (FIXED, 1000, USER | PC | BRANCHES | TIMEBASE),
            (ARCH, 0, USER | KERNEL | TIMEBASE),
        ],
    ),
    ("twice", &[(ARCH, 1000, USER), (ARCH, 1000, USER)]),
];

/// Returns an input of the target `config`: these events, and a CPU that supports everything. Its counters have 48
/// bits, and half of the counters are free.
fn config_input(rows: Rows) -> Vec<u8> {
    let mut bytes = vec![8, 48, 48, 0b11, 0x0f, 0, 0xff, 0];
    bytes.extend(0x5555_5555_5555_5555_u64.to_le_bytes());
    bytes.resize(20, 0);
    let column = |size: usize, cell: &dyn Fn(&Row) -> Vec<u8>| {
        let mut column: Vec<u8> = rows.iter().flat_map(cell).collect();
        column.resize(32 * size, 0);
        column
    };
    bytes.extend(column(2, &|row| row.0.bits().to_le_bytes().to_vec()));
    bytes.extend(column(4, &|row| row.1.to_le_bytes().to_vec()));
    bytes.extend(column(4, &|row| row.2.to_le_bytes().to_vec()));
    bytes
}

/// Returns the bytes of a record of each kind.
fn records() -> Vec<u8> {
    let (event, aspace) = (FIXED, 0x1234_5000);
    let raw = [1, 2].map(|from| perfmon_last_branch {
        from,
        to: 3,
        info: 9,
    });
    let branches = Branches::new(&raw).expect("two are not too many");
    let records = [
        Record::Time { time: 1 << 40 },
        Record::Tick { event: ARCH },
        Record::Pc {
            event,
            aspace,
            pc: 0x40_1000,
        },
        Record::Count {
            event: MODEL,
            count: 17,
        },
        Record::Value {
            event: MODEL,
            value: u64::MAX,
        },
        Record::LastBranch {
            event,
            aspace,
            branches,
        },
    ];
    let mut bytes = Vec::new();
    for record in records {
        record.encode(&mut bytes);
    }
    bytes
}

const TEXTS: [(&str, &str); 6] = [
    (
        "names",
        "cycles:u,instructions:k,BR_MISP_RETIRED.ALL_BRANCHES",
    ),
    ("raw", "r1c0:PMC0,rc0:uk"),
    ("fields", "cpu/event=0x3c,umask=1,cmask=2,inv,edge,name=x/u"),
    ("group", "{cache-misses,fixed1:FIXED1}:u"),
    ("misspelled", "cycels"),
    ("refused", "cpu/event=1,any/,cycles:pp"),
];

const SELECTS: [(&str, u64, u64); 3] = [
    ("intel", 0x0143_00c0, 0xffff_ffff),
    ("amd", 0x1_0041_0076, 0xf_ffff_ffff),
    ("refused", 0x0028_0000, u64::MAX),
];
