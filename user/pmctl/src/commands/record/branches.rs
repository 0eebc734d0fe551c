// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the CPU can record the branches that the command line asks for.

use perfmon::Pmu;
use perfmon::pmu::BranchRecords;

use crate::system::exit::Usage;

/// Branches that the command line asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedBranches {
    /// Only calls are recorded, as a call stack (--call-graph=lbr).
    pub(super) is_call_stack: bool,
    /// The kernel's branches are recorded, too.
    pub(super) has_kernel: bool,
}

impl WantedBranches {
    /// Refuses branches that the CPU can't record. `are_recorded` says whether the driver has branch records at all.
    pub(super) fn check_support(self, pmu: &Pmu, are_recorded: bool) -> Result<(), Usage> {
        let records = pmu
            .capabilities()
            .ok()
            .and_then(|capabilities| capabilities.last_branch);
        match self.refusal_reason(records, are_recorded) {
            Some(reason) => Err(Usage(reason.to_owned())),
            None => Ok(()),
        }
    }

    /// Returns the reason for a refusal, and what to do. `records` is the kind of branch records
    /// that CPUID describes. It is `None` also for the older branch records of Intel's processors,
    /// the stacks, which CPUID does not describe.
    const fn refusal_reason(
        self,
        records: Option<BranchRecords>,
        are_recorded: bool,
    ) -> Option<&'static str> {
        match (are_recorded, records) {
            (false, _) if self.is_call_stack => Some(
                "--call-graph=lbr: this CPU does not record branches (LBR). --call-graph=dwarf copies the stack, -g \
                 follows frame pointers.",
            ),
            (false, _) => Some("-b: this CPU does not record branches (LBR). Leave -b out."),
            (true, Some(BranchRecords::Amd { .. })) if self.is_call_stack => Some(
                "--call-graph=lbr: CPUs of AMD record branches, but no call stack. --call-graph=dwarf copies the \
                 stack, -g follows frame pointers.",
            ),
            (true, Some(records)) if self.has_kernel && !records.has_kernel() => Some(
                "-b: this CPU can't keep the kernel's branches until they are read. Give all events `:u`, or take -j \
                 any,u.",
            ),
            (true, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_records_lacks_something() {
        let refusal = |records, are_recorded, is_call_stack, has_kernel| {
            WantedBranches {
                is_call_stack,
                has_kernel,
            }
            .refusal_reason(records, are_recorded)
        };
        let amd = |freezes| BranchRecords::Amd {
            depth: 16,
            address_bits: 48,
            freezes,
        };
        let starts = |text: Option<&str>, start| text.is_some_and(|text| text.starts_with(start));
        assert!(starts(
            refusal(None, false, false, false),
            "-b: this CPU does not"
        ));
        assert!(starts(
            refusal(None, false, true, false),
            "--call-graph=lbr: this CPU"
        ));
        assert_eq!(refusal(None, true, true, false), None);
        assert_eq!(
            refusal(
                Some(BranchRecords::Architectural { depth: 32 }),
                true,
                true,
                false
            ),
            None
        );
        assert!(starts(
            refusal(Some(amd(true)), true, true, false),
            "--call-graph=lbr: CPUs of AMD"
        ));
        assert_eq!(refusal(Some(amd(true)), true, false, true), None);
        assert_eq!(refusal(Some(amd(false)), true, false, false), None);
        assert!(starts(
            refusal(Some(amd(false)), true, false, true),
            "-b: this CPU can't keep"
        ));
    }
}
