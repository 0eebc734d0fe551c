// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of events.

use std::io::Write;

use anstyle::Style;
use anyhow::Result;
use perfmon::spec::OnCounters;
use perfmon::{CounterId, Pmu};

use super::descriptions::Descriptions;
use super::named_event::NamedEvent;
use crate::events::decode;
use crate::system::table::{Align, Table};
use crate::system::text::wrap;

/// Writes a table of events.
pub(super) fn write_table(
    events: &[NamedEvent],
    pmu: &Pmu,
    descriptions: &Descriptions,
    output: &mut dyn Write,
) -> Result<()> {
    /// Width of a description in columns.
    const DESCRIPTION_WIDTH: usize = 76;
    let is_hybrid = !pmu.core_kinds().is_empty();
    let mut headings = vec!["event", "raw", "counters", "also called"];
    if is_hybrid {
        headings.insert(3, "cores");
    }
    let headings: Vec<_> = headings
        .into_iter()
        .map(|text| (text, Align::Left))
        .collect();
    let mut table = Table::new(&headings).without_margin();
    for event in events {
        let note = match &event.counters {
            Ok(_) if event.is_deprecated() => "(outdated)".to_owned(),
            Ok(_) => event.note(),
            Err(reason) => reason.clone(),
        };
        let counters = match &event.counters {
            Ok(event_counters) => format_counters(event_counters, event.pmu(pmu)),
            Err(_) => "none".to_owned(),
        };
        let raw_event = event.raw_event().unwrap_or_default();
        let mut cells = vec![event.name.clone(), raw_event, counters, note];
        if is_hybrid {
            cells.insert(3, event.kinds.join(" "));
        }
        table.add_row(&cells, Style::new());
        let description = descriptions.find(event.all_names());
        let lines = description.map_or(Vec::new(), |text| wrap(text, DESCRIPTION_WIDTH));
        let lines = lines.into_iter().map(|line| format!("    {line}"));
        table.add_lines_below(lines.collect());
    }
    Ok(table.write(None, Style::new(), output)?)
}

/// Returns the names of the counters that can count an event: `PMC` if all general counters can,
/// otherwise the counters by number, for example `PMC0-3` or `PMC1 FIXED0`.
pub(crate) fn format_counters(event_counters: &OnCounters, pmu: &Pmu) -> String {
    let number = event_counters.general.count_ones();
    let general = match event_counters.general {
        0 => None,
        _ if number == u32::from(pmu.general_counters()) => Some("PMC".to_owned()),
        // Only the first counters can count the event.
        mask if number > 1 && mask.trailing_ones() == number => {
            Some(format!("PMC0-{}", number - 1))
        }
        mask => {
            let numbers = (0..pmu.general_counters()).filter(|number| mask >> number & 1 != 0);
            let names: Vec<String> = numbers
                .map(|number| decode::counter_name(CounterId::General(number)))
                .collect();
            Some(names.join(" "))
        }
    };
    let fixed = event_counters
        .fixed
        .map(|number| decode::counter_name(CounterId::Fixed(number)));
    general
        .into_iter()
        .chain(fixed)
        .collect::<Vec<_>>()
        .join(" ")
}
