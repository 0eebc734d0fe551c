// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl report --branches`: a table of the branches.

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;

use super::fused::FusedBranches;
use super::shown_rows::{within_limits, write_hidden_rows, write_no_sample};
use super::values::percent_text;
use crate::args::Report;
use crate::recording::perfdata::Recording;
use crate::recording::profile::{self, Site};
use crate::system::screen::Screen;
use crate::system::table::{Align, Table};
use crate::system::text::thousands;

/// Counts of how often a branch was taken, and how often it was mispredicted.
#[derive(Clone, Copy, Debug, Default)]
struct BranchTotals {
    taken: u64,
    /// Number of times for which the prediction was recorded.
    with_prediction: u64,
    mispredicted: u64,
}

impl BranchTotals {
    fn add(&mut self, mispredicted: Option<bool>) {
        self.taken += 1;
        self.with_prediction += u64::from(mispredicted.is_some());
        self.mispredicted += u64::from(mispredicted == Some(true));
    }

    fn plus(self, other: Self) -> Self {
        Self {
            taken: self.taken + other.taken,
            with_prediction: self.with_prediction + other.with_prediction,
            mispredicted: self.mispredicted + other.mispredicted,
        }
    }

    /// Returns the share of mispredicted branches as text; `None` if no prediction was recorded.
    fn mispredicted_percent(self) -> Option<String> {
        (self.with_prediction > 0).then(|| percent_text(self.mispredicted, self.with_prediction))
    }
}

/// Prints the table.
pub(super) fn write_table(recording: &Recording, args: &Report, output: &mut Screen) -> Result<()> {
    let filter = args.choice.filter();
    let mut fused = FusedBranches::new(recording);
    let mut pairs: HashMap<(String, String), BranchTotals> = HashMap::new();
    profile::each_sample_without_unwinding(recording, |named, names| {
        if !filter.keeps(named, names) {
            return Ok(());
        }
        for branch in &named.sample.branches {
            let branch = fused.with_branch_address(names, named, branch);
            let (from, to) = names.branch_sites(named, &branch);
            let totals = pairs
                .entry((branch_end(&from, branch.from), branch_end(&to, branch.to)))
                .or_default();
            totals.add(branch.mispredicted);
        }
        Ok(())
    })?;
    let all = pairs.values().copied();
    let all = all.fold(BranchTotals::default(), BranchTotals::plus);
    let total = all.taken;
    if total == 0 && !filter.is_empty() {
        return Ok(write_no_sample(output)?);
    }
    let mispredicted = all.mispredicted_percent();
    let mispredicted =
        mispredicted.map_or(String::new(), |percent| format!(", {percent} mispredicted"));
    writeln!(output, "\n{} branches{mispredicted}", thousands(total))?;
    let mut rows: Vec<_> = pairs.into_iter().collect();
    rows.sort_by(|a, b| b.1.taken.cmp(&a.1.taken).then_with(|| a.0.cmp(&b.0)));
    let mut table = Table::new(&[
        ("overhead", Align::Right),
        ("taken", Align::Right),
        ("mispredicted", Align::Right),
        ("from", Align::Left),
        ("to", Align::Left),
    ]);
    for ((from, to), totals) in within_limits(&rows, args, |(_, totals)| {
        totals.taken as f64 / total.max(1) as f64
    }) {
        let style = output
            .colors
            .style_of_share(totals.taken as f64 / total.max(1) as f64);
        let cells = [
            percent_text(totals.taken, total),
            thousands(totals.taken),
            totals
                .mispredicted_percent()
                .unwrap_or_else(|| "-".to_owned()),
            from.clone(),
            to.clone(),
        ];
        table.add_row(&cells, style);
    }
    table.write(args.width, output.colors.heading, output)?;
    Ok(write_hidden_rows((rows.len(), table.len()), args, output)?)
}

/// Returns one end of a branch as text.
fn branch_end(site: &Site<'_>, address: u64) -> String {
    if site.has_symbol() {
        format!("{}+{:#x} ({})", site.symbol(), site.offset, site.dso())
    } else {
        format!("{address:#x} ({})", site.dso())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recorded_predictions_count() {
        let percent = |predictions: &[Option<bool>]| {
            let mut totals = BranchTotals::default();
            predictions
                .iter()
                .for_each(|mispredicted| totals.add(*mispredicted));
            assert_eq!(totals.taken, predictions.len() as u64);
            totals.mispredicted_percent()
        };
        assert_eq!(percent(&[None, None]), None);
        let half = Some("50.00%".to_owned());
        assert_eq!(percent(&[None, Some(true), Some(false), None]), half);
        assert_eq!(percent(&[Some(false)]), Some("0.00%".to_owned()));
    }
}
