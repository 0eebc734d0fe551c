// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates the event names of the C library from the event names of the Rust library, or checks
//! that the committed file is up to date.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use perfmon::Encoding;
use perfmon::pmu::Vendor;
use perfmon::spec::named_events;

/// The generated file.
const OUTPUT: &str = "user/libperfmon/event_names.h";

/// The numbers of caches, operations and results in `<linux/perf_event.h>`.
const CACHES: u32 = 7;
const OPERATIONS: u32 = 3;
const RESULTS: u32 = 2;

/// Writes the file.
pub(crate) fn write(top: &Path) -> Result<()> {
    let path = top.join(OUTPUT);
    fs::write(&path, generate()).with_context(|| format!("can't write {}", path.display()))
}

/// Fails unless the committed file has the names of the Rust library.
pub(crate) fn check(top: &Path) -> Result<()> {
    let committed_text = fs::read_to_string(top.join(OUTPUT)).unwrap_or_default();
    if committed_text != generate() {
        bail!(
            "{OUTPUT} is not up to date with perfmon::spec.\nRun `cargo xtask event-names` in user/."
        );
    }
    Ok(())
}

/// Returns the text of the file: the rows of a table in C.
fn generate() -> String {
    // REUSE-IgnoreStart
    let mut text = "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n".to_owned();
    // REUSE-IgnoreEnd
    text.push_str(
        "/* Made from perfmon::spec by `cargo xtask event-names`: not to be edited. */\n",
    );
    let mut row = |name: &str, kind, config| {
        // Writing to a string can't fail.
        let _ = writeln!(text, "\t{{ \"{name}\", {kind}, {config:#x} }},");
    };
    for event in named_events(Vendor::Intel) {
        let meaning = event.meaning();
        let (Some(number), None) = (meaning.number(), event.only_fixed()) else {
            continue;
        };
        for name in meaning.names() {
            row(name, "PERF_TYPE_HARDWARE", number);
        }
    }
    for cache in 0..CACHES {
        for operation in 0..OPERATIONS {
            for result in 0..RESULTS {
                let config = cache | operation << 8 | result << 16;
                let name = Encoding::Cache(config).to_string();
                // A combination that makes no sense has no name, but a description with spaces.
                if !name.contains(' ') {
                    row(&name, "PERF_TYPE_HW_CACHE", config);
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_perfs_numbers() {
        let text = generate();
        for row in [
            "\t{ \"instructions\", PERF_TYPE_HARDWARE, 0x1 },",
            "\t{ \"branch-instructions\", PERF_TYPE_HARDWARE, 0x4 },",
            "\t{ \"LLC-load-misses\", PERF_TYPE_HW_CACHE, 0x10002 },",
        ] {
            assert!(text.lines().any(|line| line == row), "{row} in {text}");
        }
        assert!(!text.contains("slots"), "perf has no number for them");
    }
}
