// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selection of the samples that are shown.

use super::sample_names::{NamedSample, SampleNames};
use crate::events::cpus::Cpus;

/// Selects the samples that match each of these conditions. An empty list matches all samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Names of tasks.
    pub(crate) comms: Vec<String>,
    pub(crate) pids: Vec<u32>,
    pub(crate) tids: Vec<u32>,
    /// CPUs; `None` matches all samples.
    pub(crate) cpus: Option<Cpus>,
    /// Span of time; `None` matches all samples.
    pub(crate) time: Option<TimeSpan>,
    /// Names of functions.
    pub(crate) symbols: Vec<String>,
    /// Programs and libraries, by path or by name.
    pub(crate) dsos: Vec<String>,
}

/// A span of time, from its first to its last nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSpan {
    /// The first and the last nanosecond, by the clock of the recording.
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Filter {
    /// Returns whether the filter selects a sample.
    pub(crate) fn keeps(&self, named: &NamedSample<'_>, names: &SampleNames<'_>) -> bool {
        let stamp = named.stamp;
        let is_in = |list: &[u32], number| list.is_empty() || list.contains(&number);
        let is_selected =
            |list: &[String], name: &str| list.is_empty() || list.iter().any(|n| n == name);
        let site = &named.site;
        is_in(&self.pids, stamp.task.pid)
            && is_in(&self.tids, stamp.task.tid)
            && self
                .cpus
                .as_ref()
                .is_none_or(|cpus| cpus.iter().any(|cpu| cpu == stamp.cpu))
            && self
                .time
                .is_none_or(|span| (span.first..=span.last).contains(&stamp.time))
            && (self.comms.is_empty() || is_selected(&self.comms, names.comm(stamp.task)))
            && (self.symbols.is_empty() || is_selected(&self.symbols, site.symbol()))
            && (self.dsos.is_empty()
                || is_selected(&self.dsos, &site.dso())
                || is_selected(&self.dsos, &site.path()))
    }

    /// Returns whether the filter selects all samples.
    pub(crate) fn is_empty(&self) -> bool {
        let lists = [&self.comms, &self.symbols, &self.dsos];
        let numbers = [&self.pids, &self.tids];
        lists.iter().all(|list| list.is_empty())
            && numbers.iter().all(|list| list.is_empty())
            && self.cpus.is_none()
            && self.time.is_none()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::Choice;
    use crate::recording::perfdata;
    use crate::recording::profile::each_sample;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        choice: Choice,
    }

    /// Returns how many samples of a recording the options select.
    fn selected_count(options: &str) -> usize {
        let words = std::iter::once("x").chain(options.split_whitespace());
        let filter = Line::try_parse_from(words)
            .expect("it is well formed")
            .choice
            .filter();
        assert_eq!(filter.is_empty(), options.is_empty());
        let bytes = include_bytes!("../../../tests/recordings/timebase.data");
        let recording = perfdata::read(&bytes[..]).expect("it is whole");
        let mut number = 0;
        let result = each_sample(&recording, |named, names| {
            number += usize::from(filter.keeps(named, names));
            Ok(())
        });
        result.expect("nothing fails");
        number
    }

    /// The recording has 46 samples, each with two events: 35 of dd on CPU 1, 8 of a second program on both CPUs, and 3
    /// of sh.
    #[test]
    fn each_option_selects_its_samples() {
        assert_eq!(selected_count(""), 92);
        assert_eq!(selected_count("--comms dd"), 70);
        assert_eq!(selected_count("--comms dd,sh"), 76);
        assert_eq!(selected_count("-C 0"), 10);
        assert_eq!(
            selected_count("-C 0 --comm pmctl_shares -S share_60,share_30"),
            10
        );
        assert_eq!(selected_count("--symbols do_syscall_64"), 16);
        assert_eq!(
            selected_count("--dsos busybox"),
            selected_count("--dsos /bin/busybox")
        );
        assert_eq!(
            selected_count("--dsos [kernel.kallsyms],busybox,pmctl_shares"),
            92
        );
        assert_eq!(
            selected_count("--pid 335") + selected_count("--pid 334"),
            92
        );
        assert_eq!(selected_count("--tid 335"), selected_count("--pid 335"));
        assert_eq!(selected_count("--time 0,1000000"), 92);
        assert_eq!(selected_count("--time 0,0.5"), 0);
    }
}
