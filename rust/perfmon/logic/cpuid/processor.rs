// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A processor's CPUID leaves.

/// The registers that one CPUID leaf returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    /// EAX
    pub eax: u32,
    /// EBX
    pub ebx: u32,
    /// ECX
    pub ecx: u32,
    /// EDX
    pub edx: u32,
}

/// The leaves that identify a processor and describe its PMU. Missing leaves are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Leaf 0: the vendor identification string.
    pub vendor_id: [u8; 12],
    /// Leaf 1: family, model, features.
    pub(super) version: Leaf,
    /// Leaf 6: temperatures and clocks.
    pub(super) power: Leaf,
    /// Leaf 7: more features.
    pub(super) features: Leaf,
    /// Leaf 0x0a: Intel's architectural performance monitoring.
    pub(super) arch_perfmon: Leaf,
    /// Leaf 0x1a: the kind of this very core (EAX).
    pub(super) core_kind: Leaf,
    /// Leaf 0x1c: Intel's architectural branch records.
    pub(super) branch_records: Leaf,
    /// Leaf 0x8000_0001: AMD's features.
    pub(super) amd_features: Leaf,
    /// Leaf 0x8000_0007: AMD's power management.
    pub(super) amd_power: Leaf,
    /// Leaf 0x8000_0008: the widths of addresses (EAX).
    pub(super) addresses: Leaf,
    /// Leaf 0x23, the extension of leaf 0x0a; its EAX has a bit for each subleaf.
    pub(super) perfmon_ext: Leaf,
    /// Leaf 0x23, subleaf 1: bitmaps of the general (EAX) and of the fixed-function counters (EBX).
    pub(super) perfmon_counters: Leaf,
    /// Leaf 0x23, subleaf 2: bitmaps of the general (EAX) and of the fixed-function counters (EBX) that can be reloaded
    /// when another counter overflows.
    pub(super) perfmon_reload: Leaf,
    /// Leaf 0x23, subleaf 5: bitmaps of the general (EAX) and of the fixed-function counters (ECX) that write records.
    pub(super) perfmon_records: Leaf,
    /// Leaf 0x23, subleaf 3: bitmap of the available architectural events (EAX).
    pub(super) perfmon_events: Leaf,
    /// Leaf 0x8000_0022: AMD's extended performance monitoring.
    pub(super) amd_perfmon: Leaf,
}

impl Processor {
    /// Reads the leaves. `cpuid` takes the leaf and the subleaf, EAX and ECX of the instruction.
    pub fn read(cpuid: impl Fn(u32, u32) -> Leaf) -> Self {
        const EXTENDED: u32 = 0x8000_0000;

        let leaf_0 = cpuid(0, 0);
        let extended_leaf_0 = cpuid(EXTENDED, 0);
        let leaf = |number| {
            let last_number = if number < EXTENDED {
                leaf_0.eax
            } else {
                extended_leaf_0.eax
            };
            if number <= last_number {
                cpuid(number, 0)
            } else {
                Leaf::default()
            }
        };
        let perfmon_ext = leaf(0x23);
        let perfmon_subleaf = |number: u32| {
            if perfmon_ext.eax >> number & 1 != 0 {
                cpuid(0x23, number)
            } else {
                Leaf::default()
            }
        };
        let mut vendor_id = [0; 12];
        for (to, from) in vendor_id
            .chunks_exact_mut(4)
            .zip([leaf_0.ebx, leaf_0.edx, leaf_0.ecx])
        {
            to.copy_from_slice(&from.to_le_bytes());
        }
        Self {
            vendor_id,
            version: leaf(1),
            power: leaf(6),
            features: leaf(7),
            arch_perfmon: leaf(0x0a),
            core_kind: leaf(0x1a),
            branch_records: leaf(0x1c),
            perfmon_ext,
            perfmon_counters: perfmon_subleaf(1),
            perfmon_reload: perfmon_subleaf(2),
            perfmon_records: perfmon_subleaf(5),
            perfmon_events: perfmon_subleaf(3),
            amd_features: leaf(0x8000_0001),
            amd_power: leaf(0x8000_0007),
            addresses: leaf(0x8000_0008),
            amd_perfmon: leaf(0x8000_0022),
        }
    }

    /// Returns the family, as in the manuals and in /proc/cpuinfo.
    #[must_use]
    pub const fn family(&self) -> u32 {
        let base = self.version.eax >> 8 & 0xf;
        if base == 0xf {
            base + (self.version.eax >> 20 & 0xff)
        } else {
            base
        }
    }

    /// Returns the model, as in the manuals and in /proc/cpuinfo.
    #[must_use]
    pub const fn model(&self) -> u32 {
        let base = self.version.eax >> 4 & 0xf;
        if self.family() >= 6 {
            base | self.version.eax >> 12 & 0xf0
        } else {
            base
        }
    }

    /// Returns whether the cores of the machine are of several kinds.
    #[must_use]
    pub const fn is_hybrid(&self) -> bool {
        self.features.edx >> 15 & 1 != 0
    }

    /// Returns whether the CPU is virtual: a hypervisor sets this bit of leaf 1.
    #[must_use]
    pub const fn is_virtual(&self) -> bool {
        self.version.ecx >> 31 & 1 != 0
    }

    /// Returns whether `IA32_PERF_CAPABILITIES` exists.
    #[must_use]
    pub const fn has_perf_capabilities(&self) -> bool {
        self.version.ecx >> 15 & 1 != 0
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_processor))]
mod tests {
    use super::super::dumps;
    use super::*;

    #[test]
    fn dumps_have_the_expected_family_and_model() {
        assert_eq!(
            dumps::first_mismatch(|dump, cpu| (cpu.family(), cpu.model()) == dump.model
                && cpu.is_virtual() == dump.is_virtual),
            None
        );
    }

    #[test]
    fn the_vendor_id_is_in_reading_order() {
        let cpu = Processor::read(|_, _| Leaf {
            eax: 0,
            ebx: 0x756e_6547,
            ecx: 0x6c65_746e,
            edx: 0x4965_6e69,
        });
        assert_eq!(&cpu.vendor_id, b"GenuineIntel");
    }
}
