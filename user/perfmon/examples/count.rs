// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the instructions of a loop, in user mode.

use perfmon::{CounterId, EventSelect, Modes, Session};

fn main() -> Result<(), perfmon::Error> {
    // Instructions retired: event 0xc0, unit mask 0x00, on Intel and on AMD.
    let instructions = EventSelect::new(0xc0, 0x00).modes(Modes::User);

    let session = Session::open()?;
    let counter = session.counter(CounterId::General(0), instructions)?;

    counter.start()?;
    let sum = (1..=1_000_000_u64).fold(0, |x, n| x ^ std::hint::black_box(n));
    counter.stop()?;

    println!("{} instructions (the result is {sum})", counter.read()?);
    Ok(())
}
