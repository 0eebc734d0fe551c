// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event `duration_time`, with perf's name: the duration of the count, by a clock.

use crate::events::words::without_words;

/// The name of the event.
pub(crate) const DURATION: &str = "duration_time";

/// Returns whether a word of -e is this event.
pub(crate) fn is_duration(word: &str) -> bool {
    word.trim() == DURATION
}

/// Splits this event off the texts of -e. Returns the texts with the other events, and whether this
/// event was in the texts.
pub(crate) fn split(texts: &[String]) -> (Vec<String>, bool) {
    let mut has_duration = false;
    let rest = without_words(texts, |word| {
        has_duration |= is_duration(word);
        is_duration(word)
    });
    (rest, has_duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_is_taken_out_of_the_others() {
        let texts = ["cycles, duration_time,r1", "duration_time"].map(str::to_owned);
        assert_eq!(split(&texts), (vec!["cycles,r1".to_owned()], true));
        let texts = ["cycles".to_owned()];
        assert_eq!(split(&texts), (texts.to_vec(), false));
    }
}
