// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events by number: `type`, `config` and `config1` of `struct perf_event_attr`.

use std::fmt;

use perfmon_core::logic::event_attr as attr;

use crate::EventSelect;
use crate::spec::{CacheEvent, Meaning};

/// An event by perf's numbers or by the numbers in the CPU's manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// `PERF_COUNT_HW_*`. The driver translates it to an event select of the CPU.
    Hardware(u32),
    /// `PERF_TYPE_HW_CACHE`: cache, operation and result in a byte each.
    Cache(u32),
    /// An event select of the CPU's manual. Its modes are ignored: the [`Builder`](super::Builder)
    /// sets the modes.
    Raw(EventSelect),
    /// An event select, and the value of the extra register that the event needs: Intel's offcore responses, front-end
    /// events and snoop responses.
    RawWithRegister(EventSelect, u64),
    /// The event of a fixed counter.
    Fixed(u8),
    /// `PERF_COUNT_SW_DUMMY`: an event that never happens and takes no counter.
    Dummy,
}

impl Encoding {
    /// Returns `type` and `config`.
    pub(crate) fn numbers(self) -> (u32, u64) {
        /// Bits 17:16 of an event select.
        const MODES: u64 = 3 << 16;
        match self {
            Self::Hardware(number) => (attr::PERF_TYPE_HARDWARE, number.into()),
            Self::Cache(number) => (attr::PERF_TYPE_HW_CACHE, number.into()),
            Self::Raw(select) | Self::RawWithRegister(select, _) => {
                (attr::PERF_TYPE_RAW, select.bits() & !MODES)
            }
            Self::Fixed(0) => Self::Hardware(attr::PERF_COUNT_HW_INSTRUCTIONS).numbers(),
            Self::Fixed(1) => Self::Hardware(attr::PERF_COUNT_HW_CPU_CYCLES).numbers(),
            Self::Fixed(2) => Self::Hardware(attr::PERF_COUNT_HW_REF_CPU_CYCLES).numbers(),
            // Linux's pseudo-encoding of fixed counters: event 0, with the counter's number + 1 as the unit mask.
            Self::Fixed(number) => (attr::PERF_TYPE_RAW, (u64::from(number) + 1) << 8),
            Self::Dummy => (attr::PERF_TYPE_SOFTWARE, attr::PERF_COUNT_SW_DUMMY),
        }
    }

    /// Returns `config1`: the value of the extra register, 0 if the event needs none.
    #[must_use]
    pub fn register_value(self) -> u64 {
        match self {
            Self::RawWithRegister(_, value) => value,
            _ => 0,
        }
    }

    /// Finds an event by perf's name, such as `instructions` or `L1-dcache-loads`.
    pub(super) fn named(name: &str) -> Option<Self> {
        let hardware = Meaning::named(name).and_then(Meaning::number);
        let cache = || CacheEvent::find(name).map(|event| Self::Cache(event.config()));
        hardware.map(Self::Hardware).or_else(cache)
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hardware(number) => match Meaning::name_of(*number) {
                Some(name) => f.write_str(name),
                None => write!(f, "hardware event {number}"),
            },
            Self::Cache(number) => match CacheEvent::from_config(*number) {
                Some(event) => event.fmt(f),
                None => write!(f, "cache event {number:#x}"),
            },
            Self::Raw(_) => write!(f, "r{:x}", self.numbers().1),
            Self::RawWithRegister(_, value) => {
                write!(f, "cpu/config={:#x},config1={value:#x}/", self.numbers().1)
            }
            Self::Fixed(number) => write!(f, "fixed{number}"),
            Self::Dummy => f.write_str("dummy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_perfs() {
        let raw_event = Encoding::Raw(EventSelect::new(0xc0, 1));
        assert_eq!(raw_event.numbers(), (4, 0x1c0));
        assert_eq!(raw_event.to_string(), "r1c0");
        assert_eq!(raw_event.register_value(), 0);
        let offcore_response = Encoding::RawWithRegister(EventSelect::new(0xb7, 1), 0x1_0001);
        assert_eq!(offcore_response.numbers(), (4, 0x1b7));
        assert_eq!(offcore_response.register_value(), 0x1_0001);
        assert_eq!(
            offcore_response.to_string(),
            "cpu/config=0x1b7,config1=0x10001/"
        );
        assert_eq!(Encoding::named("instructions"), Some(Encoding::Hardware(1)));
        assert_eq!(Encoding::named("ref-cycles"), Some(Encoding::Hardware(9)));
        assert_eq!(Encoding::named("cpu-cycles"), Some(Encoding::Hardware(0)));
        assert_eq!(Encoding::named("slots"), None);
        assert_eq!(Encoding::named("no-such"), None);
        let misses = Encoding::named("llc-load-misses");
        assert_eq!(misses, Some(Encoding::Cache(0x1_0002)));
        assert_eq!(Encoding::Cache(0x1_0002).to_string(), "LLC-load-misses");
        assert_eq!(Encoding::Cache(0xff).to_string(), "cache event 0xff");
        assert_eq!(Encoding::Fixed(0).numbers(), (0, 1));
        assert_eq!(Encoding::Fixed(3).numbers(), (4, 0x400));
        assert_eq!(Encoding::Cache(0x1_0203).numbers(), (3, 0x1_0203));
        assert_eq!(Encoding::Dummy.numbers(), (1, 9));
    }
}
