// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of a suite's history, as SVG.

use std::cmp::Ordering;
use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::history::{History, Series};
use crate::system::exit::Usage;

/// Width and height of the plot of all benchmarks, in pixels.
const SIZE: (u32, u32) = (960, 400);

/// Width and height of the plot of one benchmark in a row of a table, in pixels.
const SMALL_SIZE: (u32, u32) = (160, 28);

/// Colors that people with any color vision tell apart (Okabe and Ito), for the benchmarks that changed the most.
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// The color of the benchmarks that have none of [`COLORS`].
const OTHERS_COLOR: RGBColor = RGBColor(190, 190, 190);

/// The largest number of labels on the horizontal axis.
const MAX_LABELS: usize = 12;

/// The area that a plot is drawn in.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Returns a plot of the changes of an event, with a line for each benchmark. The benchmarks that changed the most have
/// a color and a name.
pub(super) fn draw_changes(history: &History, event: &str) -> Result<String> {
    let labels = history.labels();
    if labels.len() < 2 {
        return Err(Usage(
            "--export svg draws changes from file to file: give --suite two files or more, the oldest first."
                .to_owned(),
        )
        .into());
    }
    let mut series = history.series(event);
    series.sort_by(|one, other| last_change(other).total_cmp(&last_change(one)));
    draw_svg(SIZE, |area| {
        area.fill(&WHITE)?;
        let last = i32::try_from(labels.len() - 1)?;
        let range = axis_range(&series);
        let digits = decimal_digits(range.end - range.start);
        let mut chart = ChartBuilder::on(area)
            .caption(
                format!("{event}: change from {}", labels[0]),
                ("sans-serif", 18),
            )
            .margin(12)
            .margin_right(28)
            .x_label_area_size(32)
            .y_label_area_size(72)
            .build_cartesian_2d(0..last, range)?;
        let name = |index: &i32| {
            let index = usize::try_from(*index).ok();
            index
                .and_then(|index| labels.get(index))
                .cloned()
                .unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(labels.len().min(MAX_LABELS))
            .x_label_formatter(&name)
            .y_label_formatter(&|change| format!("{change:+.digits$}%"))
            .draw()?;
        // The other lines are drawn first, so that the named ones lie above them.
        let (named, others) = series.split_at(series.len().min(COLORS.len()));
        let named = named.iter().zip(COLORS.into_iter().map(Some));
        let others = others.iter().map(|one| (one, None));
        for (one, color) in others.chain(named) {
            let style = color.unwrap_or(OTHERS_COLOR).stroke_width(2);
            for (part, points) in unbroken_parts(&one.changes()).into_iter().enumerate() {
                let line = LineSeries::new(points, style).point_size(3);
                let drawn = chart.draw_series(line)?;
                if part == 0 && color.is_some() {
                    drawn
                        .label(one.benchmark)
                        .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], style));
                }
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(OTHERS_COLOR)
            .draw()?;
        Ok(())
    })
}

/// Returns a plot of the changes of one benchmark, without axes.
pub(super) fn draw_small(series: &Series<'_>) -> Result<String> {
    draw_svg(SMALL_SIZE, |area| {
        let last = i32::try_from(series.means.len().max(2) - 1)?;
        let mut chart = ChartBuilder::on(area)
            .margin(4)
            .build_cartesian_2d(0..last, axis_range(std::slice::from_ref(series)))?;
        for points in unbroken_parts(&series.changes()) {
            chart.draw_series(LineSeries::new(points, COLORS[0].stroke_width(2)).point_size(2))?;
        }
        Ok(())
    })
}

/// Returns the picture that `draw` has drawn, as SVG.
fn draw_svg(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    draw(&area)?;
    area.present()
        .map_err(|error| anyhow!("can't draw: {error}"))?;
    drop(area);
    Ok(svg)
}

/// Returns the last change without its sign, in percent.
fn last_change(series: &Series<'_>) -> f64 {
    let changes = series.changes();
    changes.last().copied().flatten().unwrap_or(0.0).abs()
}

/// Returns the range of the vertical axis, which holds all changes and 0.
fn axis_range(series: &[Series<'_>]) -> Range<f64> {
    let changes: Vec<f64> = series.iter().flat_map(Series::changes).flatten().collect();
    let low = changes.iter().copied().fold(0.0, f64::min);
    let high = changes.iter().copied().fold(0.0, f64::max);
    let margin = match (high - low).partial_cmp(&0.0) {
        Some(Ordering::Greater) => 0.08 * (high - low),
        // Without a change the line is in the middle.
        _ => 1.0,
    };
    low - margin..high + margin
}

/// Returns the number of digits after the decimal point in labels of an axis of this length.
fn decimal_digits(length: f64) -> usize {
    // The axis has about ten labels, whose numbers must differ.
    let mut digits = 0;
    let mut step = length / 10.0;
    while step < 1.0 && digits < 9 {
        step *= 10.0;
        digits += 1;
    }
    digits
}

/// Splits a line at its gaps, and returns the points of each part.
fn unbroken_parts(changes: &[Option<f64>]) -> Vec<Vec<(i32, f64)>> {
    let points = changes.iter().zip(0..);
    let points: Vec<_> = points
        .map(|(change, x)| change.map(|change| (x, change)))
        .collect();
    let parts = points.split(Option::is_none);
    parts
        .map(|part| part.iter().flatten().copied().collect::<Vec<_>>())
        .filter(|part| !part.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_where_a_number_is_missing() {
        let parts = unbroken_parts(&[Some(0.0), None, Some(1.0), Some(2.0)]);
        assert_eq!(parts, [vec![(0, 0.0)], vec![(2, 1.0), (3, 2.0)]]);
        assert!(unbroken_parts(&[None, None]).is_empty());
    }

    #[test]
    fn the_axis_holds_all_changes_and_zero() {
        let series = |means: &[f64]| Series {
            benchmark: "a",
            means: means.iter().copied().map(Some).collect(),
        };
        let range = axis_range(&[series(&[100.0, 110.0]), series(&[100.0, 95.0])]);
        assert!(range.start < -5.0 && range.end > 10.0);
        assert_eq!(axis_range(&[series(&[5.0, 5.0])]), -1.0..1.0);
        assert_eq!([20.0, 2.0, 0.0002].map(decimal_digits), [0, 1, 5]);
    }
}
