// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of CPUs, by their numbers.

use std::fmt;
use std::ops::Range;

use crate::system::exit::Usage;
use crate::system::machine::parse_cpus;

/// A set of CPUs, as their numbers in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpus(Vec<u32>);

impl Cpus {
    /// Creates the set of the CPUs with these numbers.
    pub(crate) fn new(mut numbers: Vec<u32>) -> Self {
        numbers.sort_unstable();
        numbers.dedup();
        Self(numbers)
    }

    /// Parses a list such as `0-2,5`. The error is a message for the user.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let numbers = parse_cpus(text).ok_or("it takes numbers of CPUs, such as 0-2,5")?;
        let numbers = numbers.into_iter().map(u32::try_from);
        let numbers: Vec<u32> = numbers
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        Ok(Self::new(numbers))
    }

    /// Returns the number of CPUs in the set.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the CPUs that are in both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let common_cpus = self.iter().filter(|cpu| other.0.contains(cpu));
        Self(common_cpus.collect())
    }

    /// Returns the numbers of the CPUs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Fails if a CPU of the set is not among those that are online.
    pub(crate) fn require_online(&self, online: &[usize]) -> Result<(), Usage> {
        match self.iter().find(|cpu| !online.contains(&(*cpu as usize))) {
            None => Ok(()),
            Some(cpu) => Err(Usage(format!(
                "-C: CPU {cpu} is not online; /sys/devices/system/cpu/online lists the online CPUs."
            ))),
        }
    }

    /// Returns the set as ranges of consecutive numbers.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.0
            .chunk_by(|first, second| first + 1 == *second)
            .map(|chunk| {
                let end = chunk[chunk.len() - 1] + 1;
                chunk[0]..end
            })
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self
            .ranges()
            .map(|range| match range.len() {
                1 => range.start.to_string(),
                _ => format!("{}-{}", range.start, range.end - 1),
            })
            .collect();
        f.write_str(&ranges.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_in_order_and_together() {
        let cpus = Cpus::parse("5,0-2,1,7").expect("it is well formed");
        assert_eq!(cpus.to_string(), "0-2,5,7");
        assert_eq!(cpus.len(), 5);
        assert_eq!(cpus.ranges().collect::<Vec<_>>(), [0..3, 5..6, 7..8]);
        for bad in ["", "a", "1-", "2-1", "4294967296"] {
            assert!(Cpus::parse(bad).is_err(), "{bad}");
        }
    }
}
