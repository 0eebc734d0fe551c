// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a table that are shown, and the notes about those that are not.

use std::io::Write;

use crate::args::Report;
use crate::system::screen::Screen;
use crate::system::text::count;

/// The message that no sample matches the filters.
pub(crate) const NO_SAMPLE_PASSES: &str =
    "no sample matches the filters (-C, -S, --comms, --dsos, --pid, --tid, --time)";

/// Returns the first rows, as far as the limits of the options allow. `rows` must be sorted by share, the largest
/// first.
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

/// Prints how many rows are not shown.
pub(super) fn write_hidden_rows(rows: usize, output: &mut impl Write) -> std::io::Result<()> {
    if rows == 0 {
        return Ok(());
    }
    writeln!(output, "  ({} not shown)", count(rows as u64, "row"))
}
