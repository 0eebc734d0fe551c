// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of options of which shells know some words, so that they complete them, and no files.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

/// Parses a value by a function, and knows some of the words that it takes.
#[derive(Clone)]
pub(super) struct Words<F> {
    pub(super) parse: F,
    pub(super) known: &'static [&'static str],
}

impl<F: TypedValueParser> TypedValueParser for Words<F> {
    type Value = F::Value;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.known.iter().map(PossibleValue::new)))
    }
}
