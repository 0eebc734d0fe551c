// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recording of memory accesses that the tests of the command line read, `tests/recordings/memory.data`. With
//! `TRYCMD=overwrite` in the environment, the test writes it.

use std::io::Cursor;
use std::{env, fs};

use perfmon::Modes;

use super::*;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/memory.data");
const PROGRAM: &str = "/usr/lib/perfmon/pmctl_memory";

/// Addresses of the program's code and data, and the offset of the data in the file.
const CODE: u64 = 0x40_1000;
const DATA: u64 = 0x40_4000;
const DATA_OFFSET: u64 = 0x3000;
const HEAP: u64 = 0x180_0000;
const STACK: u64 = 0x7fff_ff00_0000;

/// A sample: its instruction, and the address, latency and source of the data.
type Access = (u64, u64, u32, u64);

/// Returns a value of `union perf_mem_data_src`: `mem_op`, `mem_lvl`, `mem_snoop`, `mem_lock`, `mem_dtlb`, `mem_lvl_num`
/// and `mem_blk`.
fn source([op, level, snoop, lock, tlb, number, blocked]: [u64; 7]) -> u64 {
    op | level << 5 | snoop << 19 | lock << 24 | tlb << 26 | number << 33 | blocked << 40
}

fn accesses() -> Vec<Access> {
    let l1 = source([2, 0xa, 2, 1, 0x1a, 1, 1]);
    let modified_in_l3 = source([2, 0x42, 0x10, 1, 0x1a, 3, 1]);
    let ram = source([2, 0x82, 8, 2, 0x24, 0xd, 1]);
    let store = source([4, 0xa, 1, 0, 0x1a, 0, 1]);
    let waiting = source([2, 0xa, 2, 1, 0x1a, 1, 2]);
    vec![
        (CODE + 4, DATA + 0x10, 5, l1),
        (CODE + 4, DATA + 0x10, 5, l1),
        (CODE + 4, DATA + 0x18, 5, l1),
        (CODE + 9, HEAP + 0x40, 70, modified_in_l3),
        (CODE + 9, HEAP + 0x40, 90, modified_in_l3),
        (CODE + 0x24, HEAP + 0x1000, 310, ram),
        (CODE + 0x28, STACK + 8, 0, store),
        (CODE + 0x2c, STACK + 8, 12, waiting),
        // An instruction that reads and writes nothing.
        (CODE + 0x30, 0, 0, 0),
    ]
}

fn recording() -> Recording {
    let task = Task::leader(7);
    let map = |start, length, offset, is_data, file: &str| {
        Body::Map(Map {
            task,
            is_data,
            start,
            length,
            offset,
            protection: if is_data { 3 } else { 5 },
            flags: 2,
            file: file.into(),
            ..Map::default()
        })
    };
    let state = [
        Body::Comm {
            task,
            name: "pmctl_memory".to_owned(),
            exec: true,
        },
        map(CODE, 0x1000, 0x1000, false, PROGRAM),
        map(DATA, 0x1000, DATA_OFFSET, true, PROGRAM),
        map(HEAP, 0x2000, 0, true, "[heap]"),
        map(STACK, 0x1000, 0, true, "[stack]"),
    ];
    let samples = accesses()
        .into_iter()
        .map(|(ip, address, latency, source)| {
            Body::Sample(Sample {
                ip,
                period: 1009,
                access: MemoryAccess {
                    address,
                    weight: Weight {
                        latency,
                        others: [9, 1],
                    },
                    source: DataSource(source),
                },
                ..Sample::default()
            })
        });
    let records: Vec<Record> = (1_000_000_000..)
        .step_by(1000)
        .zip(state.into_iter().chain(samples))
        .map(|(time, body)| Record {
            stamp: Stamp { time, task, cpu: 1 },
            body,
        })
        .collect();
    let parts = SampleParts {
        has_data_address: true,
        has_weight: true,
        has_data_source: true,
        ..SampleParts::default()
    };
    let symbol = |start, length, name: &str| Symbol {
        start,
        length,
        name: name.to_owned(),
    };
    let kind = EventKind::Raw(0x81d0);
    Recording {
        events: vec![Event {
            name: "mem_inst_retired.all_loads:upp".to_owned(),
            attr: Attr::sampled(kind, 1009, Modes::User, parts).with_precision(2),
        }],
        records: Records::from(&records[..]),
        host: Host {
            release: "7.3.4-perfmon".to_owned(),
            architecture: "x86_64".to_owned(),
            cpus_possible: 2,
            cpus_online: 2,
            ..Host::default()
        },
        notes: Notes {
            version: Notes::VERSION,
            scope: "pmctl_memory".to_owned(),
            tasks_only: true,
            totals: vec![9100],
            symbols: vec![SymbolTable {
                file: PROGRAM.to_owned(),
                symbols: vec![
                    symbol(0x1000, 0x20, "compare"),
                    symbol(0x1020, 0x20, "main"),
                    symbol(DATA_OFFSET + 0x10, 0x40, "table"),
                ],
                ..SymbolTable::default()
            }],
            ..Notes::default()
        },
        ..Recording::default()
    }
}

#[test]
fn the_recording_of_memory_accesses_is_the_file() {
    let file = write_recording(&recording(), Cursor::new(Vec::new()));
    let bytes = file.expect("a vector takes everything").into_inner();
    if env::var_os("TRYCMD").is_some_and(|mode| mode == "overwrite") {
        fs::write(FILE, &bytes).expect("it can be written");
    }
    assert_eq!(read(bytes), Ok(recording()));
    let committed = read(fs::read(FILE).expect("it is there"));
    assert_eq!(committed, Ok(recording()));
}
