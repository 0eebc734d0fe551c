// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of samples that options need, and how to record them.

use anyhow::Result;

use super::rows::key_heading;
use crate::args::{Key, KeyNeed, Report};
use crate::recording::perfdata::{Recording, SampleParts};
use crate::system::exit::Usage;

/// The option for a precise event in the advice to record again. Memory accesses need such an event.
const PRECISE_EVENT: &str = " -e NAME:pp";

/// Fails if an option needs data that the recording lacks.
pub(crate) fn check_recording(args: &Report, recording: &Recording) -> Result<()> {
    if args.branches && !recording.parts().has_branches {
        return Err(Usage(
            "--branches needs branch records, and this recording has none. Record again with `pmctl record -b`.".to_owned(),
        )
        .into());
    }
    check_keys(&args.rows.keys(), recording, "this recording")?;
    if (args.children || args.graph().is_some()) && !recording.parts().has_chain {
        return Err(Usage(
            "-g and --children need call chains, and this recording has none. Record again with `pmctl record -g`.".to_owned(),
        )
        .into());
    }
    Ok(())
}

/// Fails if a key needs data that the recording lacks. The message calls the recording `name`.
pub(crate) fn check_keys(keys: &[Key], recording: &Recording, name: &str) -> Result<(), Usage> {
    for key in keys {
        let Some(need) = key.need() else { continue };
        if let Some((data, options)) = missing_data(need, recording.parts()) {
            return Err(Usage(format!(
                "--sort {} needs the {data} of samples, and {name} has none. Record again with `pmctl record {options}`.",
                key_heading(*key),
            )));
        }
    }
    Ok(())
}

/// Returns the needed data and the options that record them; `None` if samples with these parts have the data.
pub(crate) fn missing_data(need: KeyNeed, parts: SampleParts) -> Option<(&'static str, String)> {
    let (is_recorded, data, further_options) = match need {
        KeyNeed::Cgroup => (parts.has_cgroup, "cgroups", ""),
        KeyNeed::DataAddress => (parts.has_data_address, "data addresses", PRECISE_EVENT),
        KeyNeed::DataSource => (parts.has_data_source, "data sources", PRECISE_EVENT),
        KeyNeed::Weight => (parts.has_weight, "weights", PRECISE_EVENT),
    };
    (!is_recorded).then(|| (data, format!("{}{further_options}", need.option())))
}
