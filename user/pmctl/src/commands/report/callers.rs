// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call chains under the rows of a report, as trees.

use std::collections::BTreeMap;

use super::values::percent_text;
use crate::args::Order;
use crate::recording::profile::Frame;

/// A tree of call chains: one level of functions. Each function is a name, its events, and the tree of the level below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree(BTreeMap<String, (u64, Tree)>);

impl Tree {
    /// Adds the events of a path of functions.
    pub(super) fn add_path(&mut self, path: impl Iterator<Item = String>, events: u64) {
        let mut tree = self;
        for name in path {
            let node = tree.0.entry(name).or_default();
            node.0 = node.0.saturating_add(events);
            tree = &mut node.1;
        }
    }

    /// Returns whether the tree has no function.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a function of the first level has at least `min_events` events.
    pub(crate) fn has_events(&self, min_events: u64) -> bool {
        self.0.values().any(|(events, _)| *events >= min_events)
    }

    /// Returns the functions of the first level with at least `min_events` events, the largest first: the name, the
    /// events, and the levels below.
    pub(crate) fn largest_first(&self, min_events: u64) -> Vec<(&str, u64, &Self)> {
        let nodes = self
            .0
            .iter()
            .filter(|(_, (events, _))| *events >= min_events);
        let mut nodes: Vec<_> = nodes
            .map(|(name, (events, below))| (&name[..], *events, below))
            .collect();
        nodes.sort_by(|(a_name, a, _), (b_name, b, _)| b.cmp(a).then_with(|| a_name.cmp(b_name)));
        nodes
    }

    /// Returns a line for each function with at least `min_events` events, with its percentage of `whole`. On each
    /// level the largest comes first.
    pub(crate) fn text_lines(&self, whole: u64, min_events: u64) -> Vec<String> {
        let mut lines = Vec::new();
        self.push_lines((whole, min_events), 0, &mut lines);
        lines
    }

    fn push_lines(&self, (whole, min_events): (u64, u64), level: usize, lines: &mut Vec<String>) {
        for (name, events, below) in self.largest_first(min_events) {
            let indent = 12 + 2 * level;
            let percent = percent_text(events, whole);
            lines.push(format!("{:indent$}{percent:>7}  {name}", ""));
            below.push_lines((whole, min_events), level + 1, lines);
        }
    }
}

/// Returns the functions that are shown under the row of the function at `index`. `chain` begins with the innermost
/// function.
///
/// - [`Order::Callee`]: the callers of the row's function.
/// - [`Order::Caller`] with `has_children`: the functions that the row's function calls.
/// - [`Order::Caller`] otherwise: the whole chain, the outermost function first.
pub(super) fn shown_path<'a>(
    order: Order,
    chain: &'a [Frame<'a>],
    (index, has_children): (usize, bool),
) -> Box<dyn Iterator<Item = String> + 'a> {
    match order {
        Order::Callee => Box::new(chain[index + 1..].iter().map(Frame::label)),
        Order::Caller if has_children => Box::new(chain[..index].iter().rev().map(Frame::label)),
        Order::Caller => Box::new(chain.iter().rev().map(Frame::label)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> impl Iterator<Item = String> + '_ {
        text.split(' ').map(str::to_owned)
    }

    #[test]
    fn the_largest_comes_first_and_the_smallest_not_at_all() {
        let mut tree = Tree::default();
        tree.add_path(path("main small"), 4);
        tree.add_path(path("main large"), 600);
        tree.add_path(path("main medium"), 300);
        tree.add_path(path("start"), 96);
        let expected = [
            "             90.40%  main",
            "               60.00%  large",
            "               30.00%  medium",
            "              9.60%  start",
        ];
        assert_eq!(tree.text_lines(1000, 5), expected);
    }

    #[test]
    fn a_deep_recursion_is_shown_to_its_end() {
        let mut tree = Tree::default();
        tree.add_path((0..100).map(|level| format!("f{level}")), 1);
        let lines = tree.text_lines(1, 1);
        assert_eq!(lines.len(), 100);
        assert!(lines[99].ends_with("100.00%  f99"));
    }
}
