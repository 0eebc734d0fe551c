// SPDX-License-Identifier: GPL-2.0-only
//! The PMU that all CPUs have in common.

use crate::logic::{
    core_kinds::CoreKinds, cpuid::Capabilities, load_limit::LoadLimit, pmu::Pmu, throttle::Limits,
};
use kernel::sync::SetOnce;

/// The PMU that all CPUs have in common. Set after the module has probed all CPUs.
static COMMON: SetOnce<Pmu> = SetOnce::new();

/// Returns the PMU that all CPUs have in common; before [`set_common`], a PMU without counters.
#[inline]
pub(crate) fn common() -> &'static Pmu {
    static NONE: Pmu = Pmu::NONE;

    COMMON.as_ref().unwrap_or(&NONE)
}

/// Returns whether [`set_common`] has been called.
pub(crate) fn has_common() -> bool {
    COMMON.as_ref().is_some()
}

/// Sets the PMU that [`common`] returns. Not inlined: keeps the [`Pmu`] off the caller's stack.
#[inline(never)]
pub(crate) fn set_common(
    capabilities: Capabilities,
    kinds: &CoreKinds,
    place_holder: Option<u8>,
    period_bits: u32,
    throttle_limits: Limits,
    load_limit: LoadLimit,
) {
    let mut pmu = Pmu::NONE;
    pmu.set_capabilities(capabilities);
    pmu.kinds = *kinds;
    pmu.place_holder = place_holder;
    pmu.period_bits = period_bits;
    pmu.throttle_limits = throttle_limits;
    pmu.load_limit = load_limit;
    COMMON.populate(pmu);
}
