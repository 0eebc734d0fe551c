// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modes of events: user mode, kernel mode, or both.

use perfmon::Modes;
use perfmon::spec::EventSpec;

/// Returns the modes that --all-user and --all-kernel select.
pub(crate) const fn from_options(all_user: bool, all_kernel: bool) -> Modes {
    match (all_user, all_kernel) {
        (true, _) => Modes::User,
        (_, true) => Modes::Kernel,
        _ => Modes::Both,
    }
}

/// Limits an event to these modes if it has no modifier. Returns whether it has none.
pub(crate) fn limit_unmodified(event: &mut EventSpec, modes: Modes) -> bool {
    let is_unmodified = event.modes == Modes::Both;
    if is_unmodified {
        event.modes = modes;
        event.label = label(&event.label, modes);
    }
    is_unmodified
}

/// Adds the modifier of these modes to the name of an event that has none.
pub(crate) fn label(label: &str, modes: Modes) -> String {
    let letter = match modes {
        Modes::User => 'u',
        Modes::Kernel => 'k',
        Modes::Both => return label.to_owned(),
    };
    let label = label.trim_end_matches(":uk").trim_end_matches(":ku");
    let is_precision = |modifier: &str| modifier.chars().all(|letter| matches!(letter, 'p' | 'P'));
    let modifier = label.rsplit_once(':').map(|(_, modifier)| modifier);
    // After `cpu/.../` the colon is optional, and perf omits it.
    if label.ends_with('/') || modifier.is_some_and(is_precision) {
        format!("{label}{letter}")
    } else {
        format!("{label}:{letter}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_the_modifier_that_perf_adds() {
        let user = |name| label(name, Modes::User);
        assert_eq!(user("cycles"), "cycles:u");
        assert_eq!(user("cycles:uk"), "cycles:u");
        assert_eq!(user("cpu/event=1/"), "cpu/event=1/u");
        assert_eq!(user("cycles:pp"), "cycles:ppu");
        assert_eq!(label("cycles", Modes::Kernel), "cycles:k");
        assert_eq!(label("cycles", Modes::Both), "cycles");
    }
}
