// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events by their names.

use perfmon_core::logic::event_attr as attr;

use super::{Builder, Encoding, Event};
use crate::spec::{self, EventSpec};
use crate::{Attempt, Cause, Error, EventSelect, Pmu};

/// Events that have a name; [`Builder::open`] opens them.
impl Event {
    /// Counts instructions that retired.
    pub fn instructions() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_INSTRUCTIONS))
    }

    /// Counts cycles in which the CPU was not halted.
    pub fn cycles() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_CPU_CYCLES))
    }

    /// Counts cycles at the rate of the time-stamp counter while the CPU is not halted.
    pub fn reference_cycles() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_REF_CPU_CYCLES))
    }

    /// Counts branches that retired.
    pub fn branches() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_BRANCH_INSTRUCTIONS))
    }

    /// Counts branches that retired and were mispredicted.
    pub fn branch_misses() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_BRANCH_MISSES))
    }

    /// Counts accesses to the last level of the cache.
    pub fn cache_references() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_CACHE_REFERENCES))
    }

    /// Counts the accesses that missed the last level of the cache.
    pub fn cache_misses() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_CACHE_MISSES))
    }

    /// Configures an event that never happens and takes no counter, to get records without samples: see
    /// [`tasks`](Builder::tasks) and [`mappings`](Builder::mappings).
    pub fn dummy() -> Builder {
        Builder::new(Encoding::Dummy)
    }

    /// Counts the event that the CPU's manual lists under this event number and unit mask. The modes of the select are
    /// ignored.
    pub fn raw(select: EventSelect) -> Builder {
        Builder::new(Encoding::Raw(select))
    }

    /// Finds an event by its name, with modes, on the current CPU: `branch-misses`, `instructions:u`,
    /// `L1-dcache-load-misses`, `INST_RETIRED.ANY`, `r01c2`, `cpu/event=0xc0,cmask=1/k`. [`spec`] describes the names.
    ///
    /// ```no_run
    /// use perfmon::Event;
    ///
    /// let event = Event::named("instructions:u")?.this_thread().open()?;
    /// # Ok::<(), perfmon::Error>(())
    /// ```
    ///
    /// ```
    /// # use perfmon::Event;
    /// let error = Event::named("instrucions:u").unwrap_err();
    /// assert_eq!(error.to_string(), "can't count `instrucions:u`: no event is called `instrucions`");
    /// assert_eq!(error.cause.help(), Some("Did you mean `instructions`?"));
    /// ```
    ///
    /// # Errors
    /// [`Cause::Spec`] if no event has the name, or the CPU lacks the event; [`Cause::SeveralEvents`] if the text names
    /// several; [`Cause::ChosenCounter`] if the text asks for a counter, which the driver chooses.
    pub fn named(name: &str) -> Result<Builder, Error> {
        Self::named_on(name, &Pmu::of_this_cpu())
    }

    /// Finds an event by its name on another PMU.
    ///
    /// # Errors
    /// As [`named`](Self::named).
    pub fn named_on(name: &str, pmu: &Pmu) -> Result<Builder, Error> {
        let find_error = |cause| Error {
            attempt: Attempt::FindEvent(name.to_owned()),
            cause,
        };
        let events = spec::parse_without_groups(name, pmu);
        let events = events.map_err(|error| find_error(Cause::Spec(Box::new(error))))?;
        match &events[..] {
            [
                EventSpec {
                    pinned: Some(counter),
                    ..
                },
            ] => Err(find_error(Cause::ChosenCounter(*counter))),
            [event] => event
                .builder()
                .ok_or_else(|| find_error(Cause::NoSuchEvent)),
            _ => Err(find_error(Cause::SeveralEvents)),
        }
    }
}
