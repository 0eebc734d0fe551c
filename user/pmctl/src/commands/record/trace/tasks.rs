// SPDX-License-Identifier: MIT OR Apache-2.0
//! The task that each CPU ran at each time, from perf's records of switches.

use std::collections::HashMap;

use crate::recording::perfdata::{Stamp, Task};

/// The switches of all CPUs.
#[derive(Debug, Default)]
pub(super) struct CpuTasks {
    cpus: HashMap<u32, CpuSwitches>,
}

/// The switches of a CPU.
#[derive(Debug)]
struct CpuSwitches {
    /// The task that ran before the first switch.
    initial_task: Task,
    /// Time and next task of each switch, in the order of time.
    switches: Vec<(u64, Task)>,
}

impl CpuTasks {
    /// Adds a switch: without `out`, to the stamp's task; with `out`, from the stamp's task to `other`. The switches of
    /// a CPU must be added in their order.
    pub(super) fn add_switch(&mut self, stamp: Stamp, out: bool, other: Task) {
        let before = if out { stamp.task } else { other };
        let cpu = self.cpus.entry(stamp.cpu).or_insert_with(|| CpuSwitches {
            initial_task: before,
            switches: Vec::new(),
        });
        // The kernel writes two records for each switch. The record of the old task comes before the scheduler's work,
        // which perf attributes to that task, so the record of the new task is the one that counts.
        if !out {
            cpu.switches.push((stamp.time, stamp.task));
        }
    }

    /// Returns the task of a CPU at a time; `None` if no switch of the CPU was recorded.
    pub(super) fn task_at(&self, cpu: u32, time: u64) -> Option<Task> {
        let CpuSwitches {
            initial_task,
            switches,
        } = self.cpus.get(&cpu)?;
        let past = switches.partition_point(|switch| switch.0 <= time);
        Some(
            switches[..past]
                .last()
                .map_or(*initial_task, |switch| switch.1),
        )
    }

    /// Removes switches that don't matter at `time` and later.
    pub(super) fn forget_before(&mut self, time: u64) {
        for CpuSwitches {
            initial_task,
            switches,
        } in self.cpus.values_mut()
        {
            let past = switches.partition_point(|switch| switch.0 <= time);
            if let Some((_, last)) = switches.drain(..past).next_back() {
                *initial_task = last;
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

    /// Adds both records of a switch from one task to another.
    fn switch(tasks: &mut CpuTasks, cpu: u32, time: u64, [from, to]: [u32; 2]) {
        tasks.add_switch(stamp(cpu, time, from), true, Task::leader(to));
        tasks.add_switch(stamp(cpu, time + 1, to), false, Task::leader(from));
    }

    #[test]
    fn a_task_runs_until_the_record_of_the_next_one() {
        let mut tasks = CpuTasks::default();
        switch(&mut tasks, 0, 10, [1, 2]);
        switch(&mut tasks, 1, 15, [7, 0]);
        switch(&mut tasks, 0, 20, [2, 3]);
        let at = |cpu, time| tasks.task_at(cpu, time).map(|task| task.pid);
        assert_eq!(at(0, 0), Some(1), "the task before the first switch");
        assert_eq!(
            at(0, 10),
            Some(1),
            "the scheduler's work counts as the old task's"
        );
        assert_eq!(at(0, 11), Some(2));
        assert_eq!(at(0, 20), Some(2));
        assert_eq!(at(0, 99), Some(3));
        assert_eq!(at(1, 15), Some(7));
        assert_eq!(at(1, 16), Some(0));
        assert_eq!(at(2, 16), None);
    }

    #[test]
    fn a_record_of_the_new_task_names_the_old_one_too() {
        let mut tasks = CpuTasks::default();
        tasks.add_switch(stamp(0, 10, 2), false, Task::leader(1));
        assert_eq!(tasks.task_at(0, 5), Some(Task::leader(1)));
    }

    #[test]
    fn old_switches_are_forgotten() {
        let mut tasks = CpuTasks::default();
        for n in 0..100 {
            switch(&mut tasks, 0, 10 * n, [1, 2]);
            switch(&mut tasks, 0, 10 * n + 5, [2, 1]);
        }
        tasks.forget_before(500);
        assert_eq!(tasks.cpus[&0].switches.len(), 100);
        let at = |time| tasks.task_at(0, time).map(|task| task.pid);
        assert_eq!(
            [at(500), at(501), at(506), at(996)],
            [Some(1), Some(2), Some(1), Some(1)]
        );
    }
}
