// SPDX-License-Identifier: GPL-2.0-only
//! What the errors of the parts are for a program. The header's table tells what each errno means.

use crate::{
    cpu::ThisCpu,
    logic::{counter::Invalid, state::NotSetUp},
    msr::Tampered,
};
use kernel::{pr_err_once, prelude::*};

impl From<Invalid> for Error {
    fn from(_: Invalid) -> Self {
        EINVAL
    }
}

impl From<NotSetUp> for Error {
    fn from(_: NotSetUp) -> Self {
        EBUSY
    }
}

impl Tampered {
    /// Tells in the log what was found, once: a cause like this does not go away.
    pub(crate) fn report(&self, here: &ThisCpu) {
        pr_err_once!(
            "MSR {:#x} of CPU {} holds {:#x} instead of {:#x}: somebody else writes the counters \
             (a hypervisor, or KVM's mediated vPMU), so they can't be relied on\n",
            self.msr.number(),
            here.number(),
            self.found,
            self.expected
        );
    }
}
