// SPDX-License-Identifier: GPL-2.0-only
//! The calls that describe the PMU to programs.

use super::Trace;
use crate::{abi, logic::values::event_number_mask, pmu, sys::mappings};
use kernel::{cpu::nr_cpu_ids, prelude::*};

/// Serves `IOCTL_PERFMON_GET_PROPERTIES`: returns the numbers and widths of counters.
pub(crate) fn get_properties(_trace: &Trace) -> Result<abi::perfmon_properties> {
    let capabilities = &pmu::common().capabilities;
    let (general_count, fixed_count) = (
        u16::from(capabilities.general_count),
        capabilities.fixed.count_ones() as u16,
    );
    let value_count = capabilities.values.count_ones() as u16;
    Ok(abi::perfmon_properties {
        api_version: abi::PERFMON_API_VERSION as u16,
        pm_version: u16::from(capabilities.version),
        max_num_events: general_count + fixed_count + value_count,
        reserved: 0,
        max_num_fixed_events: fixed_count,
        max_fixed_counter_width: u16::from(capabilities.fixed_width),
        max_num_programmable_events: general_count,
        max_programmable_counter_width: u16::from(capabilities.general_width),
        max_num_misc_events: value_count,
        max_misc_counter_width: if value_count == 0 {
            0
        } else {
            u64::BITS as u16
        },
        flags: if capabilities.last_branch.is_some() {
            abi::PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH
        } else {
            0
        },
    })
}

/// Serves `PERFMON_GET_INFO`: returns the features of the module on this machine.
pub(crate) fn get_info(_trace: &Trace) -> Result<abi::perfmon_info> {
    let pmu = pmu::common();
    let mut features = 0;
    if pmu.capabilities.full_width_writes {
        features |= abi::PERFMON_FEATURE_FULL_WIDTH_WRITES;
    }
    if pmu.place_holder.is_some() {
        features |= abi::PERFMON_FEATURE_PLACE_HOLDER;
    }
    if mappings::has_probes() {
        features |= abi::PERFMON_FEATURE_MAPPINGS;
    }
    Ok(abi::perfmon_info {
        nr_cpu_ids: nr_cpu_ids(),
        flags: 0,
        features: u64::from(features),
        misc_events: event_number_mask(pmu.capabilities.values),
        reserved: [0; 5],
    })
}
