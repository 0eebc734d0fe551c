// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of `counting` for machines on which nothing can be counted: benchmarks are built, listed and tried there.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::options::Options;
use crate::suite::Suite;

/// The reason why nothing is counted.
const REASON: &str =
    "perfmon-bench counts only on x86-64 Linux. `cargo test --benches` calls each benchmark once.";

/// A bench target of a package.
#[derive(Debug, Default)]
pub(crate) struct Target {
    pub(crate) package: String,
    pub(crate) name: String,
}

/// A meter. The type has no values, since nothing is counted.
#[derive(Debug)]
pub(crate) enum Meter {}

/// An error of counting. The type has no values, since nothing is counted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Error {}

impl Meter {
    pub(crate) fn take(&mut self) -> Self {
        match *self {}
    }

    pub(crate) fn count_all_threads(&mut self) {
        match *self {}
    }

    pub(crate) fn count_pass(&mut self, _: &mut dyn FnMut()) -> Result<Vec<u64>, Error> {
        match *self {}
    }
}

pub(crate) fn with_help(error: &Error) -> String {
    match *error {}
}

/// Returns the folder of a bench target's baselines.
pub(crate) fn folder(target: &Target, _tmpdir: Option<&str>) -> PathBuf {
    PathBuf::from(&target.package)
}

/// Returns the whole text, since the events of other machines are not known.
#[expect(clippy::unnecessary_wraps, reason = "the interface of counting")]
pub(crate) fn split_events(text: &str) -> Result<Vec<String>, String> {
    Ok(vec![text.to_owned()])
}

impl Suite {
    #[expect(clippy::unused_self, reason = "the interface of counting")]
    pub(crate) fn compare(&mut self, _: &Options) -> Result<ExitCode, String> {
        Err(REASON.to_owned())
    }

    #[expect(clippy::unused_self, reason = "the interface of counting")]
    pub(crate) fn count_for_parent(&mut self) -> Result<ExitCode, String> {
        Err(REASON.to_owned())
    }
}

/// A reading. The type has no values, since nothing is counted.
#[cfg(feature = "criterion")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {}

/// A counter for criterion. The type has no values, since nothing is counted.
#[cfg(feature = "criterion")]
#[derive(Debug)]
pub(crate) enum PassCounter {}

#[cfg(feature = "criterion")]
impl PassCounter {
    pub(crate) fn open(_name: &str) -> Result<Self, String> {
        Err(REASON.to_owned())
    }

    pub(crate) fn label(&self) -> &str {
        match *self {}
    }

    pub(crate) fn read(&self) -> Reading {
        match *self {}
    }

    pub(crate) fn count_since(&self, _begin: &Reading) -> u64 {
        match *self {}
    }
}
