// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readings of a group, whose events are all read at once (`PERF_FORMAT_GROUP`).

use crate::Error;

/// Words of a reading before the counts: the number of events, and the times enabled and running.
const READ_HEADER_WORDS: usize = 3;

/// The place of an event in a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupPlace {
    pub(super) index: usize,
    /// The number of events in the group.
    pub(super) length: usize,
}

/// A reading of a group: the counts of all events, and the times in nanoseconds.
pub(super) struct GroupReading<'a> {
    pub(super) counts: &'a [u64],
    pub(super) enabled: u64,
    pub(super) running: u64,
}

/// Reads a group of `length` events, and returns the result of `convert`. `read_words` fills the words by reading one
/// of the events. Does not allocate memory for groups of at most eight events.
pub(super) fn read_group<R>(
    length: usize,
    read_words: impl FnOnce(&mut [u64]) -> Result<(), Error>,
    convert: impl FnOnce(GroupReading<'_>) -> R,
) -> Result<R, Error> {
    const USUAL_WORDS: usize = READ_HEADER_WORDS + 8;
    let number = READ_HEADER_WORDS + length;
    let (mut usual, mut large) = ([0; USUAL_WORDS], Vec::new());
    let words = if let Some(words) = usual.get_mut(..number) {
        words
    } else {
        large.resize(number, 0);
        &mut large[..]
    };
    read_words(words)?;
    let [_, enabled, running] = [0, 1, 2].map(|index| words[index]);
    Ok(convert(GroupReading {
        counts: &words[READ_HEADER_WORDS..],
        enabled,
        running,
    }))
}
