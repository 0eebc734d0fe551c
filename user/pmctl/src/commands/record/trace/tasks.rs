// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks of each CPU over time, from perf's records of switches.

use std::collections::HashMap;

use crate::recording::perfdata::{Stamp, Task};

/// The tasks of each CPU.
#[derive(Debug, Default)]
pub(super) struct CpuTasks {
    cpus: HashMap<u32, CpuSwitches>,
}

/// The tasks of a CPU in their order.
#[derive(Debug)]
struct CpuSwitches {
    /// The one before the first switch.
    first: Task,
    /// Time and next task of each switch, by time.
    turns: Vec<(u64, Task)>,
}

impl CpuTasks {
    /// Adds a switch to the stamp's task, or with `out` away from it. Those of a CPU must come in their order.
    pub(super) fn switch(&mut self, stamp: Stamp, out: bool, other: Task) {
        let before = if out { stamp.task } else { other };
        let turns = self.cpus.entry(stamp.cpu).or_insert_with(|| CpuSwitches {
            first: before,
            turns: Vec::new(),
        });
        // The kernel tells of each switch twice. The task that goes says so before the scheduler has done its
        // work, which perf counts to it; so what holds is what the one that comes says.
        if !out {
            turns.turns.push((stamp.time, stamp.task));
        }
    }

    /// Returns the task of a CPU at a time; `None` if nothing is known about the CPU.
    pub(super) fn at(&self, cpu: u32, time: u64) -> Option<Task> {
        let CpuSwitches { first, turns } = self.cpus.get(&cpu)?;
        let begun = turns.partition_point(|turn| turn.0 <= time);
        Some(turns[..begun].last().map_or(*first, |turn| turn.1))
    }

    /// Removes switches that do not matter at `time` and later.
    pub(super) fn forget(&mut self, time: u64) {
        for CpuSwitches { first, turns } in self.cpus.values_mut() {
            let begun = turns.partition_point(|turn| turn.0 <= time);
            if let Some((_, last)) = turns.drain(..begun).next_back() {
                *first = last;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(cpu: u32, time: u64, pid: u32) -> Stamp {
        let task = Task::leader(pid);
        Stamp { time, task, cpu }
    }

    /// Both records of a switch from one task to another.
    fn switch(tasks: &mut CpuTasks, cpu: u32, time: u64, [from, to]: [u32; 2]) {
        tasks.switch(stamp(cpu, time, from), true, Task::leader(to));
        tasks.switch(stamp(cpu, time + 1, to), false, Task::leader(from));
    }

    #[test]
    fn a_task_runs_until_the_next_one_says_that_it_does() {
        let mut tasks = CpuTasks::default();
        switch(&mut tasks, 0, 10, [1, 2]);
        switch(&mut tasks, 1, 15, [7, 0]);
        switch(&mut tasks, 0, 20, [2, 3]);
        let at = |cpu, time| tasks.at(cpu, time).map(|task| task.pid);
        assert_eq!(at(0, 0), Some(1), "what the first switch ends");
        assert_eq!(at(0, 10), Some(1), "the scheduler's work is its");
        assert_eq!(at(0, 11), Some(2));
        assert_eq!(at(0, 20), Some(2));
        assert_eq!(at(0, 99), Some(3));
        assert_eq!(at(1, 15), Some(7));
        assert_eq!(at(1, 16), Some(0));
        assert_eq!(at(2, 16), None);
    }

    #[test]
    fn a_first_record_of_the_task_that_comes_names_the_other_too() {
        let mut tasks = CpuTasks::default();
        tasks.switch(stamp(0, 10, 2), false, Task::leader(1));
        assert_eq!(tasks.at(0, 5), Some(Task::leader(1)));
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let mut tasks = CpuTasks::default();
        for n in 0..100 {
            switch(&mut tasks, 0, 10 * n, [1, 2]);
            switch(&mut tasks, 0, 10 * n + 5, [2, 1]);
        }
        tasks.forget(500);
        assert_eq!(tasks.cpus[&0].turns.len(), 100);
        let at = |time| tasks.at(0, time).map(|task| task.pid);
        assert_eq!(
            [at(500), at(501), at(506), at(996)],
            [Some(1), Some(2), Some(1), Some(1)]
        );
    }
}
