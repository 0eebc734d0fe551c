// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts a closure, reads counts without a system call, and sums up the counts between two points of a program and of a
//! child that it forks.

use std::arch::asm;

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use perfmon::event::region;
use perfmon::{Event, Group, measure, region};

/// Executes 2 instructions in each of `n` iterations.
fn spin(n: u64) {
    // SAFETY: `asm!` requires that the assembly does only what its operands and options declare. The assembly changes
    // only the register that it declares as an operand, and the flags, which `asm!` treats as changed; it accesses no
    // memory, as `nomem` and `nostack` promise.
    unsafe {
        asm!("2:", "dec {n}", "jnz 2b", n = inout(reg) n => _, options(nomem, nostack));
    }
}

fn main() -> Result<(), perfmon::Error> {
    let ((), counts) = measure(|| spin(1_000_000))?;
    for (event, count) in counts.iter() {
        println!("measure: {event} {count}");
    }

    let event = Event::instructions().user().open()?;
    let page = event.user_page()?;
    println!(
        "page without a system call: {}",
        page.read_counter().is_some()
    );
    let mut readings = [0; 4];
    for (reading, n) in readings.iter_mut().zip([1, 1_000_000, 2_000_000, 1]) {
        *reading = page.read()?;
        spin(n);
    }
    // The two readings include the same instructions outside of the loops, so they cancel out in
    // the difference.
    println!(
        "page: {}",
        (readings[3] - readings[2]) - (readings[2] - readings[1])
    );

    let group = Group::of(Event::instructions().user())
        .and(Event::branches().user())
        .open()?;
    let pages = group.user_pages()?;
    let mut readings = [[0; 2]; 4];
    println!(
        "pages without a system call: {}",
        pages.read_counters(&mut readings[0])
    );
    for (reading, n) in readings.iter_mut().zip([1, 1_000_000, 2_000_000, 1]) {
        pages.read(reading)?;
        spin(n);
    }
    let counts =
        [0, 1].map(|i| (readings[3][i] - readings[2][i]) - (readings[2][i] - readings[1][i]));
    println!("pages: {} {}", counts[0], counts[1]);

    let events = Group::of(Event::instructions().user()).and(Event::branches().user());
    region::set_events(events.clone()).expect("no region was passed before");
    for n in [1_000_000, 2_000_000] {
        let _region = region!("loop");
        spin(n);
    }
    {
        let _region = region!("nothing");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _region = region!("thread");
            spin(1_000_000);
        });
    });
    print_totals("region");
    if let Err(error) = region::set_events(events) {
        println!("later events: {error}");
    }

    // SAFETY: `fork` requires that the child calls no function that needs a lock of another thread. All other threads
    // have ended.
    match unsafe { fork() }.expect("a child") {
        ForkResult::Parent { child } => {
            println!("child: {:?}", waitpid(child, None));
        }
        ForkResult::Child => {
            println!(
                "child's page without a system call: {}",
                page.read_counter().is_some()
            );
            {
                let _region = region!("child");
                spin(1_000_000);
            }
            print_totals("child's region");
        }
    }
    Ok(())
}

/// Prints the sums of all regions that this process has passed.
fn print_totals(title: &str) {
    for total in region::totals() {
        println!(
            "{title} {}: {} {} {} {}",
            total.name, total.passes, total.failed, total[0], total[1]
        );
    }
    if let Some(error) = region::error() {
        println!("{title}: {error}");
    }
}
