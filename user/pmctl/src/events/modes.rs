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

/// Limits an event to these modes if it has no modifier. Returns whether it has no modifier.
pub(crate) fn limit_modes_if_unmodified(event: &mut EventSpec, modes: Modes) -> bool {
    let is_unmodified = event.modes == Modes::Both;
    if is_unmodified {
        event.modes = modes;
        event.label = with_modifier(&event.label, modes);
    }
    is_unmodified
}

/// Returns the name of an event with the modifier of these modes. `name` has no modifier of modes, or `:uk`.
pub(crate) fn with_modifier(name: &str, modes: Modes) -> String {
    let letter = match modes {
        Modes::User => 'u',
        Modes::Kernel => 'k',
        Modes::Both => return name.to_owned(),
    };
    let name = name.trim_end_matches(":uk").trim_end_matches(":ku");
    let is_precision = |modifier: &str| modifier.chars().all(|letter| matches!(letter, 'p' | 'P'));
    let modifier = name.rsplit_once(':').map(|(_, modifier)| modifier);
    // After `cpu/.../` the colon is optional, and perf omits it.
    if name.ends_with('/') || modifier.is_some_and(is_precision) {
        format!("{name}{letter}")
    } else {
        format!("{name}:{letter}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_the_modifier_that_perf_adds() {
        let user = |name| with_modifier(name, Modes::User);
        assert_eq!(user("cycles"), "cycles:u");
        assert_eq!(user("cycles:uk"), "cycles:u");
        assert_eq!(user("cpu/event=1/"), "cpu/event=1/u");
        assert_eq!(user("cycles:pp"), "cycles:ppu");
        assert_eq!(with_modifier("cycles", Modes::Kernel), "cycles:k");
        assert_eq!(with_modifier("cycles", Modes::Both), "cycles");
    }
}
