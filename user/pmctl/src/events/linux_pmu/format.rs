// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of a PMU's events, with their bits in `struct perf_event_attr`.

use std::ops::RangeInclusive;

/// Number of the words `config`, `config1` and so on.
const CONFIGS: usize = 5;

/// The words `config`, `config1` to `config4`.
pub(crate) type Configs = [u64; CONFIGS];

/// A field: the index of its word, and ranges of bits in the word. The first range has the lowest bits of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    word: usize,
    bits: Vec<RangeInclusive<u32>>,
}

impl Field {
    /// Returns the field that is the whole word with this name: `config`, `config1` and so on.
    pub(super) fn whole(name: &str) -> Option<Self> {
        Some(Self {
            word: word(name)?,
            bits: vec![0..=63],
        })
    }

    /// Parses the content of a file in `format/`, such as `config:0-7,32-35`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, list) = text.trim().split_once(':')?;
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && last < 64).then_some(first..=last)
        };
        Some(Self {
            word: word(name)?,
            bits: list.split(',').map(range).collect::<Option<_>>()?,
        })
    }

    /// Returns the largest value.
    pub(super) fn max(&self) -> u64 {
        let width: u32 = self.bits.iter().map(width).sum();
        u64::MAX
            .checked_shr(64_u32.saturating_sub(width))
            .unwrap_or(0)
    }

    /// Replaces the field's value, which must be at most [`Self::max`].
    pub(super) fn write(&self, mut value: u64, configs: &mut Configs) {
        let word = &mut configs[self.word];
        for bits in &self.bits {
            let mask = u64::MAX >> (64 - width(bits));
            *word &= !(mask << bits.start());
            *word |= (value & mask) << bits.start();
            value = value.checked_shr(width(bits)).unwrap_or(0);
        }
    }
}

/// Returns the number of bits in a range, from 1 to 64.
const fn width(bits: &RangeInclusive<u32>) -> u32 {
    *bits.end() - *bits.start() + 1
}

/// Returns the number of a word of the attributes: n for `confign`, 0 for `config`.
fn word(name: &str) -> Option<usize> {
    let names = ["config", "config1", "config2", "config3", "config4"];
    names.iter().position(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_spread_over_its_bits() {
        let field = Field::parse("config:0-7,32-35\n").expect("it is well formed");
        assert_eq!(field.max(), 0xfff);
        let mut configs = [u64::MAX, 0, 0, 0, 0];
        field.write(0xa5c, &mut configs);
        assert_eq!(configs[0], 0xffff_fffa_ffff_ff5c);

        let whole = Field::parse("config1:0-63").expect("it is well formed");
        assert_eq!(whole.max(), u64::MAX);
        whole.write(u64::MAX, &mut configs);
        assert_eq!(configs[1], u64::MAX);

        let bit = Field::parse("config2:5").expect("it is well formed");
        bit.write(1, &mut configs);
        assert_eq!((bit.max(), configs[2]), (1, 1 << 5));
    }

    #[test]
    fn malformed_fields_are_refused() {
        for text in [
            "",
            "config",
            "config:",
            "config:7-0",
            "config:0-64",
            "config9:0",
            "x:0",
        ] {
            assert_eq!(Field::parse(text), None, "{text}");
        }
    }
}
