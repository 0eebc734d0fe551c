// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that both recorders need first: the PMU, the online CPUs, and the command.

use anyhow::Result;
use perfmon::Pmu;

use crate::args::{CommonOptions, RecordTarget};
use crate::system::child::Command;
use crate::system::machine::Machine;
use crate::system::pmu;

/// The machine and the command of a recording.
pub(super) struct Opening {
    pub(super) machine: Machine,
    pub(super) pmu: Pmu,
    /// CPUs that are online, by number.
    pub(super) online: Vec<u32>,
    /// The command of the command line, if there is one.
    pub(super) command: Option<Command>,
}

impl Opening {
    /// Looks up the PMU, the online CPUs and the command.
    ///
    /// # Errors
    /// A CPU of -C is not online, or the command can't be run.
    pub(super) fn new(options: &CommonOptions) -> Result<Self> {
        let machine = Machine::here();
        let online = machine.online_cpus()?;
        if let RecordTarget::Cpus(cpus) = &options.target {
            cpus.require_online(&online)?;
        }
        let numbers = online.into_iter().map(u32::try_from);
        let command = match &options.command[..] {
            [] => None,
            words => Some(Command::find(words)?.with_streams(options.streams())),
        };
        Ok(Self {
            pmu: pmu::of_machine(&machine),
            machine,
            online: numbers.collect::<Result<_, _>>()?,
            command,
        })
    }
}
