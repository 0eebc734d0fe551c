// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages about entries that a list does not show.

use perfmon::Pmu;

use super::entries::ListKind;
use super::named_event::NamedEvent;
use crate::args::List;
use crate::system::stdio::complain;
use crate::system::text::count;

/// Reports on standard error that no name matches, or how many matching entries are not shown.
pub(super) fn report_hidden(
    args: &List,
    (kind, glob): (ListKind, Option<&str>),
    pmu: &Pmu,
    (shown_count, found_count): (usize, usize),
) {
    let model_name = pmu
        .model()
        .map(|model| format!("{} ({})", model.name(), model.version()));
    if let (0, Some(glob)) = (found_count, glob) {
        // The message about Linux's PMUs names no CPU model: these PMUs are those of this machine.
        let of_model = model_name
            .as_ref()
            .filter(|_| kind != ListKind::Pmus)
            .map_or(String::new(), |name| format!(" of {name}"));
        let noun = match kind {
            ListKind::Metrics => "metric",
            ListKind::Groups => "group of metrics",
            ListKind::Pmus => "event of Linux's PMUs",
            _ => "event",
        };
        complain(format_args!("no {noun}{of_model} matches `{glob}`"));
        if model_name.is_none() && kind != ListKind::Pmus {
            complain(missing_list_message(pmu, "`pmctl list` shows them"));
        }
        advise_category(glob);
        return;
    }
    if args.raw || args.json {
        return;
    }
    if found_count > shown_count {
        let noun = match kind {
            ListKind::Metrics => "more metric",
            ListKind::Events => "more event",
            _ => "more name",
        };
        let hidden_count = u64::try_from(found_count - shown_count).unwrap_or(u64::MAX);
        match shown_count {
            0 => complain(format_args!(
                "{}, and none of them can be counted here: `--all` shows them with the reason.",
                count(hidden_count, noun.trim_start_matches("more "))
            )),
            _ => complain(format_args!(
                "{} that can't be counted here or are outdated: `--all` shows them with the reason.",
                count(hidden_count, noun)
            )),
        }
    }
    if let (0, Some(glob)) = (shown_count, glob) {
        advise_category(glob);
    }
    if model_name.is_none() {
        complain(missing_list_message(
            pmu,
            "`--model MODEL` lists another model's",
        ));
    }
}

/// Prints on standard error the first erratum that makes counts of a shown event wrong.
pub(super) fn report_erratum(args: &List, shown_events: &[NamedEvent]) {
    let mut countable_events = shown_events
        .iter()
        .filter(|event| event.counters.is_ok() && !event.is_deprecated());
    let erratum = countable_events.find_map(|event| event.erratum);
    if let Some(erratum) = erratum.filter(|_| !args.raw && !args.json) {
        complain(format_args!(
            "{}: {}. {}",
            erratum.name, erratum.consequence, erratum.fix
        ));
    }
}

/// Returns the message that pmctl knows only generic events and metrics of a CPU, with advice.
pub(super) fn missing_list_message(pmu: &Pmu, advice: &str) -> String {
    let processor = pmu.processor();
    format!(
        "pmctl has no list for this CPU (family {:#x}, model {:#x}), only generic events and metrics: {advice}.",
        processor.family(),
        processor.model()
    )
}

/// Prints how to find the events of a category of `perf list`, if `glob` is such a category.
fn advise_category(glob: &str) {
    const COUNTER_ADVICE: &str =
        "`pmctl info` lists the generic events, `pmctl list` those of this CPU.";
    const KERNEL_ADVICE: &str = "The kernel's events are `pmctl stat -e task-clock,page-faults,context-switches` and the like.";
    const CACHE_ADVICE: &str =
        "Cache events have names such as `L1-dcache-load-misses`: `pmctl list L1-` lists some.";
    const PERF_ADVICE: &str = "`perf list` lists the other events of the kernel.";
    let categories = [
        ("hw", COUNTER_ADVICE),
        ("hardware", COUNTER_ADVICE),
        ("sw", KERNEL_ADVICE),
        ("software", KERNEL_ADVICE),
        ("cache", CACHE_ADVICE),
        ("hwcache", CACHE_ADVICE),
        ("tracepoint", PERF_ADVICE),
        ("sdt", PERF_ADVICE),
    ];
    let glob = glob.to_ascii_lowercase();
    if let Some((_, advice)) = categories.iter().find(|(name, _)| *name == glob) {
        complain(format_args!(
            "`{glob}` is a category of `perf list`; `pmctl list` takes a part of an event's name. {advice}"
        ));
    }
}
