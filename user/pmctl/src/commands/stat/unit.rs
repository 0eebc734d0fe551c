// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units of the numbers of columns.

use crate::events::linux_pmu::Scale;
use crate::events::values::Unit;
use crate::system::text::{printable, thousands};

/// The unit of a column whose numbers are not plain counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnUnit {
    /// The unit of a machine value, or of a software event.
    Known(Unit),
    /// A factor and a unit's name, as one of Linux's PMUs has them.
    Scaled(Scale),
}

/// The unit names that files of --record have. Numbers in files are not converted, so the names are those of the raw
/// numbers' units.
const NAMES_IN_FILES: [(Unit, &str); 4] = [
    (Unit::Milliseconds, "ns"),
    (Unit::Joules, "2^-32 Joules"),
    (Unit::Celsius, "degrees Celsius"),
    (Unit::Cycles, "cycles"),
];

impl ColumnUnit {
    /// Returns the unit of a file; `None` if the file has no unit, or one that this pmctl does not know.
    pub(super) fn from_file(name: Option<&str>, factor: Option<f64>) -> Option<Self> {
        if let Some(factor) = factor {
            let unit = printable(name.unwrap_or_default());
            return Some(Self::Scaled(Scale { factor, unit }));
        }
        let entry = NAMES_IN_FILES
            .iter()
            .find(|(_, known)| Some(*known) == name);
        entry.map(|(unit, _)| Self::Known(*unit))
    }

    /// Returns the unit's name in files.
    pub(super) fn name_in_file(&self) -> String {
        match self {
            Self::Known(unit) => {
                let entry = NAMES_IN_FILES.iter().find(|(known, _)| known == unit);
                entry.map_or("", |(_, name)| name).to_owned()
            }
            Self::Scaled(scale) => scale.unit.clone(),
        }
    }

    /// Returns the factor, which files have beside the unit's name; `None` for a known unit.
    pub(super) const fn factor(&self) -> Option<f64> {
        match self {
            Self::Known(_) => None,
            Self::Scaled(scale) => Some(scale.factor),
        }
    }

    /// Returns the name that follows a number; empty if the unit has none.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Known(unit) => unit.name(),
            Self::Scaled(scale) => &scale.unit,
        }
    }

    /// Returns a number as perf writes it for programs: two digits after the point, unless the factor is whole.
    pub(super) fn number_text(&self, value: u64) -> String {
        match self {
            Self::Known(unit) => unit.number_text(value),
            Self::Scaled(scale) => {
                let digits = if scale.is_whole() { 0 } else { 2 };
                format!("{:.digits$}", scale.convert(value))
            }
        }
    }

    /// Returns a number for people, with or without commas.
    pub(super) fn text_for_people(&self, value: u64, has_commas: bool) -> String {
        match self {
            // Cycles are counts: their unit has no name.
            Self::Known(unit) if unit.name().is_empty() && has_commas => thousands(value),
            Self::Known(unit) => unit.number_text(value),
            Self::Scaled(_) => {
                let number = self.number_text(value);
                let (whole, digits) = number.split_at(number.find('.').unwrap_or(number.len()));
                match whole.parse() {
                    Ok(whole) if has_commas => format!("{}{digits}", thousands(whole)),
                    _ => number,
                }
            }
        }
    }

    /// Returns a number as perf writes it in JSON.
    pub(super) fn json_text(&self, value: u64) -> String {
        match self {
            Self::Known(unit) if unit.name().is_empty() => format!("{value}.000000"),
            Self::Known(unit) => unit.number_text(value),
            Self::Scaled(scale) => format!("{:.6}", scale.convert(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(factor: f64, unit: &str) -> ColumnUnit {
        let unit = unit.to_owned();
        ColumnUnit::Scaled(Scale { factor, unit })
    }

    #[test]
    fn scaled_numbers_have_the_digits_of_perf() {
        let mib = scaled(6.103_515_625e-5, "MiB");
        // 2^14 lines of 64 bytes are a MiB.
        let value = 1_234_567 << 14 | 1 << 13;
        assert_eq!(mib.name(), "MiB");
        assert_eq!(mib.number_text(value), "1234567.50");
        assert_eq!(mib.text_for_people(value, true), "1,234,567.50");
        assert_eq!(mib.text_for_people(value, false), "1234567.50");
        assert_eq!(mib.json_text(value), "1234567.500000");
        assert_eq!(
            scaled(0.1, "").text_for_people(9_999_999, true),
            "999,999.90"
        );
        let integer_factor = scaled(64.0, "bytes");
        assert_eq!(
            (integer_factor.number_text(3), integer_factor.json_text(3)),
            ("192".to_owned(), "192.000000".to_owned())
        );
        assert_eq!(integer_factor.text_for_people(100, true), "6,400");
    }
}
