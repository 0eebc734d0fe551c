// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of registers that are not counters: energy, temperatures, clocks. A value is always of
//! the whole machine, even if only some tasks are counted.

use perfmon::Info;
use perfmon::trace::MiscEvent;

use crate::events::words::without_words;
use crate::system::exit::Usage;

/// The unit of a number that is not a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The number is in 2^-32 Joules.
    Joules,
    /// The number is in degrees Celsius.
    Celsius,
    /// The number is in cycles.
    Cycles,
    /// The number is in nanoseconds, and shown in milliseconds.
    Milliseconds,
}

impl Unit {
    /// Returns whether values of this unit only grow, so that their differences are meaningful.
    /// Values of other units are levels.
    pub(crate) const fn grows(self) -> bool {
        !matches!(self, Self::Celsius)
    }

    /// Returns a number with the name of the unit. Joules have six decimal places.
    pub(crate) fn in_words(self, value: u64) -> String {
        match self {
            Self::Joules => format!("{:.6} Joules", value as f64 / 4_294_967_296.0),
            Self::Celsius | Self::Milliseconds => {
                format!("{} {}", self.number_text(value), self.name())
            }
            Self::Cycles => value.to_string(),
        }
    }

    /// Returns the name of the unit, as it is written after a number.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Joules => "Joules",
            Self::Celsius => "\u{b0}C",
            Self::Cycles => "",
            Self::Milliseconds => "msec",
        }
    }

    /// Returns a number in this unit, without the name.
    pub(crate) fn number_text(self, value: u64) -> String {
        match self {
            // `f64` is exact enough for two decimal places.
            Self::Joules => format!("{:.2}", value as f64 / 4_294_967_296.0),
            Self::Celsius => signed(value).to_string(),
            Self::Cycles => value.to_string(),
            Self::Milliseconds => format!("{:.2}", value as f64 / 1e6),
        }
    }
}

/// Returns the unit of an event's numbers in the files of other viewers, and a function that converts a number of a
/// recording to that unit. The unit is chosen so that integers suffice, since these files have no other numbers.
pub(crate) fn unit_in_viewers(unit: Option<Unit>) -> (&'static str, fn(u64) -> u64) {
    match unit {
        Some(Unit::Joules) => ("nanojoules", |value| {
            let nanojoules = u128::from(value) * 1_000_000_000 >> 32;
            u64::try_from(nanojoules).unwrap_or(u64::MAX)
        }),
        Some(Unit::Milliseconds) => ("nanoseconds", |value| value),
        Some(unit @ Unit::Celsius) => (unit.name(), |value| value),
        Some(Unit::Cycles) | None => ("count", |value| value),
    }
}

/// Returns the number of a level, which may be negative.
#[expect(
    clippy::cast_possible_wrap,
    reason = "the driver's word has the bits of a signed number"
)]
pub(crate) const fn signed(value: u64) -> i64 {
    value as i64
}

/// The way in which the values of several packages, cores or CPUs are combined into one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combination {
    Sum,
    Hottest,
    LeastMargin,
}

impl Combination {
    /// Returns the combined number; `None` if `parts` is empty.
    pub(crate) fn combine(self, parts: &[u64]) -> Option<u64> {
        let parts = parts.iter().copied();
        match self {
            Self::Sum => parts.reduce(u64::saturating_add),
            Self::Hottest => parts.max_by_key(|part| signed(*part)),
            Self::LeastMargin => parts.min_by_key(|part| signed(*part)),
        }
    }
}

/// A value that -e can ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) name: &'static str,
    pub(crate) event: MiscEvent,
    pub(crate) unit: Unit,
    pub(crate) combination: Combination,
}

/// The values by their names, which are perf's where perf has them.
const VALUES: [Value; 10] = {
    use MiscEvent as M;

    const fn value(
        name: &'static str,
        event: MiscEvent,
        unit: Unit,
        combination: Combination,
    ) -> Value {
        Value {
            name,
            event,
            unit,
            combination,
        }
    }
    [
        value(
            "energy-pkg",
            M::EnergyPackage,
            Unit::Joules,
            Combination::Sum,
        ),
        value(
            "energy-cores",
            M::EnergyCores,
            Unit::Joules,
            Combination::Sum,
        ),
        value("energy-core", M::EnergyCore, Unit::Joules, Combination::Sum),
        value(
            "energy-ram",
            M::EnergyMemory,
            Unit::Joules,
            Combination::Sum,
        ),
        value(
            "temperature",
            M::TemperaturePackage,
            Unit::Celsius,
            Combination::Hottest,
        ),
        value(
            "temperature-core",
            M::TemperatureCore,
            Unit::Celsius,
            Combination::Hottest,
        ),
        value(
            "margin",
            M::MarginPackage,
            Unit::Celsius,
            Combination::LeastMargin,
        ),
        value(
            "margin-core",
            M::MarginCore,
            Unit::Celsius,
            Combination::LeastMargin,
        ),
        value("aperf", M::Aperf, Unit::Cycles, Combination::Sum),
        value("mperf", M::Mperf, Unit::Cycles, Combination::Sum),
    ]
};

/// Returns the value of this name.
pub(crate) fn find(word: &str) -> Option<Value> {
    let name = without_pmu(word.trim());
    VALUES.into_iter().find(|value| value.name == name)
}

/// Splits the texts of -e into other events and values.
pub(crate) fn split(texts: &[String]) -> (Vec<String>, Vec<Value>) {
    let mut values: Vec<Value> = Vec::new();
    let rest = without_words(texts, |word| {
        let value = find(word);
        let is_known = |value: &Value| values.iter().any(|known| known.name == value.name);
        let new = value.filter(|value| !is_known(value));
        values.extend(new);
        value.is_some()
    });
    (rest, values)
}

/// Returns the name of a value without perf's PMU and slashes: `energy-pkg` for `power/energy-pkg/`.
fn without_pmu(word: &str) -> &str {
    let mut names = ["power/", "power_core/"]
        .into_iter()
        .filter_map(|pmu| word.strip_prefix(pmu)?.strip_suffix('/'));
    names.next().unwrap_or(word)
}

/// Returns the value with this number in `PERFMON_GROUP_MISC`. Recordings of earlier versions number the values from 0.
pub(crate) fn by_number(number: u64) -> Option<Value> {
    let first = u64::from(VALUES[0].event as u32);
    let number = if number < first {
        first + number
    } else {
        number
    };
    let mut values = VALUES.into_iter();
    values.find(|value| u64::from(value.event as u32) == number)
}

/// Fails if the machine lacks one of these values.
pub(crate) fn require(info: &Info, values: &[Value]) -> Result<(), Usage> {
    let is_missing = |value: &&Value| info.misc_events >> value.event as u32 & 1 == 0;
    let Some(value) = values.iter().find(is_missing) else {
        return Ok(());
    };
    let available = VALUES.iter().filter(|value| !is_missing(value));
    let names: Vec<&str> = available.map(|value| value.name).collect();
    Err(Usage(if names.is_empty() {
        format!(
            "{}: this machine has no registers for energy, temperatures or clocks, which are rare in virtual machines. \
             Leave it out.",
            value.name
        )
    } else {
        format!(
            "{}: this machine does not have this register. It has: {}",
            value.name,
            names.join(" ")
        )
    }))
}

/// Returns whether this is the name of a value.
pub(crate) fn is_value(name: &str) -> bool {
    find(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_are_signed() {
        let below_zero = 3_u64.wrapping_neg();
        assert_eq!(Unit::Celsius.in_words(below_zero), "-3 \u{b0}C");
        let parts = [2, below_zero, 1];
        assert_eq!(Combination::Hottest.combine(&parts), Some(2));
        assert_eq!(Combination::LeastMargin.combine(&parts), Some(below_zero));
        assert_eq!(Combination::Sum.combine(&[2, 1]), Some(3));
        assert_eq!(Combination::Sum.combine(&[]), None);
    }

    #[test]
    fn values_are_found_among_events() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let of = |given: &[&str]| {
            let given_texts: Vec<String> = texts(given);
            let (rest, values) = split(&given_texts);
            let names: Vec<&str> = values.iter().map(|value| value.name).collect();
            (rest, names.join(" "))
        };
        assert_eq!(
            of(&["cycles,energy-pkg,{instructions,branches}:u", "temperature"]),
            (
                texts(&["cycles,{instructions,branches}:u"]),
                "energy-pkg temperature".to_owned()
            )
        );
        assert_eq!(
            of(&["energy-pkg", "aperf,energy-pkg"]),
            (Vec::new(), "energy-pkg aperf".to_owned())
        );
        assert_eq!(
            of(&["power/energy-pkg/", "power_core/energy-core/,power/cycles/"]),
            (
                texts(&["power/cycles/"]),
                "energy-pkg energy-core".to_owned()
            )
        );
        assert_eq!(of(&["energy"]), (texts(&["energy"]), String::new()));
    }

    #[test]
    fn values_are_found_by_numbers_of_all_versions() {
        let name = |number| by_number(number).map(|value| value.name);
        assert_eq!(name(32), Some("energy-pkg"));
        assert_eq!(name(41), Some("mperf"));
        assert_eq!(name(42), None);
        assert_eq!(name(0), Some("energy-pkg"));
        assert_eq!(name(9), Some("mperf"));
        assert_eq!(name(10), None);
    }

    #[test]
    fn numbers_have_their_units() {
        assert_eq!(Unit::Joules.number_text(3 << 31), "1.50");
        assert_eq!(Unit::Celsius.number_text(71), "71");
        assert_eq!(Unit::Cycles.number_text(71), "71");
    }
}
