// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how many records are decoded per second, from a FILE with the bytes of `Chunk::bytes`, or from generated
//! records.
//!
//! `cargo run --release --example decode-bench [FILE]`

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use perfmon::abi::perfmon_last_branch;
use perfmon::trace::{
    ArchEvent, Branches, Chunk, DecodeError, Decoder, EventId, FixedEvent, Record, merge,
};

/// A function that decodes all records once, and returns their number.
type Measure<'a> = &'a dyn Fn() -> Result<usize, DecodeError>;

fn main() -> Result<(), Box<dyn Error>> {
    let bytes = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read(path)?,
        None => generate_records(),
    };
    let chunks: Vec<Chunk> = (0..8).map(|cpu| Chunk::new(cpu, bytes.clone())).collect();
    let measures: [(&str, Measure<'_>); 3] = [
        ("decode", &|| count(Decoder::new(&bytes))),
        ("with times", &|| count(chunks[0].records())),
        ("8 CPUs merged", &|| count(merge(&chunks))),
    ];
    for (name, measure) in measures {
        // Takes the best of ten runs, since other load on the machine only makes a run slower.
        let mut best = 0.0_f64;
        for _ in 0..10 {
            let start = Instant::now();
            let records = measure()?;
            best = best.max(records as f64 / start.elapsed().as_secs_f64());
        }
        println!("{name:14} {:6.1} million records/s", best / 1e6);
    }
    Ok(())
}

/// Decodes all records, and returns their number.
fn count<T>(records: impl Iterator<Item = Result<T, DecodeError>>) -> Result<usize, DecodeError> {
    let mut number = 0;
    for record in records {
        black_box(record?);
        number += 1;
    }
    Ok(number)
}

/// Encodes the records of a trace of instructions with addresses, cache misses and a few branches.
fn generate_records() -> Vec<u8> {
    let event = EventId::fixed(FixedEvent::Instructions);
    let misses = EventId::arch(ArchEvent::LlcMisses);
    let (aspace, pc) = (0x1234_5000, 0x5555_5555_1234);
    let (from, to, info) = (pc, pc + 64, 10);
    let raw = [perfmon_last_branch { from, to, info }; 32];
    let branches = Branches::new(&raw).expect("32 are not too many");
    let mut bytes = Vec::new();
    for set in 0..200_000 {
        Record::Time { time: set * 1000 }.encode(&mut bytes);
        Record::Pc { event, aspace, pc }.encode(&mut bytes);
        let count = 17;
        let event = misses;
        Record::Count { event, count }.encode(&mut bytes);
        if set % 16 == 0 {
            let branches = Record::LastBranch {
                event,
                aspace,
                branches,
            };
            branches.encode(&mut bytes);
        }
    }
    bytes
}
