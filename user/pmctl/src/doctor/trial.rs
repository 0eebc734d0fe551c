// SPDX-License-Identifier: MIT OR Apache-2.0
//! The proof: setting a counter up, and counting with it.

use std::hint::black_box;

use perfmon::{CounterId, Error, EventSelect, Modes, Session};

/// Instructions that are counted at least: a loop of so many rounds.
pub(super) const ROUNDS: u64 = 100_000;

/// Outcome of the attempt to count.
#[derive(Debug)]
pub(super) enum Trial {
    /// A recording can't count.
    NotTried,
    /// Success: the number of instructions.
    Counted(u64),
    Failed(Error),
}

impl Trial {
    /// Counts the instructions of a loop.
    pub(super) fn run() -> Self {
        match count() {
            Ok(instructions) => Self::Counted(instructions),
            Err(error) => Self::Failed(error),
        }
    }
}

fn count() -> Result<u64, Error> {
    let session = Session::open()?;
    let instructions = EventSelect::new(0xc0, 0x00).modes(Modes::User);
    let counter = session.counter(CounterId::General(0), instructions)?;
    counter.start()?;
    for round in 0..ROUNDS {
        black_box(round);
    }
    counter.stop()?;
    counter.read()
}
