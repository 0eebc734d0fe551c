// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads Linux's C, as far as its tables of events need it: definitions, arrays and the bodies of functions.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The text of files, without comments.
pub(super) struct Source(String);

impl Source {
    /// Reads files of a directory.
    pub(super) fn read(directory: &Path, names: &[&str]) -> Result<Self> {
        let mut text = String::new();
        for name in names {
            let path = directory.join(name);
            text += &fs::read_to_string(&path)
                .with_context(|| format!("can't read {}", path.display()))?;
        }
        Ok(Self::of(&text))
    }

    pub(super) fn of(text: &str) -> Self {
        let mut parts = text.split("/*");
        let mut code = parts.next().unwrap_or("").to_owned();
        for part in parts {
            code += part.split_once("*/").map_or("", |(_, after)| after);
        }
        Self(code)
    }

    /// Returns the lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.lines()
    }

    /// Returns the terms of a definition, `#define NAME (terms)`, without white space and the outer parentheses.
    pub(super) fn definition(&self, name: &str) -> Result<String> {
        let start = format!("#define {name} ");
        let mut definitions = self.lines().filter_map(|line| line.strip_prefix(&start));
        let terms = definitions.next();
        let terms = terms.with_context(|| format!("Linux does not define {name}"))?;
        let terms: String = terms.split_whitespace().collect();
        let inner = terms
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix(')'));
        Ok(inner.unwrap_or(&terms).to_owned())
    }

    /// Returns the text between the braces of an array or a function, without white space. `start` is the beginning of
    /// its definition.
    pub(super) fn body(&self, start: &str) -> Result<String> {
        let message = || format!("Linux has no `{start}`");
        let (_, after) = self.0.split_once(start).with_context(message)?;
        let (_, after) = after.split_once('{').with_context(message)?;
        let ends = ["\n};", "\n}\n"]
            .into_iter()
            .filter_map(|end| after.find(end));
        let body = &after[..ends.min().with_context(message)?];
        // White space is needed only after these words.
        let body = body
            .replace("case ", "case\0")
            .replace("goto ", "goto\0")
            .replace("else ", "");
        let body: String = body.split_whitespace().collect();
        Ok(body.replace('\0', " "))
    }
}

/// Returns the items of a list like `NAME(a, b), NAME(c),`: each with its arguments.
pub(super) fn items(body: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    body.split(')').filter_map(|item| {
        let (name, arguments) = item.split_once('(')?;
        Some((name.trim_start_matches(','), arguments.split(',').collect()))
    })
}

/// Returns the number in a text such as `0x1f`, `0x1full`, `12` or `-1` (all ones).
pub(super) fn number(text: &str) -> Result<u64> {
    let text = text.trim().trim_end_matches("ull");
    match (text, text.strip_prefix("0x")) {
        ("-1", _) => Ok(u64::MAX),
        (_, Some(hex)) => u64::from_str_radix(hex, 16),
        (decimal, None) => decimal.parse(),
    }
    .with_context(|| format!("`{text}` is not a number"))
}
