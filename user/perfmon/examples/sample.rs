// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples the program counter on all CPUs after each million user-mode instructions, for a second.

use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

use perfmon::trace::{Alloc, ArchEvent, Buffer, Config, Event, EventId, Record, Totals, merge};
use perfmon::{Modes, Session};

fn main() -> Result<(), Box<dyn Error>> {
    let instructions = EventId::arch(ArchEvent::Instructions);
    let every_million = Event::sampling(instructions, 1_000_000)
        .modes(Modes::User)
        .pc();
    let config = Config::builder().event(every_million).build()?;

    let session = Session::open()?;
    let info = session.device().info()?;
    let trace = session.allocate(Alloc::new(&info, 64))?.stage(&config)?;
    let mut buffers = trace.buffers()?;

    let trace = trace.start()?;
    sleep(Duration::from_secs(1));
    trace.stop()?;

    let chunks = buffers
        .iter_mut()
        .map(Buffer::records)
        .collect::<Result<Vec<_>, _>>()?;
    let mut totals = Totals::new(&config);
    for timed in merge(&chunks) {
        let timed = timed?;
        totals.add(&timed)?;
        if let Record::Pc { pc, .. } = timed.record {
            println!("{} CPU {:3} {pc:#x}", timed.time, timed.cpu);
        }
    }
    println!("{} instructions on all CPUs", totals.total(instructions));

    for buffer in &buffers {
        let flags = buffer.header().flags;
        if flags.is_full() {
            println!("CPU {}: the buffer became full", buffer.cpu());
        }
    }
    Ok(())
}
