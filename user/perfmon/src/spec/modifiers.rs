// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modifiers of an event: `:u`, `:k`, `:pp`, `:PMC0`.

use std::ops::Range;

use super::error::Fault;
use super::event_spec::Precision;
use super::parse::SpannedText;
use crate::{CounterId, Modes};

/// The decoded modifiers of an event.
pub(super) struct Modifiers {
    pub(super) modes: Option<Modes>,
    pub(super) precision: Option<Precision>,
    /// The requested counter, and the bytes of the text that request it.
    pub(super) pinned: Option<(CounterId, Range<usize>)>,
}

/// Letters that perf accepts and this library refuses, with the reason.
const REFUSED_LETTERS: &[(char, &str)] = &[
    ('h', "the work of a hypervisor can't be counted separately"),
    ('G', "guests and host are counted together"),
    ('H', "guests and host are counted together"),
    (
        'e',
        "the driver does not take counters from other users of the PMU; leave it out",
    ),
];

/// Letters of perf that have no effect, because this driver always does as they ask: an event has
/// its counter all the time (`D`), a group counts as a whole (`W`), and a group is read at one
/// moment (`S`).
const IMPLIED_LETTERS: [char; 3] = ['D', 'W', 'S'];

/// Decodes all modifiers of an event.
pub(super) fn decode_modifiers(pieces: &[SpannedText]) -> Result<Modifiers, Fault> {
    let mut modifiers = Modifiers {
        modes: None,
        precision: None,
        pinned: None,
    };
    for piece in pieces {
        if let Some(counter) = parse_counter(&piece.text) {
            if modifiers.pinned.is_some() {
                return Err(Fault::new(
                    piece.span.clone(),
                    "the event has a counter already",
                ));
            }
            modifiers.pinned = Some((counter, piece.span.clone()));
            continue;
        }
        let (modes, precision) = decode_modifier(piece)?;
        let span = &piece.span;
        modifiers.modes = merge(
            modifiers.modes,
            modes,
            span,
            "the event has other modes already",
        )?;
        modifiers.precision = merge(
            modifiers.precision,
            precision,
            span,
            "the event has another precision already",
        )?;
    }
    Ok(modifiers)
}

/// Parses `PMC0` or `FIXED0`.
pub(super) fn parse_counter(text: &str) -> Option<CounterId> {
    let text = text.to_ascii_uppercase();
    let number = |prefix| text.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
    number("PMC")
        .map(CounterId::General)
        .or_else(|| number("FIXED").map(CounterId::Fixed))
}

/// Combines the value of the earlier modifiers with the value of a new one. Fails with the message `contradiction` if both
/// exist and differ.
fn merge<T: PartialEq>(
    earlier: Option<T>,
    new: Option<T>,
    span: &Range<usize>,
    contradiction: &'static str,
) -> Result<Option<T>, Fault> {
    match (earlier, new) {
        (Some(earlier), Some(new)) if earlier != new => {
            Err(Fault::new(span.clone(), contradiction))
        }
        (earlier, new) => Ok(new.or(earlier)),
    }
}

/// Decodes the modes and the precision of a modifier, each `None` if the modifier has no letter for it.
fn decode_modifier(piece: &SpannedText) -> Result<(Option<Modes>, Option<Precision>), Fault> {
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
            _ if IMPLIED_LETTERS.contains(&letter) => {}
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
        .help(
            "Write `:u` for programs, `:k` for the kernel, `:p` or `:P` for precise samples, `:PMC0` or `:FIXED0` for a counter.",
        ),
    }
}
