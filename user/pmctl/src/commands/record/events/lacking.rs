// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that some CPUs lack: the kinds of cores of a hybrid processor have different events.

use std::collections::{BTreeMap, BTreeSet};

use perfmon::{Cause, Error};

/// The CPUs whose kind of core lacks an event, by the event's index in the plan.
pub(super) type LackingCpus = BTreeMap<usize, Vec<u32>>;

/// The refusals of events by CPUs, while the events are opened.
#[derive(Default)]
pub(super) struct Refusals {
    /// The indices in the plan of the events that a CPU has.
    opened: BTreeSet<usize>,
    lacking: LackingCpus,
    /// The first refusal of each event, by its index in the plan.
    first_errors: BTreeMap<usize, Error>,
}

impl Refusals {
    /// Returns whether an event was opened on a CPU. Notes the CPU if it lacks the event.
    ///
    /// # Errors
    /// The event was refused for another reason.
    pub(super) fn note_result(
        &mut self,
        result: Result<bool, Error>,
        (event, cpu): (usize, u32),
    ) -> Result<bool, Error> {
        match result {
            Err(error) if error.cause == Cause::NoSuchEvent => {
                let cpus = self.lacking.entry(event).or_default();
                // The CPU may be in the list already, since each of several threads has an event of
                // its own.
                if cpus.last() != Some(&cpu) {
                    cpus.push(cpu);
                }
                self.first_errors.entry(event).or_insert(error);
                Ok(false)
            }
            Ok(true) => {
                self.opened.insert(event);
                Ok(true)
            }
            result => result,
        }
    }

    /// Returns the CPUs that lack an event.
    ///
    /// # Errors
    /// The first refusal of an event that no CPU has.
    pub(super) fn into_lacking_cpus(mut self) -> Result<LackingCpus, Error> {
        self.first_errors
            .retain(|event, _| !self.opened.contains(event));
        match self.first_errors.pop_first() {
            Some((_, error)) => Err(error),
            None => Ok(self.lacking),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfmon::Device;

    fn refused(cause: Cause) -> Result<bool, Error> {
        let mut error = Device::open_path("/nonexistent").expect_err("there is no such file");
        error.cause = cause;
        Err(error)
    }

    #[test]
    fn an_event_is_refused_only_if_no_cpu_has_it() {
        let mut refusals = Refusals::default();
        let mut note_result = |result, place| {
            refusals
                .note_result(result, place)
                .map_err(|error| error.cause)
        };
        assert_eq!(note_result(Ok(true), (0, 0)), Ok(true));
        // Each of two threads has an event on the CPU.
        for _ in 0..2 {
            assert_eq!(note_result(refused(Cause::NoSuchEvent), (0, 1)), Ok(false));
        }
        assert_eq!(note_result(refused(Cause::NoSuchEvent), (0, 2)), Ok(false));
        assert_eq!(
            note_result(refused(Cause::Forbidden), (1, 0)),
            Err(Cause::Forbidden)
        );
        let lacking = refusals.into_lacking_cpus();
        assert_eq!(lacking.ok(), Some(LackingCpus::from([(0, vec![1, 2])])));

        let mut refusals = Refusals::default();
        for cpu in 0..2 {
            let refused = refusals.note_result(refused(Cause::NoSuchEvent), (0, cpu));
            assert_eq!(refused.ok(), Some(false));
        }
        // The event of a thread that has ended meanwhile is neither opened nor refused.
        assert_eq!(refusals.note_result(Ok(false), (0, 2)).ok(), Some(false));
        let error = refusals.into_lacking_cpus().map_err(|error| error.cause);
        assert_eq!(error, Err(Cause::NoSuchEvent));
    }
}
