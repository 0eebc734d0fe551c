// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of `--sort`, with perf's names.

use clap::ValueEnum;
use clap::builder::PossibleValue;

/// A key of `pmctl report --sort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Key {
    Comm,
    Pid,
    Tid,
    Dso,
    #[value(alias = "sym")]
    Symbol,
    Cpu,
    Srcline,
    Cgroup,
    /// The cache or memory that the data came from.
    Mem,
    /// The translation of the data's address.
    Tlb,
    /// The instruction was locked.
    Locked,
    /// The answer of other caches.
    Snoop,
    /// The reason why a load waited for an earlier store.
    Blocked,
    /// The latency of a sample.
    LocalWeight,
    /// The sum of the latencies of a row's samples.
    Weight,
    /// The variable of the data, or its address.
    SymbolDaddr,
    /// The file or the memory that has the data.
    DsoDaddr,
}

/// A part of samples that only some recordings have, and that a key shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyNeed {
    Cgroup,
    DataAddress,
    DataSource,
    Weight,
}

impl Key {
    /// Returns whether the key shows the memory access of samples.
    pub(crate) const fn shows_memory_access(self) -> bool {
        !matches!(self.need(), None | Some(KeyNeed::Cgroup))
    }

    /// Returns the part of samples that the key shows; `None` if all recordings have it.
    pub(crate) const fn need(self) -> Option<KeyNeed> {
        match self {
            Self::Comm
            | Self::Pid
            | Self::Tid
            | Self::Dso
            | Self::Symbol
            | Self::Cpu
            | Self::Srcline => None,
            Self::Cgroup => Some(KeyNeed::Cgroup),
            Self::Mem | Self::Tlb | Self::Locked | Self::Snoop | Self::Blocked => {
                Some(KeyNeed::DataSource)
            }
            Self::LocalWeight | Self::Weight => Some(KeyNeed::Weight),
            Self::SymbolDaddr | Self::DsoDaddr => Some(KeyNeed::DataAddress),
        }
    }
}

impl KeyNeed {
    /// Returns the option of `pmctl record` that records this part of samples.
    pub(crate) const fn option(self) -> &'static str {
        match self {
            Self::Cgroup => "--all-cgroups",
            Self::DataAddress | Self::DataSource => "-d",
            Self::Weight => "-W",
        }
    }
}

/// A word of --sort: a key, or `None` for the name of a column that each table has. perf's --sort takes such names, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortWord(Option<Key>);

impl SortWord {
    /// Returns the keys of the words; `default` if the words name only columns that each table has.
    pub(crate) fn keys(words: &[Self], default: &[Key]) -> Vec<Key> {
        let keys: Vec<Key> = words.iter().filter_map(|word| word.0).collect();
        if keys.is_empty() {
            default.to_vec()
        } else {
            keys
        }
    }
}

impl ValueEnum for SortWord {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                Self(Some(Key::Comm)),
                Self(Some(Key::Pid)),
                Self(Some(Key::Tid)),
                Self(Some(Key::Dso)),
                Self(Some(Key::Symbol)),
                Self(Some(Key::Cpu)),
                Self(Some(Key::Srcline)),
                Self(Some(Key::Cgroup)),
                Self(Some(Key::Mem)),
                Self(Some(Key::Tlb)),
                Self(Some(Key::Locked)),
                Self(Some(Key::Snoop)),
                Self(Some(Key::Blocked)),
                Self(Some(Key::LocalWeight)),
                Self(Some(Key::Weight)),
                Self(Some(Key::SymbolDaddr)),
                Self(Some(Key::DsoDaddr)),
                Self(None),
            ]
        }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self.0 {
            Some(key) => key.to_possible_value(),
            None => Some(
                PossibleValue::new("overhead")
                    .aliases(["sample", "samples"])
                    .hide(true),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_always_there_are_no_keys() {
        let keys = |text: &str| {
            let words = text.split(',').map(|word| SortWord::from_str(word, false));
            let words: Result<Vec<SortWord>, String> = words.collect();
            words.map(|words| SortWord::keys(&words, &[Key::Comm]))
        };
        assert_eq!(keys("overhead,sym"), Ok(vec![Key::Symbol]));
        assert_eq!(keys("dso,sample"), Ok(vec![Key::Dso]));
        assert_eq!(keys("dso,samples"), Ok(vec![Key::Dso]));
        assert_eq!(keys("overhead,sample"), Ok(vec![Key::Comm]));
        assert_eq!(
            keys("symbol_daddr,local_weight"),
            Ok(vec![Key::SymbolDaddr, Key::LocalWeight])
        );
        assert!(keys("colour").is_err());
        for key in Key::value_variants() {
            let name = key.to_possible_value().expect("it has a name");
            assert_eq!(keys(name.get_name()), Ok(vec![*key]));
        }
    }
}
