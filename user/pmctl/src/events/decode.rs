// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the values of registers in words.

use perfmon::CounterId;
use perfmon_core::logic::evtsel::EventSelect;

/// Returns an event select in words.
pub(crate) fn describe_select(bits: u64) -> String {
    let select = EventSelect::from_bits(bits);
    let mut words = vec![format!("event {:#04x}", select.event())];
    let unit_mask = u16::from_le_bytes([select.unit_mask(), select.unit_mask_2()]);
    words.push(format!("unit mask {unit_mask:#04x}"));
    match (select.counter_mask(), select.is_inverted()) {
        (0, false) => {}
        (mask, false) => words.push(format!("cycles with {mask} or more")),
        (mask, true) => words.push(format!("cycles with fewer than {mask}")),
    }
    let flags = [
        (EventSelect::EDGE, "edges"),
        (EventSelect::PIN_CONTROL, "pin control"),
        (EventSelect::ANY_THREAD, "any thread"),
        (EventSelect::USER, "user"),
        (EventSelect::KERNEL, "kernel"),
        (EventSelect::INTERRUPT, "interrupt"),
        (EventSelect::ENABLE, "enabled"),
    ];
    words.extend(
        flags
            .iter()
            .filter(|(bit, _)| bits & bit != 0)
            .map(|(_, word)| (*word).to_owned()),
    );
    words.join(", ")
}

/// Returns the modes of an event select in words.
pub(crate) fn describe_modes(bits: u64) -> String {
    match (
        bits & EventSelect::USER != 0,
        bits & EventSelect::KERNEL != 0,
    ) {
        (true, true) => "user, kernel",
        (true, false) => "user",
        (false, true) => "kernel",
        (false, false) => "no mode",
    }
    .to_owned()
}

/// Returns the field of fixed counter `number` in `IA32_FIXED_CTR_CTRL` in words (Intel SDM, volume 3B, section 21.2.2).
pub(crate) fn describe_fixed_field(control: u64, number: u8) -> String {
    let field = control >> (4 * u32::from(number)) & 0xf;
    let flags = [
        (1 << 1, "user"),
        (1 << 0, "kernel"),
        (1 << 2, "any thread"),
        (1 << 3, "interrupt"),
    ];
    let words: Vec<&str> = flags
        .iter()
        .filter(|(bit, _)| field & bit != 0)
        .map(|(_, word)| *word)
        .collect();
    if words.is_empty() {
        "off".to_owned()
    } else {
        words.join(", ")
    }
}

/// Returns the name of a counter as in modifiers of events, such as `PMC0` or `FIXED0`.
pub(crate) fn counter_name(id: CounterId) -> String {
    match id {
        CounterId::General(number) => format!("PMC{number}"),
        CounterId::Fixed(number) => format!("FIXED{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_are_spelled_out() {
        assert_eq!(
            describe_select(0x0001_00c0),
            "event 0xc0, unit mask 0x00, user"
        );
        assert_eq!(
            describe_select(0x0277_4f2e),
            "event 0x2e, unit mask 0x4f, cycles with 2 or more, edges, any thread, user, kernel, \
             interrupt, enabled"
        );
        assert_eq!(
            describe_select(0x0280_003c),
            "event 0x3c, unit mask 0x00, cycles with fewer than 2"
        );
        assert_eq!(
            describe_select(0x1_0002_0020),
            "event 0x120, unit mask 0x00, kernel"
        );
        assert_eq!(
            describe_select(0x100_0001_ff24),
            "event 0x24, unit mask 0x1ff, user"
        );
    }

    #[test]
    fn each_fixed_counter_has_its_field() {
        assert_eq!(describe_fixed_field(0xb20, 1), "user");
        assert_eq!(describe_fixed_field(0xb20, 2), "user, kernel, interrupt");
        assert_eq!(describe_fixed_field(0xb20, 0), "off");
    }
}
