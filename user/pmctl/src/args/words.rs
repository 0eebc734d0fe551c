// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parser of option values for which shells complete some words instead of files.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

/// A parser of option values that calls the function `parse`. Shells complete the words in `known`, which are some of
/// the values that `parse` accepts.
#[derive(Clone)]
pub(super) struct ParserWithWords<F> {
    pub(super) parse: F,
    pub(super) known: &'static [&'static str],
}

impl<F: TypedValueParser> TypedValueParser for ParserWithWords<F> {
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
