// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the instructions of a loop, in user mode.

use perfmon::Event;

fn main() -> Result<(), perfmon::Error> {
    let event = Event::instructions().user().this_thread().open()?;
    let sum = (1..=1_000_000_u64).fold(0, |x, n| x ^ std::hint::black_box(n));
    println!("{} instructions (the result is {sum})", event.read()?);
    Ok(())
}
