// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packs `tables/metrics/*.txt`, which have a line for each metric, with tabs between its fields:
//!
//! ```text
//! NAME GROUPS FACTOR UNIT FORMULA THRESHOLD
//! NAME - NEEDED                          a metric of perf that needs NEEDED, which is no core event
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The fields of a line.
type Line = Vec<String>;

/// Returns the Rust source of the metrics, and for each table the source of the range of its own metrics.
pub(super) fn pack<'a>(
    folder: &Path,
    tables: impl Iterator<Item = &'a str>,
) -> (String, Vec<String>) {
    let lines: Vec<Vec<Line>> = tables
        .map(|name| read(&folder.join(format!("{name}.txt"))))
        .collect();
    let texts: BTreeSet<&str> = lines
        .iter()
        .flatten()
        .flatten()
        .map(|text| &**text)
        .collect();
    let numbers: BTreeMap<&str, u16> = (0..).zip(&texts).map(|(n, text)| (*text, n)).collect();
    let number = |text: &String| numbers[&**text];

    let (mut metrics, mut unsupported, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
    for lines in &lines {
        let first = (metrics.len(), unsupported.len());
        for line in lines {
            match &line[..] {
                [name, groups, factor, unit, formula, threshold] => metrics.push(format!(
                    "metrics::PackedMetric {{ name: {}, groups: {}, factor: {}, unit: {}, formula: {}, threshold: {} }}",
                    number(name),
                    number(groups),
                    number(factor),
                    number(unit),
                    number(formula),
                    number(threshold),
                )),
                [name, _, needed] => {
                    unsupported.push(format!("[{}, {}]", number(name), number(needed)));
                }
                _ => panic!("a metric has the wrong number of fields: {line:?}"),
            }
        }
        ranges.push(format!(
            "metrics: ({}, {}), unsupported_metrics: ({}, {})",
            first.0,
            metrics.len(),
            first.1,
            unsupported.len()
        ));
    }
    // Stores offsets: references would have to be relocated at each start of the program.
    let mut starts = vec![0];
    for text in &texts {
        starts.push(starts[starts.len() - 1] + text.len());
    }
    let text = format!(
        "pub(super) static METRICS: [metrics::PackedMetric; {}] = [\n{}];\n\
         pub(super) static UNSUPPORTED_METRICS: [[u16; 2]; {}] = [{}];\n\
         pub(super) static TEXTS: &str = {:?};\n\
         pub(super) static STARTS: [u32; {}] = {:?};\n",
        metrics.len(),
        metrics.join(",\n"),
        unsupported.len(),
        unsupported.join(","),
        texts.iter().copied().collect::<String>(),
        starts.len(),
        starts
    );
    (text, ranges)
}

/// Returns the lines of a file; none if there is no such file.
fn read(path: &Path) -> Vec<Line> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}
