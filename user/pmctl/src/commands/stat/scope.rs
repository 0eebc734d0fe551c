// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scope of a count (a command and its children, tasks, CPUs, cgroups), and the places that have counts of their own.

use std::collections::HashSet;
use std::fmt;
use std::fs;

use crate::args::Stat;
use crate::events::cpus::Cpus;
use crate::system::exit::Usage;
use crate::system::text::count;

use crate::events::threads::{TaskList, Thread};

/// The tasks or CPUs that are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The command, and the tasks that it creates unless --no-inherit.
    Command,
    /// Processes or threads.
    Tasks {
        /// The PIDs and TIDs of the command line.
        task_list: TaskList,
        /// The threads of `task_list`.
        threads: Vec<Thread>,
        /// The description of the tasks in the title.
        description: String,
    },
    /// Every task that runs on `number` CPUs; `chosen_cpus` is `None` for all online CPUs.
    Cpus {
        number: usize,
        chosen_cpus: Option<Cpus>,
    },
    /// `number` cgroups; `chosen_cpus` is `None` for all online CPUs.
    Cgroups {
        number: usize,
        chosen_cpus: Option<Cpus>,
    },
}

/// A thread, CPU, core, socket or cgroup that has counts of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CountedPlace {
    pub(super) name: String,
    pub(super) kind: PlaceKind,
}

impl CountedPlace {
    /// Returns the name of a cgroup; `None` for other places.
    pub(super) fn cgroup(&self) -> Option<&str> {
        (self.kind == PlaceKind::Cgroup).then_some(&*self.name)
    }
}

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    Thread,
    Cpu,
    /// A core, and how many of its CPUs are counted.
    Core(usize),
    /// A socket, and how many of its CPUs are counted.
    Socket(usize),
    Cgroup,
}

/// The places that the counted CPUs are divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuSplit {
    Cpu,
    Core,
    Socket,
}

impl CpuSplit {
    /// Returns the split that -A, --per-core or --per-socket asks for; `None` without these options.
    pub(super) const fn from_args(args: &Stat) -> Option<Self> {
        match (args.no_aggr, args.per_core, args.per_socket) {
            (true, ..) => Some(Self::Cpu),
            (_, true, _) => Some(Self::Core),
            (.., true) => Some(Self::Socket),
            _ => None,
        }
    }
}

impl Scope {
    /// Returns the scope that the options ask for. `cgroups` is the number of cgroups; `None` if no cgroups are
    /// counted.
    pub(super) fn from_args(
        args: &Stat,
        online: &[usize],
        cgroups: Option<usize>,
    ) -> Result<Self, Usage> {
        if let Some(cpus) = &args.cpu {
            cpus.require_online(online)?;
        }
        if let Some(number) = cgroups {
            return Ok(Self::Cgroups {
                number,
                chosen_cpus: args.cpu.clone(),
            });
        }
        if args.all_cpus || args.cpu.is_some() {
            return Ok(Self::Cpus {
                number: args.cpu.as_ref().map_or(online.len(), Cpus::len),
                chosen_cpus: args.cpu.clone(),
            });
        }
        if args.pid.is_empty() && args.tid.is_empty() {
            return Ok(Self::Command);
        }
        let list = |numbers: &[u32]| {
            let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
            numbers.join(",")
        };
        let description = if args.tid.is_empty() {
            format!("process id '{}'", list(&args.pid))
        } else {
            format!("thread id '{}'", list(&args.tid))
        };
        let task_list = TaskList {
            pids: args.pid.clone(),
            tids: args.tid.clone(),
        };
        Ok(Self::Tasks {
            threads: task_list.threads()?,
            task_list,
            description,
        })
    }

    /// Reduces the number of cgroups to the number of cgroups that have columns. `column_places`
    /// are the places of the columns. Cgroups that match a pattern have no columns if they were
    /// left out when their events were opened.
    pub(super) fn with_cgroup_count_of<'a>(
        self,
        column_places: impl Iterator<Item = &'a CountedPlace>,
    ) -> Self {
        let cgroups: HashSet<&str> = column_places.filter_map(CountedPlace::cgroup).collect();
        match self {
            Self::Cgroups {
                number,
                chosen_cpus,
            } if !cgroups.is_empty() => Self::Cgroups {
                // There may be more names than cgroups in `number`: the events beyond the list of -G are counted in the
                // root cgroup, which `number` does not include.
                number: number.min(cgroups.len()),
                chosen_cpus,
            },
            scope => scope,
        }
    }
}

/// Returns the CPUs of -C, or all online CPUs without -C.
pub(super) fn counted_cpus(args: &Stat, online: &[usize]) -> Cpus {
    let number = |cpu: &usize| u32::try_from(*cpu).unwrap_or(u32::MAX);
    match &args.cpu {
        Some(cpus) => cpus.clone(),
        None => Cpus::new(online.iter().map(number).collect()),
    }
}

/// Divides CPUs into places, and returns each place with its CPUs.
pub(super) fn split_cpus(cpus: &[usize], split: CpuSplit) -> Vec<(CountedPlace, Cpus)> {
    let mut parts: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
    for cpu in cpus {
        let number = u32::try_from(*cpu).unwrap_or(u32::MAX);
        let part = match split {
            CpuSplit::Cpu => vec![number],
            CpuSplit::Core => topology_ids(*cpu, &["physical_package_id", "die_id", "core_id"]),
            CpuSplit::Socket => topology_ids(*cpu, &["physical_package_id"]),
        };
        match parts.iter_mut().find(|(known, _)| *known == part) {
            Some((_, cpus)) => cpus.push(number),
            None => parts.push((part, vec![number])),
        }
    }
    parts.sort_unstable();
    let place = |(part, cpus): (Vec<u32>, Vec<u32>)| {
        let (letters, kind) = match split {
            CpuSplit::Cpu => (&["CPU"][..], PlaceKind::Cpu),
            CpuSplit::Core => (&["S", "D", "C"][..], PlaceKind::Core(cpus.len())),
            CpuSplit::Socket => (&["S"][..], PlaceKind::Socket(cpus.len())),
        };
        let pairs = letters.iter().zip(part);
        let words: Vec<String> = pairs
            .map(|(letter, number)| format!("{letter}{number}"))
            .collect();
        let name = words.join("-");
        (CountedPlace { name, kind }, Cpus::new(cpus))
    };
    parts.into_iter().map(place).collect()
}

/// Reads the files `names` in the topology folder of a CPU: the numbers of its core, die or package.
fn topology_ids(cpu: usize, names: &[&str]) -> Vec<u32> {
    let number = |name: &&str| {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}");
        let text = fs::read_to_string(file).unwrap_or_default();
        // Older kernels have no file die_id; a content of -1 means that there is no die.
        text.trim().parse().unwrap_or(0)
    };
    names.iter().map(number).collect()
}

/// The title, without "Performance counter stats for".
pub(super) struct Title<'a> {
    pub(super) command: &'a str,
    pub(super) scope: &'a Scope,
}

impl fmt::Display for Title<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, chosen_cpus) = match self.scope {
            Scope::Command => return write!(f, "'{}'", self.command),
            Scope::Tasks { description, .. } => return f.write_str(description),
            Scope::Cgroups {
                number,
                chosen_cpus,
            } => {
                if !self.command.is_empty() {
                    write!(f, "'{}', ", self.command)?;
                }
                f.write_str(&count(*number as u64, "cgroup"))?;
                return match chosen_cpus {
                    Some(cpus) if cpus.len() == 1 => write!(f, " on CPU {cpus}"),
                    Some(cpus) => write!(f, " on CPUs {cpus}"),
                    None => f.write_str(" on all CPUs"),
                };
            }
            Scope::Cpus {
                number,
                chosen_cpus,
            } => (number, chosen_cpus),
        };
        match self.command {
            "" => f.write_str("the machine")?,
            command => write!(f, "'{command}'")?,
        }
        match (chosen_cpus, number) {
            (Some(cpus), 1) => write!(f, ", every task on CPU {cpus}"),
            (Some(cpus), _) => write!(f, ", every task on CPUs {cpus}"),
            (None, 1) => f.write_str(", every task on 1 CPU"),
            (None, _) => write!(f, ", every task on all {number} CPUs"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_say_what_is_counted() {
        let title = |command: &str, scope: &Scope| Title { command, scope }.to_string();
        let of_cgroups = |number, cpus: Option<&str>| Scope::Cgroups {
            number,
            chosen_cpus: cpus.map(|text| Cpus::parse(text).expect("they are CPUs")),
        };
        assert_eq!(title("", &of_cgroups(1, None)), "1 cgroup on all CPUs");
        assert_eq!(
            title("ls", &of_cgroups(3, None)),
            "'ls', 3 cgroups on all CPUs"
        );
        assert_eq!(title("", &of_cgroups(2, Some("1"))), "2 cgroups on CPU 1");
        assert_eq!(
            title("", &of_cgroups(2, Some("0-1"))),
            "2 cgroups on CPUs 0-1"
        );
    }

    #[test]
    fn cgroups_without_columns_are_not_in_the_number() {
        let scope = |number| Scope::Cgroups {
            number,
            chosen_cpus: None,
        };
        let place = |name: &str| CountedPlace {
            name: name.to_owned(),
            kind: PlaceKind::Cgroup,
        };
        // Two events in each of two cgroups.
        let places = ["a", "a", "b", "b"].map(place);
        assert_eq!(scope(3).with_cgroup_count_of(places.iter()), scope(2));
        assert_eq!(scope(1).with_cgroup_count_of(places.iter()), scope(1));
        assert_eq!(scope(3).with_cgroup_count_of([].iter()), scope(3));
    }

    #[test]
    fn names_of_places_match_perf() {
        let names = |split| -> Vec<(String, String)> {
            let parts = split_cpus(&[0, 4095], split).into_iter();
            parts
                .map(|(place, cpus)| (place.name, cpus.to_string()))
                .collect()
        };
        let owned_pair = |name: &str, cpus: &str| (name.to_owned(), cpus.to_owned());
        assert_eq!(
            names(CpuSplit::Cpu),
            [owned_pair("CPU0", "0"), owned_pair("CPU4095", "4095")]
        );
        // CPU 4095 has no topology files, so it counts as part of core 0 of socket 0.
        assert_eq!(names(CpuSplit::Socket), [owned_pair("S0", "0,4095")]);
        assert_eq!(names(CpuSplit::Core), [owned_pair("S0-D0-C0", "0,4095")]);
    }
}
