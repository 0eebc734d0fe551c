// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of x86 cores by name: Intel's from Nehalem on, AMD's from family 10h on.
//!
//! The tables are compiled into the program and searched in place: nothing is read or parsed at its start.
//!
//! ```
//! let model = perfmon_events::model("haswell").unwrap();
//! let event = model.event("l1d_pend_miss.pending").unwrap();
//! assert_eq!(event.name, "L1D_PEND_MISS.PENDING");
//! assert_eq!((event.number, event.unit_mask), (0x48, 0x01));
//! assert_eq!(event.counters, Some(0b100), "only counter 2 counts it");
//! ```
//!
//! [`metrics`] are formulas over such events.
//!
//! The tables contain facts only. `tables/SOURCE` names their source, and
//! `Documentation/event-names.rst` says how they are made.

pub mod metrics;
mod names;

/// The CPUID identity of a processor, which selects its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The vendor identification string.
    pub vendor: [u8; 12],
    /// The family, including the extended family.
    pub family: u32,
    /// The model, including the extended model.
    pub model: u32,
    /// The stepping.
    pub stepping: u32,
    /// The kind of core; [`Kind::Only`] unless the processor is hybrid.
    pub kind: Kind,
}

/// A kind of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The only kind of a processor that is not hybrid.
    Only,
    /// A performance core.
    Core,
    /// An efficient core.
    Atom,
    /// An efficient core of the low-power island.
    LowPower,
}

/// The events of some processors.
#[derive(Debug)]
pub struct Model {
    name: &'static str,
    version: &'static str,
    kind: Kind,
    cpus: &'static [CpuRange],
    /// The numbers of general and of fixed counters.
    counters: (u8, u8),
    /// The index of the first event, and the index after the last event.
    events: (usize, usize),
    /// The index of the first metric, and the index after the last metric.
    metrics: (usize, usize),
    /// The index of the first metric that needs more than core events, and the index after the last
    /// such metric.
    unsupported_metrics: (usize, usize),
}

/// Processors of one family with consecutive model numbers.
#[derive(Debug)]
struct CpuRange {
    vendor: [u8; 12],
    family: u32,
    /// The first and the last model number.
    models: (u32, u32),
    /// Bit n for stepping n.
    steppings: u16,
}

/// An event, with its encoding and the counters that can count it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the event select"
)]
#[non_exhaustive]
pub struct Event {
    /// The name as the vendor writes it.
    pub name: String,
    /// The event number: 8 bits on Intel, 12 on AMD.
    pub number: u16,
    /// The unit mask; bits 15:8 are the second unit mask of architectural performance monitoring, version 6.
    pub unit_mask: u16,
    /// The counter mask.
    pub counter_mask: u8,
    /// The counter mask is inverted.
    pub invert: bool,
    /// The counter counts how often the condition begins, not how long it holds (edge detect).
    pub edge: bool,
    /// The counter also counts the other thread of the core.
    pub any_thread: bool,
    /// The general counters that can count the event, bit n for counter n. `None` means no general counter if `fixed`
    /// is set, and all of them otherwise.
    pub counters: Option<u64>,
    /// The fixed counter that counts the event, if general counters can't count it.
    pub fixed: Option<u8>,
    /// The extra register that the event needs, and its value.
    pub extra: Option<ExtraRegister>,
    /// The period that the vendor proposes for samples.
    pub period: Option<u32>,
    /// The vendor has a newer name for the event, or advises against its use.
    pub deprecated: bool,
}

/// A model-specific register that an event needs besides its event select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraRegister {
    /// The number of the register.
    pub register: u32,
    /// The value of the register.
    pub value: u64,
}

/// An [`Event`] without its name, as it is stored.
struct PackedEvent {
    number: u16,
    unit_mask: u16,
    counters: u16,
    extra: u16,
    period: u16,
    counter_mask: u8,
    /// Bit 0: invert, 1: edge, 2: any thread, 3: deprecated.
    flags: u8,
    /// 0xff if there is no fixed counter.
    fixed: u8,
}

/// Tables that the build script generates from `tables/`.
#[expect(clippy::unreadable_literal, reason = "no one reads them")]
mod tables {
    use super::{CpuRange, Kind, Model, PackedEvent, metrics};

    include!(concat!(env!("OUT_DIR"), "/tables.rs"));
}

use tables::{ENCODINGS, EVENTS, EXTRAS, MODELS, PERIODS};

/// Returns all models, by name.
#[must_use]
pub fn models() -> &'static [Model] {
    &MODELS
}

/// Returns the model with this name. `amd` in front can be left out, and case does not matter.
#[must_use]
pub fn model(name: &str) -> Option<&'static Model> {
    let name = name.to_ascii_lowercase();
    let is_name =
        |model: &&Model| model.name == name || model.name.strip_prefix("amd") == Some(&name);
    MODELS.iter().find(is_name)
}

/// Returns the model of a processor.
#[must_use]
pub fn model_of(cpu: &Cpu) -> Option<&'static Model> {
    let models = MODELS
        .iter()
        .filter(|model| model.cpus.iter().any(|range| range.contains(cpu)));
    let with_kind = |kind| models.clone().find(|model| model.kind == kind);
    match cpu.kind {
        // A virtual machine may hide the kind of its cores.
        Kind::Only => with_kind(Kind::Only).or_else(|| with_kind(Kind::Core)),
        // In most processors, the cores of the low-power island are the usual efficient cores.
        Kind::LowPower => with_kind(Kind::LowPower).or_else(|| with_kind(Kind::Atom)),
        // Some models of a hybrid series have only one kind of core.
        kind => with_kind(kind).or_else(|| with_kind(Kind::Only)),
    }
}

impl CpuRange {
    fn contains(&self, cpu: &Cpu) -> bool {
        self.vendor == cpu.vendor
            && self.family == cpu.family
            && (self.models.0..=self.models.1).contains(&cpu.model)
            && u32::from(self.steppings)
                .checked_shr(cpu.stepping)
                .unwrap_or(0)
                & 1
                != 0
    }
}

impl Model {
    /// Returns the model's name, as perf has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the version of the vendor's list.
    #[must_use]
    pub fn version(&self) -> &'static str {
        self.version
    }

    /// Returns the kind of the model's cores.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the number of general counters that the model's events use.
    #[must_use]
    pub fn general_counters(&self) -> u8 {
        self.counters.0
    }

    /// Returns the number of fixed counters.
    #[must_use]
    pub fn fixed_counters(&self) -> u8 {
        self.counters.1
    }

    /// Returns whether an event has a second unit mask: then unit masks have 16 bits.
    #[must_use]
    pub fn has_unit_mask_2(&self) -> bool {
        let encoding = |[_, encoding]: &[u16; 2]| &ENCODINGS[usize::from(*encoding)];
        let mut encodings = self.packed_events().iter().map(encoding);
        encodings.any(|packed| packed.unit_mask > 0xff)
    }

    /// Returns whether the vendor is Intel.
    #[must_use]
    pub fn is_intel(&self) -> bool {
        self.cpus
            .iter()
            .any(|range| range.vendor == *b"GenuineIntel")
    }

    /// Returns one of the processors with these events.
    #[must_use]
    pub fn example_cpu(&self) -> Cpu {
        let range = &self.cpus[0];
        Cpu {
            vendor: range.vendor,
            family: range.family,
            model: range.models.0,
            stepping: range.steppings.trailing_zeros(),
            kind: self.kind,
        }
    }

    /// Returns the number of the model's events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packed_events().len()
    }

    /// Returns whether the model has no events. No model is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed_events().is_empty()
    }

    /// Returns the event with this name; case does not matter.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<Event> {
        let number = names::find(name)?;
        let index = self
            .packed_events()
            .binary_search_by_key(&number, |[name, _]| (*name).into())
            .ok()?;
        Some(unpack_event(self.packed_events()[index]))
    }

    /// Returns the model's events, sorted by name without regard to case.
    pub fn events(&self) -> impl Iterator<Item = Event> + use<> {
        self.packed_events()
            .iter()
            .map(|packed| unpack_event(*packed))
    }

    fn packed_events(&self) -> &'static [[u16; 2]] {
        &EVENTS[self.events.0..self.events.1]
    }
}

fn unpack_event([name, encoding]: [u16; 2]) -> Event {
    let packed = &ENCODINGS[usize::from(encoding)];
    let flag = |bit: u32| packed.flags >> bit & 1 != 0;
    let (register, value) = EXTRAS[usize::from(packed.extra)];
    let period = PERIODS[usize::from(packed.period)];
    Event {
        name: names::get(name.into()),
        number: packed.number,
        unit_mask: packed.unit_mask,
        counter_mask: packed.counter_mask,
        invert: flag(0),
        edge: flag(1),
        any_thread: flag(2),
        deprecated: flag(3),
        counters: (packed.counters != 0).then_some(packed.counters.into()),
        fixed: (packed.fixed != u8::MAX).then_some(packed.fixed),
        extra: (register != 0).then_some(ExtraRegister {
            register: register.into(),
            value,
        }),
        period: (period != 0).then_some(period),
    }
}

#[cfg(test)]
mod tests;
