// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds threads that sample events of the driver and events of the kernel. `perf record` lets all
//! events of a CPU write to one ring, but events of the driver and of the kernel can't share a
//! ring: `PERF_EVENT_IOC_SET_OUTPUT` fails with EBADF.

use std::collections::HashMap;

use super::target::Tid;

/// The source of an event's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleSource {
    Driver,
    Kernel,
}

/// The first sampled event of the driver and of the kernel that each thread has opened.
#[derive(Debug, Default)]
pub(super) struct SampledEvents {
    /// The names of the event of the driver and of the event of the kernel, by thread.
    first_names: HashMap<i32, [Option<String>; 2]>,
    /// The names of the events of the first thread that has opened both kinds.
    mixed: Option<[String; 2]>,
}

impl SampledEvents {
    /// Adds an event that a thread has opened. `name` returns its name, if it is sampled.
    pub(super) fn add(
        &mut self,
        thread: Tid,
        source: SampleSource,
        name: impl FnOnce() -> Option<String>,
    ) {
        if self.mixed.is_some() {
            return;
        }
        let first_names = self.first_names.entry(thread.0).or_default();
        let first = &mut first_names[source as usize];
        if first.is_none() {
            *first = name();
        }
        if let [Some(driver_event), Some(kernel_event)] = first_names {
            self.mixed = Some([driver_event.clone(), kernel_event.clone()]);
        }
    }

    /// Returns the message to show after the program has failed; `None` if no thread has sampled both kinds of events.
    pub(super) fn message(&self) -> Option<String> {
        let [driver_event, kernel_event] = self.mixed.as_ref()?;
        Some(format!(
            "the program sampled {driver_event}, which is the driver's, and {kernel_event}, which is the kernel's: these can't \
             write to the same ring (PERF_EVENT_IOC_SET_OUTPUT fails with EBADF), as `perf record` lets them.\n\
             `pmctl record -e {driver_event},{kernel_event} -- COMMAND` samples both, in a file that `perf report` reads."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_both_kinds_in_one_thread_are_reported() {
        let name = |name: &str| Some(name.to_owned());
        let mut sampled = SampledEvents::default();
        sampled.add(Tid(1), SampleSource::Driver, || name("cycles"));
        sampled.add(Tid(1), SampleSource::Driver, || name("branches"));
        sampled.add(Tid(2), SampleSource::Kernel, || name("page-faults"));
        // An event that only counts.
        sampled.add(Tid(1), SampleSource::Kernel, || None);
        assert_eq!(sampled.message(), None);
        sampled.add(Tid(1), SampleSource::Kernel, || name("cpu-clock"));
        let message = sampled.message().expect("thread 1 has both");
        assert!(
            message.contains("`pmctl record -e cycles,cpu-clock -- COMMAND`"),
            "{message}"
        );
    }
}
