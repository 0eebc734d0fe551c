// SPDX-License-Identifier: MIT OR Apache-2.0
//! Software events, which the kernel counts without a hardware counter: times on CPUs, page faults, context switches.

use perfmon::Modes;
use perfmon_core::logic::event_attr as attr;

use crate::events::modes;
use crate::events::values::Unit;
use crate::events::words::without_words;

/// A software event of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Software {
    pub(crate) name: &'static str,
    /// `PERF_COUNT_SW_*`
    pub(crate) number: u64,
    pub(crate) unit: Option<Unit>,
    pub(crate) modes: Modes,
}

impl Software {
    /// Returns the name with its modifier.
    pub(crate) fn label(&self) -> String {
        modes::with_modifier(self.name, self.modes)
    }

    /// Returns the event limited to these modes, if it has no modifier of its own. A clock is not limited, since it counts
    /// the time in all modes in any case.
    pub(crate) fn in_modes(self, modes: Modes) -> Self {
        if self.modes == Modes::Both && !self.is_clock() {
            Self { modes, ..self }
        } else {
            self
        }
    }

    /// Returns whether the event is one of the kernel's clocks.
    pub(crate) fn is_clock(&self) -> bool {
        matches!(
            self.number,
            attr::PERF_COUNT_SW_CPU_CLOCK | attr::PERF_COUNT_SW_TASK_CLOCK
        )
    }

    /// Returns why the event can't be counted in its modes; `None` if it can. The kernel accepts an event in such
    /// modes, but counts nothing.
    pub(crate) fn missing_reason(&self) -> Option<String> {
        let happens_in_kernel = matches!(
            self.number,
            attr::PERF_COUNT_SW_CONTEXT_SWITCHES | attr::PERF_COUNT_SW_CPU_MIGRATIONS
        );
        (happens_in_kernel && self.modes == Modes::User).then(|| {
            format!(
                "It happens in the kernel only. Count {}, without `:u`, as root, with CAP_PERFMON, or after `sysctl \
                 kernel.perf_event_paranoid=1`.",
                self.name
            )
        })
    }
}

const fn event(name: &'static str, number: u64) -> Software {
    Software {
        name,
        number,
        unit: None,
        modes: Modes::Both,
    }
}

const fn clock(name: &'static str, number: u64) -> Software {
    Software {
        unit: Some(Unit::Milliseconds),
        ..event(name, number)
    }
}

/// The events by perf's names.
const EVENTS: [Software; 10] = [
    clock("cpu-clock", attr::PERF_COUNT_SW_CPU_CLOCK),
    clock("task-clock", attr::PERF_COUNT_SW_TASK_CLOCK),
    event("page-faults", attr::PERF_COUNT_SW_PAGE_FAULTS),
    event("faults", attr::PERF_COUNT_SW_PAGE_FAULTS),
    event("context-switches", attr::PERF_COUNT_SW_CONTEXT_SWITCHES),
    event("cs", attr::PERF_COUNT_SW_CONTEXT_SWITCHES),
    event("cpu-migrations", attr::PERF_COUNT_SW_CPU_MIGRATIONS),
    event("migrations", attr::PERF_COUNT_SW_CPU_MIGRATIONS),
    event("minor-faults", attr::PERF_COUNT_SW_PAGE_FAULTS_MIN),
    event("major-faults", attr::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
];

/// Returns the software event of this name, which may have a modifier.
pub(crate) fn find(name: &str) -> Option<Software> {
    let name = name.trim();
    let (name, modes) = match name.split_once(':') {
        None => (name, Modes::Both),
        Some((name, "u")) => (name, Modes::User),
        Some((name, "k")) => (name, Modes::Kernel),
        Some((name, "uk" | "ku")) => (name, Modes::Both),
        Some(_) => return None,
    };
    let event = EVENTS.into_iter().find(|event| event.name == name)?;
    Some(Software { modes, ..event })
}

/// Splits the texts of -e into other events and software events.
pub(crate) fn split(texts: &[String]) -> (Vec<String>, Vec<Software>) {
    let mut software_events: Vec<Software> = Vec::new();
    let rest = without_words(texts, |word| {
        let event = find(word);
        let new = event.filter(|event| !software_events.contains(event));
        software_events.extend(new);
        event.is_some()
    });
    (rest, software_events)
}

/// Returns the name of the software event `PERF_COUNT_SW_*`; `None` for one that [`find`] does not know.
pub(crate) fn name_of_number(number: u64) -> Option<&'static str> {
    let event = EVENTS.into_iter().find(|event| event.number == number)?;
    Some(event.name)
}

/// Returns whether this is the name of a software event.
pub(crate) fn is_software(name: &str) -> bool {
    find(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_kernel_are_found_among_others() {
        let texts: Vec<String> = ["task-clock,cycles,{instructions,branches}", "cs,task-clock"]
            .map(str::to_owned)
            .to_vec();
        let (rest, software_events) = split(&texts);
        assert_eq!(rest, ["cycles,{instructions,branches}"]);
        let names: Vec<&str> = software_events.iter().map(|event| event.name).collect();
        assert_eq!(names, ["task-clock", "cs"]);
    }

    #[test]
    fn a_modifier_chooses_the_mode() {
        let label = |name, modes| find(name).map(|event| event.in_modes(modes).label());
        let user = Some("page-faults:u".to_owned());
        assert_eq!(
            label("page-faults", Modes::Both).as_deref(),
            Some("page-faults")
        );
        assert_eq!(label("page-faults", Modes::User), user);
        assert_eq!(label("page-faults:u", Modes::Kernel), user);
        assert_eq!(label("cs:k", Modes::Both).as_deref(), Some("cs:k"));
        assert_eq!(label("cs:p", Modes::Both), None);
        // A clock counts the same in all modes.
        assert_eq!(
            label("task-clock", Modes::User).as_deref(),
            Some("task-clock")
        );
        assert_eq!(
            label("task-clock:u", Modes::Both).as_deref(),
            Some("task-clock:u")
        );
    }

    #[test]
    fn what_happens_in_the_kernel_is_missing_in_user_mode() {
        let is_missing = |name, modes| {
            let event = find(name).expect("it is one").in_modes(modes);
            event.missing_reason().is_some()
        };
        for name in ["context-switches", "cs", "cpu-migrations", "migrations"] {
            assert!(is_missing(name, Modes::User), "{name}");
            assert!(!is_missing(name, Modes::Both), "{name}");
            assert!(!is_missing(name, Modes::Kernel), "{name}");
        }
        for name in ["page-faults", "minor-faults", "task-clock:u", "cpu-clock"] {
            assert!(!is_missing(name, Modes::User), "{name}");
        }
        assert!(is_missing("cs:u", Modes::Both));
    }
}
