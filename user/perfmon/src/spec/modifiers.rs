// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modifiers of an event: `:u`, `:k`, `:PMC0`.

use std::ops::Range;

use super::error::Fault;
use super::parse::Piece;
use crate::{CounterId, Modes};

/// Meaning of the modifiers of an event.
pub(super) struct Modifiers {
    pub(super) modes: Option<Modes>,
    /// The counter that is asked for, and where.
    pub(super) pinned: Option<(CounterId, Range<usize>)>,
}

const PRECISE: &str = "pmctl takes no precise samples (PEBS, IBS), so a sample is some instructions behind the event \
                       (skid), and a count is exact anyway: leave the letter out";

/// Letters that perf knows and that mean nothing here, with the reason.
const REFUSED_LETTERS: &[(char, &str)] = &[
    ('h', "a hypervisor's own work can't be told apart"),
    ('G', "guests and host are counted together"),
    ('H', "guests and host are counted together"),
    ('p', PRECISE),
    ('P', PRECISE),
    (
        'e',
        "other users of the PMU keep their counters; leave it out",
    ),
];

/// Letters that perf knows for what is always so: an event has its counter all the time (`D`), a group counts as a whole
/// (`W`) and is read at one moment (`S`).
const ALWAYS: [char; 3] = ['D', 'W', 'S'];

/// Reads all modifiers of an event.
pub(super) fn modifiers(pieces: &[Piece]) -> Result<Modifiers, Fault> {
    let mut found = Modifiers {
        modes: None,
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
        let Some(modes) = modes(piece)? else {
            continue;
        };
        if found.modes.is_some_and(|before| before != modes) {
            return Err(Fault::new(
                piece.span.clone(),
                "the event has other modes already",
            ));
        }
        found.modes = Some(modes);
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

/// `u`, `k` or both; `None` if only letters are there that change nothing.
fn modes(piece: &Piece) -> Result<Option<Modes>, Fault> {
    let (mut user, mut kernel) = (false, false);
    for letter in piece.text.chars() {
        match letter {
            'u' => user = true,
            'k' => kernel = true,
            _ if ALWAYS.contains(&letter) => {}
            _ => return Err(refused_modifier(piece, letter)),
        }
    }
    match (user, kernel) {
        (true, true) => Ok(Some(Modes::Both)),
        (true, false) => Ok(Some(Modes::User)),
        (false, true) => Ok(Some(Modes::Kernel)),
        (false, false) if !piece.text.is_empty() => Ok(None),
        (false, false) => Err(
            Fault::new(piece.span.clone(), "a modifier is missing after `:`")
                .help("Write `:u` for programs, `:k` for the kernel, `:PMC0` for a counter."),
        ),
    }
}

fn refused_modifier(piece: &Piece, letter: char) -> Fault {
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
