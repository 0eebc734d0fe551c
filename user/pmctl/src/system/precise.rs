// SPDX-License-Identifier: MIT OR Apache-2.0
//! The precise samples that the processor takes itself (PEBS): their format, or the reason why the machine has none.

use std::borrow::Cow;

use perfmon::event::Builder;
use perfmon::pmu::{Microarchitecture as Core, Vendor};
use perfmon::{Cause, Device, Error, Event, Pmu};
use perfmon_core::logic::pebs::PebsFormat;
use raw_cpuid::CpuIdReader;

use crate::system::hypervisor::Hypervisor;
use crate::system::machine::{Leaves, Machine};
use crate::system::text::count;

/// The reason why there are no precise samples if the driver refuses all events, although CPUID
/// reports all that PEBS needs.
pub(crate) const NO_KNOWN_FORMAT: &str = "the driver has found no PEBS of formats 3 to 6 (from Skylake and Goldmont to Lunar Lake), which a hypervisor may leave out";

/// The level of precision that all formats have.
pub(crate) const ANY_FORMAT_PRECISION: u8 = 2;
/// The level of precision that instructions have from format 4 on.
const FORMAT_4_PRECISION: u8 = 3;
/// A period that the driver accepts for all events.
const PERIOD: u64 = 10_007;

/// The precise samples that the driver supports on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreciseSamples {
    pub(crate) format: PebsFormat,
    /// Cycles can be sampled, too.
    pub(crate) has_cycles: bool,
}

/// Returns the reason why a machine has no precise samples; `None` if CPUID does not tell, since the format is in a
/// register that programs can't read.
pub(crate) fn missing_reason(cpuid: &Leaves, pmu: &Pmu) -> Option<Cow<'static, str>> {
    /// Bits in EDX and ECX of CPUID leaf 1: there is a DS area, to which samples are written, and it has addresses of
    /// 64 bits.
    const DS: u32 = 1 << 21;
    const DTES64: u32 = 1 << 2;

    if pmu.vendor() == Vendor::Amd {
        let reason = "PEBS is Intel's, and the driver has no precise samples of AMD's processors";
        return Some(reason.into());
    }
    let leaf = cpuid.cpuid2(1, 0);
    if leaf.edx & DS == 0 || leaf.ecx & DTES64 == 0 {
        const NO_STORE: &str = "CPUID reports no debug store (DS), which PEBS needs";
        let reason = match Hypervisor::find(cpuid) {
            Some(hypervisor) => format!(
                "{NO_STORE}; {} leaves it out of the virtual machine",
                hypervisor.name
            )
            .into(),
            None => NO_STORE.into(),
        };
        return Some(reason);
    }
    let is_too_old = matches!(
        pmu.microarchitecture(),
        Core::Core2
            | Core::Nehalem
            | Core::Westmere
            | Core::SandyBridge
            | Core::IvyBridge
            | Core::Haswell
            | Core::Broadwell
            | Core::Bonnell
            | Core::Silvermont
    );
    is_too_old
        .then(|| "the driver needs PEBS of format 3, which came with Skylake and Goldmont".into())
}

/// Returns whether KVM is loaded. While it can run virtual machines, the driver refuses precise samples.
pub(crate) fn is_kvm_loaded(machine: &Machine) -> bool {
    machine.path("/sys/module/kvm_intel").exists()
}

/// Returns the precise samples that the driver supports while KVM is not in use; `None` if it supports none.
///
/// # Errors
/// The driver's answer says nothing about precise samples, for example while the kernel is locked
/// down.
pub(crate) fn supported_by(device: &Device) -> Result<Option<PreciseSamples>, Error> {
    /// A number above that of any process (`PID_MAX_LIMIT`).
    const NO_PROCESS: u32 = i32::MAX.unsigned_abs();

    find_supported(|event| {
        // The driver checks an event before it looks for the process. So this takes no counter, and works also while the
        // counters are in use.
        let opened = event.disabled().pid(NO_PROCESS).sample_on(device);
        match opened.map(drop) {
            Err(error) if error.cause == Cause::NotSupported => Ok(false),
            Err(error) if error.cause != Cause::NoSuchTask => Err(error),
            _ => Ok(true),
        }
    })
}

/// Finds the format by the events that only some formats can sample.
fn find_supported(
    accepts: impl Fn(Builder) -> Result<bool, Error>,
) -> Result<Option<PreciseSamples>, Error> {
    let instructions = || Event::instructions().user();
    if !accepts(instructions().period(PERIOD).precise(ANY_FORMAT_PRECISION))? {
        return Ok(None);
    }
    let each = instructions().period(PebsFormat::MERGED_PERIOD);
    let format = if accepts(each.precise(ANY_FORMAT_PRECISION))? {
        PebsFormat::Merged
    } else if accepts(instructions().period(PERIOD).precise(FORMAT_4_PRECISION))? {
        PebsFormat::Four
    } else {
        PebsFormat::Three
    };
    let cycles = Event::cycles().user().period(PERIOD);
    let has_cycles = accepts(cycles.precise(ANY_FORMAT_PRECISION))?;
    Ok(Some(PreciseSamples { format, has_cycles }))
}

impl PreciseSamples {
    /// Describes the format and the counters of a PMU that can have samples of it.
    pub(crate) fn describe(self, pmu: &Pmu) -> String {
        let version = pmu
            .capabilities()
            .map_or(0, |capabilities| capabilities.version);
        let number = match self.format {
            PebsFormat::Three => "3",
            PebsFormat::Merged => "14 (the virtual PMU's)",
            // The driver takes the same events in the formats 4, 5 and 6. Processors with version 6 have format 5 or 6.
            PebsFormat::Four | PebsFormat::Five if version >= 6 => "5 or 6",
            PebsFormat::Four | PebsFormat::Five => "4 or later",
        };
        // All general counters that the driver uses can have samples, also in the formats 5 and 6.
        let counters = self.format.counters();
        let general = (0..pmu.general_counters()).filter(|n| counters >> n & 1 != 0);
        let mut text = format!(
            "PEBS format {number}, {}",
            count(general.count() as u64, "general counter")
        );
        if self.format != PebsFormat::Three && pmu.fixed_counters().next().is_some() {
            text.push_str(" and fixed");
        }
        if !self.has_cycles {
            text.push_str("; not cycles");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::pmu::testing;

    /// Returns a function that accepts the events that the driver accepts on a processor with this format.
    fn driver(format: Option<PebsFormat>) -> impl Fn(Builder) -> Result<bool, Error> {
        move |event| {
            let is = |other: &Builder| format!("{event:?}") == format!("{other:?}");
            let instructions = Event::instructions().user();
            let cycles = Event::cycles()
                .user()
                .period(PERIOD)
                .precise(ANY_FORMAT_PRECISION);
            let Some(format) = format else {
                return Ok(false);
            };
            let is_adaptive = format != PebsFormat::Three;
            Ok(
                if is(&cycles)
                    || is(&instructions
                        .clone()
                        .period(PERIOD)
                        .precise(FORMAT_4_PRECISION))
                {
                    is_adaptive
                } else if is(&instructions
                    .period(PebsFormat::MERGED_PERIOD)
                    .precise(ANY_FORMAT_PRECISION))
                {
                    format == PebsFormat::Merged
                } else {
                    true
                },
            )
        }
    }

    #[test]
    fn the_format_is_found_by_the_accepted_events() {
        let describe = |format| {
            let found = find_supported(driver(format)).expect("the driver answers");
            found.map(|found| found.describe(&testing::intel()))
        };
        assert_eq!(describe(None), None);
        assert_eq!(
            describe(Some(PebsFormat::Three)).as_deref(),
            Some("PEBS format 3, 4 general counters; not cycles")
        );
        assert_eq!(
            describe(Some(PebsFormat::Four)).as_deref(),
            Some("PEBS format 4 or later, 8 general counters and fixed")
        );
        assert_eq!(
            describe(Some(PebsFormat::Merged)).as_deref(),
            Some("PEBS format 14 (the virtual PMU's), 8 general counters and fixed")
        );
    }

    #[test]
    fn cpuid_tells_which_processors_have_none() {
        const INTEL: (u32, [u32; 4]) = (0, [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]);
        const AMD: (u32, [u32; 4]) = (0, [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65]);
        const STORE: [u32; 2] = [1 << 2, 1 << 21];
        /// The bit in ECX of CPUID leaf 1 that reports a virtual machine.
        const HYPERVISOR: u32 = 1 << 31;
        let reason = |vendor, version, [ecx, edx]: [u32; 2]| {
            let cpuid = Leaves::recorded(&[vendor, (1, [version, 0, ecx, edx])]);
            missing_reason(&cpuid, &Pmu::from_cpuid(&cpuid))
        };
        let (skylake, haswell) = (0x0005_06e3, 0x0003_06c3);
        assert_eq!(reason(INTEL, skylake, STORE), None);
        for (vendor, version, store, expected) in [
            (INTEL, skylake, [0, 1 << 21], "no debug store"),
            (INTEL, skylake, [1 << 2, 0], "no debug store"),
            (
                INTEL,
                skylake,
                [HYPERVISOR, 0],
                "; an unknown hypervisor leaves it out",
            ),
            (INTEL, haswell, STORE, "came with Skylake"),
            (AMD, 0x00a6_0f12, STORE, "AMD's processors"),
        ] {
            let reason = reason(vendor, version, store).unwrap_or_default();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
