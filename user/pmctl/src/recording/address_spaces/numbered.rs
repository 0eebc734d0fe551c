// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that stand for files and names: comparing them for each sample is fast.

use std::borrow::Borrow;
use std::hash::Hash;

use ahash::AHashMap;

/// Distinct values, numbered from 0 on.
#[derive(Debug)]
pub(super) struct NumberedValues<T> {
    pub(super) values: Vec<T>,
    pub(super) numbers: AHashMap<T, u32>,
}

impl<T> Default for NumberedValues<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            numbers: AHashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> NumberedValues<T> {
    /// Returns the number of a value. A new value gets the next number.
    pub(super) fn number<Q: Hash + Eq + ToOwned<Owned = T> + ?Sized>(&mut self, value: &Q) -> u32
    where
        T: Borrow<Q>,
    {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.to_owned());
        self.numbers.insert(value.to_owned(), number);
        number
    }
}

/// The number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileNumber(pub(super) u32);

/// The number of a task's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NameNumber(pub(super) u32);

impl FileNumber {
    /// Returns the number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Returns the number as an index.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}
