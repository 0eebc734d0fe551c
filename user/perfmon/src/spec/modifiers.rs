// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modifiers of an event: `:u`, `:k`, `:pp`, `:PMC0`.

use std::ops::Range;

use super::Precision;
use super::error::Fault;
use super::parse::SpannedText;
use crate::{CounterId, Modes};

/// Meaning of the modifiers of an event.
pub(super) struct Modifiers {
    pub(super) modes: Option<Modes>,
    pub(super) precision: Option<Precision>,
    /// The counter that is asked for, and where.
    pub(super) pinned: Option<(CounterId, Range<usize>)>,
}

/// Letters that perf knows and that mean nothing here, with the reason.
const REFUSED_LETTERS: &[(char, &str)] = &[
    ('h', "a hypervisor's own work can't be told apart"),
    ('G', "guests and host are counted together"),
    ('H', "guests and host are counted together"),
    (
        'e',
        "other users of the PMU keep their counters; leave it out",
    ),
];

/// Letters that perf knows for what is always so: an event has its counter all the time (`D`), a group counts as a whole
/// (`W`) and is read at one moment (`S`).
const ALWAYS: [char; 3] = ['D', 'W', 'S'];

/// Reads all modifiers of an event.
pub(super) fn modifiers(pieces: &[SpannedText]) -> Result<Modifiers, Fault> {
    let mut found = Modifiers {
        modes: None,
        precision: None,
        pinned: None,
    };
    for piece in pieces {
        if let Some(counter) = counter(&piece.text) {
            if found.pinned.is_some() {
                return Err(Fault::new(
                    piece.span.clone(),
                    "the event has a counter already",
                ));
            }
            found.pinned = Some((counter, piece.span.clone()));
            continue;
        }
        let (modes, precision) = modes_and_precision(piece)?;
        let span = &piece.span;
        found.modes = set_once(
            found.modes,
            modes,
            span,
            "the event has other modes already",
        )?;
        found.precision = set_once(
            found.precision,
            precision,
            span,
            "the event has another precision already",
        )?;
    }
    Ok(found)
}

/// `PMC0` or `FIXED0`.
fn counter(text: &str) -> Option<CounterId> {
    let text = text.to_ascii_uppercase();
    let number = |prefix| text.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
    number("PMC")
        .map(CounterId::General)
        .or_else(|| number("FIXED").map(CounterId::Fixed))
}

/// Returns what modifiers before and a new one agree on.
fn set_once<T: PartialEq>(
    before: Option<T>,
    new: Option<T>,
    span: &Range<usize>,
    contradiction: &'static str,
) -> Result<Option<T>, Fault> {
    match (before, new) {
        (Some(before), Some(new)) if before != new => Err(Fault::new(span.clone(), contradiction)),
        (before, new) => Ok(new.or(before)),
    }
}

/// Returns the modes and the precision that a modifier asks for, each `None` without a letter of its own.
fn modes_and_precision(piece: &SpannedText) -> Result<(Option<Modes>, Option<Precision>), Fault> {
    /// The largest `precise_ip`.
    const MAX_PRECISION: u8 = 3;

    let (mut user, mut kernel, mut level, mut is_highest) = (false, false, 0, false);
    for letter in piece.text.chars() {
        match letter {
            'u' => user = true,
            'k' => kernel = true,
            'p' if level < MAX_PRECISION => level += 1,
            'p' => {
                return Err(Fault::new(
                    piece.span.clone(),
                    "no precision is higher than `ppp`",
                ));
            }
            'P' => is_highest = true,
            _ if ALWAYS.contains(&letter) => {}
            _ => return Err(refused_modifier(piece, letter)),
        }
    }
    if piece.text.is_empty() {
        return Err(
            Fault::new(piece.span.clone(), "a modifier is missing after `:`")
                .help("Write `:u` for programs, `:k` for the kernel, `:PMC0` for a counter."),
        );
    }
    let modes = match (user, kernel) {
        (true, true) => Some(Modes::Both),
        (true, false) => Some(Modes::User),
        (false, true) => Some(Modes::Kernel),
        (false, false) => None,
    };
    let precision = match (is_highest, level) {
        (true, _) => Some(Precision::Highest),
        (false, 0) => None,
        (false, level) => Some(Precision::Level(level)),
    };
    Ok((modes, precision))
}

fn refused_modifier(piece: &SpannedText, letter: char) -> Fault {
    match REFUSED_LETTERS.iter().find(|(known, _)| *known == letter) {
        Some((_, reason)) => Fault::new(
            piece.span.clone(),
            format!("the modifier `{letter}` can't be used: {reason}"),
        ),
        None => Fault::new(
            piece.span.clone(),
            format!("no modifier is called `{}`", piece.text),
        )
        .help("Write `:u` for programs, `:k` for the kernel, `:PMC0` or `:FIXED0` for a counter."),
    }
}
