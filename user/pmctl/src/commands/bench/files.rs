// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the files of --save, which other tools may write, too.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use perfmon_compare::document::BenchDocument;

use crate::system::text::json_of;

/// Reads a file that `option` names.
pub(super) fn read(option: &str, path: &Path) -> Result<BenchDocument> {
    let name = path.display();
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "{option}: there is no file {name}.\nMake it with --save: `pmctl bench --save {name} -- COMMAND`."
        ),
        read => read.with_context(|| format!("{option}: can't read {name}"))?,
    };
    let document: BenchDocument = json_of(text.as_bytes(), || {
        format!("{option}: {name} is not a file of `pmctl bench --save`")
    })?;
    document
        .into_checked()
        .with_context(|| format!("{option}: {name} can't be used"))
}
