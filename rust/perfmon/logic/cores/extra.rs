// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Events that need an extra register: a register besides the event select, whose value selects the
//! events that are counted.

use super::super::evtsel::EventSelect;
use super::super::extra_registers::ExtraRegister;
use super::limit::{event_and_unit, Events};

/// Events that need an extra register, and the register.
pub(in super::super) struct ExtraEvents {
    pub(in super::super) events: Events,
    /// The register, and the mask of the bits that the register has; `None` if the module does not
    /// write the register, so that the events can't be counted.
    pub(in super::super) register: Option<(ExtraRegister, u64)>,
}

impl ExtraEvents {
    /// Returns the event with this number and unit mask, which needs `register`. `mask` are the bits that the register has.
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

    /// Returns the other register that can be used for the same event, and the event that needs it. `all` are the events of
    /// the core. `None` if there is no such register, or if it lacks bits of `value`.
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

/// Returns the event that needs `MSR_OFFCORE_RSP_0`. `mask_and_number` are unit mask and number as in the event select, `mask`
/// are the bits that `MSR_OFFCORE_RSP_0` has.
pub(super) const fn offcore_0(mask_and_number: u16, mask: u64) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::OffcoreResponse0, mask)
}

/// Returns the event that needs `MSR_OFFCORE_RSP_1`.
pub(super) const fn offcore_1(mask_and_number: u16, mask: u64) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::OffcoreResponse1, mask)
}

/// Returns an event that needs `MSR_PEBS_FRONTEND`.
pub(super) const fn frontend(mask_and_number: u16, mask: u64) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::Frontend, mask)
}

/// Returns the event that needs `MSR_SNOOP_RSP_0`.
pub(super) const fn snoop_0(mask_and_number: u16) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::SnoopResponse0, u64::MAX)
}

/// Returns the event that needs `MSR_SNOOP_RSP_1`.
pub(super) const fn snoop_1(mask_and_number: u16) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::SnoopResponse1, u64::MAX)
}

/// Returns the event that needs `MSR_PEBS_LD_LAT_THRESHOLD`. The event counts with precise samples
/// only.
pub(super) const fn load_latency(mask_and_number: u16) -> ExtraEvents {
    ExtraEvents::new(mask_and_number, ExtraRegister::LoadLatency, 0xffff)
}

/// Returns events that need a register which the module does not write, or whose precise samples have a format that the module
/// does not support.
pub(super) const fn unsupported(events: Events) -> ExtraEvents {
    ExtraEvents {
        events,
        register: None,
    }
}
