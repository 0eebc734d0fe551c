// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts an event on a hybrid processor: `kinds EVENT HERE OTHER`. First the work runs on the CPU HERE only; then it runs on
//! HERE, on OTHER, and on HERE again. If the CPU OTHER lacks the event, the second count would be too low, and the library
//! must return an error instead.

use std::arch::asm;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use perfmon::event::region;
use perfmon::{Event, Group, region};

/// Executes 2 instructions in each of `n` iterations.
fn spin(n: u64) {
    // SAFETY: `asm!` requires that the assembly does only what its operands and options declare. The assembly changes
    // only the register that it declares as an operand, and the flags, which `asm!` treats as changed; it accesses no
    // memory, as `nomem` and `nostack` promise.
    unsafe {
        asm!("2:", "dec {n}", "jnz 2b", n = inout(reg) n => _, options(nomem, nostack));
    }
}

/// Moves this thread to a CPU.
fn move_to(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).expect("the number of a CPU");
    sched_setaffinity(Pid::from_raw(0), &cpus).expect("the CPU is online");
}

fn main() -> Result<(), perfmon::Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, here, other] = &arguments[..] else {
        panic!("usage: kinds EVENT HERE OTHER");
    };
    let [here, other] = [here, other].map(|cpu| cpu.parse().expect("the number of a CPU"));
    move_to(here);

    let event = Event::named(name)?.this_thread().open()?;
    let page = event.user_page()?;
    let before = page.read_with_times()?;
    spin(1_000_000);
    let after = page.read_with_times()?;
    println!("stayed: {}", page.count_between(&before, &after)?);
    spin(1_000_000);
    move_to(other);
    spin(1_000_000);
    let on_other = page.read_with_times()?;
    move_to(here);
    spin(1_000_000);
    let back_here = page.read_with_times()?;
    println!(
        "by a system call: {:?}",
        page.count_between(&after, &on_other)
    );
    println!("by RDPMC: {}", page.read_counter().is_some());
    match page.count_between(&after, &back_here) {
        Ok(count) => println!("moved: {count}"),
        Err(error) => println!("moved: {error}"),
    }

    region::set_events(Group::of(Event::named(name)?)).expect("no region was passed before");
    for cpu in [here, other] {
        let _region = region!("loop");
        spin(1_000_000);
        move_to(cpu);
        spin(1_000_000);
        move_to(here);
    }
    for total in region::totals() {
        println!("region: {} passes, {} failed", total.passes, total.failed);
        println!("sum: {}", total[0]);
    }
    if let Some(error) = region::error() {
        println!("error: {error}");
    }
    Ok(())
}
