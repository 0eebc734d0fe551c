// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles this program, and prints call chains as folded stacks of addresses.
//!
//! Call chains follow frame pointers: `RUSTFLAGS="-C force-frame-pointers=yes"`.

use std::collections::BTreeMap;
use std::hint::black_box;

use perfmon::Event;
use perfmon::sampler::Record;

fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        return black_box(n);
    }
    fibonacci(n - 1) + fibonacci(n - 2)
}

fn main() -> Result<(), perfmon::Error> {
    let event = Event::instructions().user().period(100_003);
    let mut sampler = event.callchain().depth(8).sample()?;
    black_box(fibonacci(black_box(27)));
    sampler.disable()?;

    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for record in &sampler.records() {
        let Record::Sample(sample) = record? else {
            continue;
        };
        let frames = sample.callchain().map(|f| format!("{:x}", f.address()));
        let stack = frames.collect::<Vec<_>>().join(";");
        *stacks.entry(stack).or_default() += 1;
    }
    for (stack, samples) in &stacks {
        println!("{stack} {samples}");
    }
    println!("lost: {}", sampler.lost_samples()?);
    Ok(())
}
