// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a table that are shown, and the notes about those that are not.

use std::io::Write;

use crate::args::Report;
use crate::system::screen::Screen;
use crate::system::table::hidden_rows_line;

/// The message that no sample matches the filters.
pub(crate) const NO_SAMPLE_PASSES: &str =
    "no sample matches the filters (-C, -S, --comms, --dsos, --pid, --tid, --time)";

/// Advice for a table whose rows an option hides.
pub(crate) const LIMIT_ADVICE: &str = "a larger --limit shows more";
pub(crate) const PERCENT_LIMIT_ADVICE: &str = "a smaller --percent-limit shows more";

/// Returns the first rows, as many as the limits of the options allow. `rows` must be sorted by
/// share, the largest first.
pub(super) fn within_limits<'a, T>(
    rows: &'a [T],
    args: &Report,
    share: impl Fn(&T) -> f64,
) -> &'a [T] {
    let large = rows.partition_point(|row| share(row) * 100.0 >= args.percent_limit);
    &rows[..large.min(args.limit.unwrap_or(usize::MAX))]
}

/// Prints that no sample passes the filter.
pub(super) fn write_no_sample(output: &mut Screen) -> std::io::Result<()> {
    let mark = output.colors.warning;
    writeln!(output, "{mark}NO SAMPLE{mark:#}: {NO_SAMPLE_PASSES}.")
}

/// Prints how many of `all` rows are not shown, and which option shows more of them.
pub(super) fn write_hidden_rows(
    (all, shown): (usize, usize),
    args: &Report,
    output: &mut impl Write,
) -> std::io::Result<()> {
    let advice = match args.limit {
        Some(limit) if shown == limit => LIMIT_ADVICE,
        _ => PERCENT_LIMIT_ADVICE,
    };
    match all - shown {
        0 => Ok(()),
        hidden => writeln!(output, "{}", hidden_rows_line(hidden, advice)),
    }
}
