// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of `pmctl doctor`, a function for each.

mod module;
mod other_users;
mod processor;
mod rights;
mod trials;

use super::facts::CheckedFacts;
use super::finding::Finding;

/// A check of something that counting needs.
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) run: fn(&CheckedFacts<'_>) -> Finding,
}

/// All checks. A check comes after those that it depends on.
pub(super) const ALL_CHECKS: &[Check] = &[
    Check {
        name: "PMU",
        run: processor::check_pmu,
    },
    Check {
        name: "errata",
        run: processor::check_errata,
    },
    Check {
        name: "module",
        run: module::check_module,
    },
    Check {
        name: "next kernel",
        run: module::check_next_kernel,
    },
    Check {
        name: "device",
        run: module::check_device,
    },
    Check {
        name: "access",
        run: rights::check_access,
    },
    Check {
        name: "policy",
        run: rights::check_policy,
    },
    Check {
        name: "lockdown",
        run: module::check_lockdown,
    },
    Check {
        name: "NMI watchdog",
        run: other_users::check_nmi_watchdog,
    },
    Check {
        name: "perf users",
        run: other_users::check_perf_users,
    },
    Check {
        name: "counters",
        run: other_users::check_counters,
    },
    Check {
        name: "KVM",
        run: other_users::check_kvm,
    },
    Check {
        name: "rdpmc",
        run: other_users::check_rdpmc,
    },
    Check {
        name: "programs",
        run: trials::check_programs,
    },
    Check {
        name: "whole system",
        run: trials::check_whole_system,
    },
    Check {
        name: "samples",
        run: trials::check_samples,
    },
    Check {
        name: "precise",
        run: trials::check_precise,
    },
    Check {
        name: "names",
        run: trials::check_names,
    },
];
