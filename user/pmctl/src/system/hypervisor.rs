// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognizes the hypervisor, and gives advice on how to give a virtual machine a PMU.

use raw_cpuid::CpuIdReader;

/// A hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hypervisor {
    /// The signature in CPUID leaf 40000000H.
    signature: &'static [u8; 12],
    pub(crate) name: &'static str,
    /// Advice on how to give a virtual machine a PMU.
    pub(crate) fix: &'static str,
}

const UNKNOWN: Hypervisor = Hypervisor {
    signature: b"????????????",
    name: "an unknown hypervisor",
    fix: "Give the virtual machine a PMU in the hypervisor's settings, or use a physical machine.",
};

const HYPERVISORS: &[Hypervisor] = &[
    Hypervisor {
        signature: b"KVMKVMKVM\0\0\0",
        name: "KVM",
        fix: "Start the virtual machine with `-cpu host,pmu=on` (libvirt: <pmu state='on'/>); the host needs \
              the module parameter kvm.enable_pmu=1. Most cloud machines give a PMU to bare-metal types only.",
    },
    Hypervisor {
        signature: b"TCGTCGTCGTCG",
        name: "QEMU's emulation (TCG)",
        fix: "QEMU's own emulation has no PMU.",
    },
    Hypervisor {
        signature: b"VMwareVMware",
        name: "VMware",
        fix: "Set vpmc.enable = \"TRUE\" (\"Enable virtualized CPU performance counters\").",
    },
    Hypervisor {
        signature: b"Microsoft Hv",
        name: "Hyper-V",
        fix: "On the host, with the virtual machine off: Set-VMProcessor NAME -Perfmon @(\"pmu\").",
    },
    Hypervisor {
        signature: b"XenVMMXenVMM",
        name: "Xen",
        fix: "Start Xen with the option vpmu=on.",
    },
    Hypervisor {
        signature: b"VBoxVBoxVBox",
        name: "VirtualBox",
        fix: "VirtualBox has no PMU for virtual machines: use another hypervisor, or a physical machine.",
    },
];

impl Hypervisor {
    /// Returns the hypervisor that CPUID reports; `None` on a physical machine.
    pub(crate) fn find(cpuid: &impl CpuIdReader) -> Option<Self> {
        /// The bit in ECX that reports a hypervisor.
        const HYPERVISOR_BIT: u32 = 1 << 31;
        if cpuid.cpuid2(1, 0).ecx & HYPERVISOR_BIT == 0 {
            return None;
        }
        let leaf = cpuid.cpuid2(0x4000_0000, 0);
        let signature = [leaf.ebx, leaf.ecx, leaf.edx]
            .map(u32::to_le_bytes)
            .concat();
        Some(
            HYPERVISORS
                .iter()
                .find(|known| known.signature[..] == signature[..])
                .map_or(UNKNOWN, |h| *h),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::machine::Leaves;

    #[test]
    fn kvm_is_known_by_its_signature() {
        let kvm = [0x4000_0001, 0x4b4d_564b, 0x564b_4d56, 0x0000_004d];
        let leaves = [(1, [0, 0, 1 << 31, 0]), (0x4000_0000, kvm)];
        assert_eq!(
            Hypervisor::find(&Leaves::recorded(&leaves)).map(|h| h.name),
            Some("KVM")
        );
    }

    #[test]
    fn another_signature_is_an_unknown_hypervisor() {
        let leaves = [(1, [0, 0, 1 << 31, 0])];
        assert_eq!(Hypervisor::find(&Leaves::recorded(&leaves)), Some(UNKNOWN));
    }

    #[test]
    fn a_physical_machine_has_none() {
        assert_eq!(
            Hypervisor::find(&Leaves::recorded(&[(1, [0, 0, 0, 0])])),
            None
        );
    }
}
