// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Events that need an extra register: a register besides the event select, whose value says what is counted.

use super::super::evtsel::EventSelect;
use super::super::extra_registers::ExtraRegister;
use super::limit::{event_and_unit, Events};

/// Events that need an extra register.
pub(in super::super) struct ExtraEvents {
    pub(in super::super) events: Events,
    /// The register, and the mask of the bits that it has; `None` if the module does not write the register, so that the
    /// events can't be counted.
    pub(in super::super) register: Option<(ExtraRegister, u64)>,
}

impl ExtraEvents {
    /// Returns the event with this number and unit mask, which the register belongs to.
    const fn new(mask_and_number: u16, register: ExtraRegister, mask: u64) -> Self {
        Self {
            events: event_and_unit(mask_and_number),
            register: Some((register, mask)),
        }
    }

    /// Returns whether these are the events with this select.
    pub(in super::super) fn contains(&self, select: EventSelect) -> bool {
        self.events.contains(select)
    }

    /// Returns the register and the event that can count what an event of these events counts with `value`, if there are
    /// two such registers.
    pub(in super::super) fn alternative<'a>(
        &self,
        all: &'a [Self],
        value: u64,
    ) -> Option<(ExtraRegister, &'a Events)> {
        let (register, _) = self.register?;
        let other = register.interchangeable_register()?;
        all.iter().find_map(|events| match events.register {
            Some((register, mask)) if register == other && value & !mask == 0 => {
                Some((register, &events.events))
            }
            _ => None,
        })
    }
}

/// Returns the event of `MSR_OFFCORE_RSP_0`. The functions take the number and unit mask as in the register.
pub(super) const fn offcore_0(mask_and_number: u16, mask: u64) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::OffcoreResponse0, mask)
}

/// Returns the event of `MSR_OFFCORE_RSP_1`.
pub(super) const fn offcore_1(mask_and_number: u16, mask: u64) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::OffcoreResponse1, mask)
}

/// Returns an event of `MSR_PEBS_FRONTEND`.
pub(super) const fn frontend(mask_and_number: u16, mask: u64) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::Frontend, mask)
}

/// Returns the event of `MSR_SNOOP_RSP_0`.
pub(super) const fn snoop_0(mask_and_number: u16) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::SnoopResponse0, u64::MAX)
}

/// Returns the event of `MSR_SNOOP_RSP_1`.
pub(super) const fn snoop_1(mask_and_number: u16) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::SnoopResponse1, u64::MAX)
}

/// Returns the event of `MSR_PEBS_LD_LAT_THRESHOLD`, which counts with precise samples only.
pub(super) const fn load_latency(mask_and_number: u16) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::LoadLatency, 0xffff)
}

/// Returns events with a register that the module does not write, or whose precise samples have a format that the module
/// does not support.
pub(super) const fn unsupported(events: Events) -> ExtraEvents {
    ExtraEvents {
        events,
        register: None,
    }
}
