// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PMU of a processor as CPUID describes it, read as the module reads it.

use std::fs;

use perfmon_core::logic::cpuid::Leaf;
use perfmon_core::logic::evtsel::EventSelect;
use perfmon_events::{Cpu, Kind, Model};
use raw_cpuid::{CpuIdReader, CpuIdReaderNative, CpuIdResult};

use crate::Device;
use crate::big_core::{on_big_core, on_cpus};
use crate::cpu_list;

pub use crate::big_core::BigCoreCpuid;
pub use perfmon_core::logic::branch_records::BranchRecords;
pub use perfmon_core::logic::cpuid::{
    Architecture, Capabilities, Microarchitecture, NoPmu, Processor,
};

/// The vendor whose events and registers a CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Intel, and vendors that follow its architectural performance monitoring.
    Intel,
    /// AMD and Hygon.
    Amd,
}

/// A PMU, as CPUID describes it.
///
/// ```
/// use perfmon::Pmu;
///
/// let pmu = Pmu::of_this_cpu();
/// println!("{} general counters, {} fixed ones", pmu.general_counters(), pmu.fixed_counters().count());
/// ```
#[derive(Clone, Debug)]
pub struct Pmu {
    vendor: Vendor,
    processor: Processor,
    capabilities: Result<Capabilities, NoPmu>,
    /// The processor's vendor, family, model and kind of core, by which the event tables find it.
    cpu: Cpu,
    is_emulated: bool,
    /// The kinds of cores of a hybrid processor.
    core_kinds: Vec<CoreKind>,
}

/// A kind of core of a hybrid processor, by the name of Linux's PMU. Its events are written as `cpu_atom/cycles/`.
#[derive(Clone, Debug)]
pub struct CoreKind {
    name: &'static str,
    perf_type: u32,
    cpus: String,
    pmu: Pmu,
}

impl CoreKind {
    /// The names of all kinds: big cores, small cores, and cores of the low-power island.
    pub const NAMES: [&'static str; 3] = ["cpu_core", "cpu_atom", "cpu_lowpower"];

    /// Creates a kind of core. `perf_type` and `cpus` are the files `type` and `cpus` of Linux's PMU `name` in sysfs,
    /// and `pmu` is the PMU of such a core.
    #[must_use]
    pub fn new(name: &'static str, perf_type: u32, cpus: String, pmu: Pmu) -> Self {
        Self {
            name,
            perf_type,
            cpus,
            pmu,
        }
    }

    /// Returns the name of Linux's PMU.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the `type` of raw events of this kind in `struct perf_event_attr`.
    #[must_use]
    pub fn perf_type(&self) -> u32 {
        self.perf_type
    }

    /// Returns the CPUs of this kind, as a list such as `0-7,16`.
    #[must_use]
    pub fn cpus(&self) -> &str {
        &self.cpus
    }

    /// Returns the PMU of these cores.
    #[must_use]
    pub fn pmu(&self) -> &Pmu {
        &self.pmu
    }

    /// Returns the kind with its PMU changed by `f`.
    fn map_pmu(self, f: impl FnOnce(Pmu) -> Pmu) -> Self {
        let pmu = f(self.pmu);
        Self { pmu, ..self }
    }
}

impl Pmu {
    /// Reads CPUID of the current CPU. On a hybrid processor, reads CPUID of a big core, where raw events are counted, and of
    /// the other kinds of cores.
    #[must_use]
    pub fn of_this_cpu() -> Self {
        let pmu = on_big_core(|| Self::from_cpuid(&CpuIdReaderNative));
        pmu.with_core_kinds(core_kinds_of_this_machine())
    }

    /// Reads the leaves that describe the PMU from `cpuid`, which may hold the CPUID of another
    /// machine.
    #[must_use]
    pub fn from_cpuid(cpuid: &impl CpuIdReader) -> Self {
        let processor = Processor::read(|leaf, subleaf| {
            let registers = cpuid.cpuid2(leaf, subleaf);
            Leaf {
                eax: registers.eax,
                ebx: registers.ebx,
                ecx: registers.ecx,
                edx: registers.edx,
            }
        });
        // A program can't read IA32_PERF_CAPABILITIES, so 0 stands for its value. The capabilities
        // then lack everything that this register reports: full-width writes, the formats of LBR
        // and PEBS records, and the latency of retirement.
        let capabilities = processor.capabilities(0);
        let vendor = match &processor.vendor_id {
            b"AuthenticAMD" | b"HygonGenuine" => Vendor::Amd,
            _ => Vendor::Intel,
        };
        let cpu = Cpu {
            vendor: processor.vendor_id,
            family: processor.family(),
            model: processor.model(),
            stepping: cpuid.cpuid2(1, 0).eax & 0xf,
            kind: core_kind(cpuid),
        };
        let is_emulated = processor.is_virtual() && is_tcg(cpuid);
        Self {
            vendor,
            processor,
            capabilities,
            cpu,
            is_emulated,
            core_kinds: Vec::new(),
        }
    }

    /// Adds the kinds of cores of a hybrid processor, whose events [`spec`](crate::spec) finds by `cpu_atom/.../`.
    #[must_use]
    pub fn with_core_kinds(mut self, core_kinds: Vec<CoreKind>) -> Self {
        self.core_kinds = core_kinds;
        self
    }

    /// Returns the kinds of cores of a hybrid processor; none for another processor.
    #[must_use]
    pub fn core_kinds(&self) -> &[CoreKind] {
        &self.core_kinds
    }

    /// Creates a PMU for looking up the events of a model: it has all architectural events, and the counters and the
    /// bits of unit masks that the model's events use.
    #[must_use]
    pub fn of_model(model: &Model) -> Self {
        Self::from_cpuid(&ModelCpuid {
            cpu: model.example_cpu(),
            general: model.general_counters(),
            fixed: model.fixed_counters(),
            has_unit_mask_2: model.has_unit_mask_2(),
        })
    }

    /// Limits the number of general counters to the counters that the driver uses on all CPUs. Each
    /// kind of core keeps its own number, unless the driver leaves a counter to Linux's perf: then
    /// the driver uses only the counters with lower numbers, on every kind.
    #[must_use]
    pub fn with_counters_of(self, device: &Device) -> Self {
        let number = u8::try_from(device.properties().general.number).unwrap_or(u8::MAX);
        let mut this = self.with_general_counters(number);
        if device.info().is_ok_and(|info| info.has_place_holders) {
            let kinds = this.core_kinds.into_iter();
            this.core_kinds = kinds
                .map(|kind| kind.map_pmu(|pmu| pmu.with_general_counters(number)))
                .collect();
        }
        this
    }

    /// Limits the number of general counters.
    fn with_general_counters(mut self, number: u8) -> Self {
        if let Ok(capabilities) = &mut self.capabilities {
            capabilities.general_count = capabilities.general_count.min(number);
        }
        self
    }

    /// Returns the model whose events the CPU has, if a table has it. On a hybrid processor, this
    /// is the model of the core on which CPUID was read.
    #[must_use]
    pub fn model(&self) -> Option<&'static Model> {
        perfmon_events::model_of(&self.cpu)
    }

    /// Returns whether QEMU (TCG) emulates the CPU; its PMU counts instructions, clocks, branches, loads and
    /// stores only.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        self.is_emulated
    }

    /// Returns the vendor, which defines the events.
    #[must_use]
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// Returns the microarchitecture, which determines properties that CPUID does not report. On a
    /// hybrid processor, this is the microarchitecture of the core on which CPUID was read.
    #[must_use]
    pub fn microarchitecture(&self) -> Microarchitecture {
        self.processor.microarchitecture()
    }

    /// Returns the processor's CPUID leaves: family, model, features.
    #[must_use]
    pub fn processor(&self) -> &Processor {
        &self.processor
    }

    /// Returns the PMU's capabilities, as the module derives them from CPUID.
    ///
    /// # Errors
    /// The reason why there is no PMU.
    pub fn capabilities(&self) -> Result<Capabilities, NoPmu> {
        self.capabilities
    }

    /// Returns the number of bits of an event number.
    #[must_use]
    pub fn event_bits(&self) -> u32 {
        if self.select_mask() & EventSelect::EVENT_HIGH == 0 {
            8
        } else {
            12
        }
    }

    /// Returns the number of bits of a unit mask.
    #[must_use]
    pub fn unit_mask_bits(&self) -> u32 {
        if self.select_mask() & EventSelect::UNIT_MASK_2 == 0 {
            8
        } else {
            16
        }
    }

    /// Returns the mask of the bits that an event select may have.
    fn select_mask(&self) -> u64 {
        self.capabilities
            .map_or(EventSelect::COMMON_BITS, |capabilities| {
                capabilities.select_bits
            })
    }

    /// Returns the width of an event select in bits: the number of its highest bit + 1.
    #[must_use]
    pub fn select_bits(&self) -> u32 {
        u64::BITS - self.select_mask().leading_zeros()
    }

    /// Returns the number of general counters.
    #[must_use]
    pub fn general_counters(&self) -> u8 {
        self.capabilities
            .map_or(0, |capabilities| capabilities.general_count)
    }

    /// Returns whether the CPU has fixed counter `number`.
    #[must_use]
    pub fn has_fixed(&self, number: u8) -> bool {
        let bitmap = self.fixed_bitmap();
        bitmap.checked_shr(number.into()).unwrap_or(0) & 1 != 0
    }

    /// Returns the fixed counters: bit n for counter n.
    #[must_use]
    pub fn fixed_bitmap(&self) -> u16 {
        self.capabilities
            .map_or(0, |capabilities| capabilities.fixed)
    }

    /// Returns the numbers of the fixed counters.
    pub fn fixed_counters(&self) -> impl Iterator<Item = u8> + '_ {
        (0..16).filter(|number| self.has_fixed(*number))
    }
}

/// The kinds of cores in leaf 1AH, EAX[31:24]: a big core, and a small core.
const CORE: u32 = 0x40;
const ATOM: u32 = 0x20;

/// Native model ID in leaf 1AH, EAX[23:0]: Crestmont, the core of the low-power island.
const CRESTMONT: u32 = 2;

/// Reads the kind of core that the current CPU of a hybrid processor is.
fn core_kind(cpuid: &impl CpuIdReader) -> Kind {
    const HYBRID: u32 = 1 << 15;
    if cpuid.cpuid2(0, 0).eax < 0x1a || cpuid.cpuid2(7, 0).edx & HYBRID == 0 {
        return Kind::Only;
    }
    let leaf = cpuid.cpuid2(0x1a, 0).eax;
    match leaf >> 24 {
        CORE => Kind::Core,
        ATOM if leaf & 0xff_ffff == CRESTMONT => Kind::LowPower,
        ATOM => Kind::Atom,
        _ => Kind::Only,
    }
}

/// Returns whether the hypervisor is TCG, QEMU's emulation.
fn is_tcg(cpuid: &impl CpuIdReader) -> bool {
    let leaf = cpuid.cpuid2(0x4000_0000, 0);
    [leaf.ebx, leaf.ecx, leaf.edx]
        .map(u32::to_le_bytes)
        .concat()
        == b"TCGTCGTCGTCG"
}

/// CPUID of a processor of a model: the leaves that [`Pmu::from_cpuid`] reads.
#[derive(Clone)]
struct ModelCpuid {
    cpu: Cpu,
    /// The number of general counters.
    general: u8,
    /// The number of fixed counters.
    fixed: u8,
    /// Unit masks have 16 bits.
    has_unit_mask_2: bool,
}

impl CpuIdReader for ModelCpuid {
    fn cpuid2(&self, leaf: u32, _: u32) -> CpuIdResult {
        let Self { cpu, .. } = self;
        let [ebx, edx, ecx] = [0, 4, 8]
            .map(|at| u32::from_le_bytes(std::array::from_fn(|byte| cpu.vendor[at + byte])));
        let version = || {
            let family = cpu.family.min(0xf) << 8 | cpu.family.saturating_sub(0xf) << 20;
            family | (cpu.model & 0xf) << 4 | cpu.model >> 4 << 16 | cpu.stepping
        };
        let is_intel = cpu.vendor == *b"GenuineIntel";
        let [general, fixed] = [self.general, self.fixed].map(u32::from);
        let [eax, ebx, ecx, edx] = match leaf {
            0 => [0x23, ebx, ecx, edx],
            1 => [version(), 0, 0, 0],
            7 => [0, 0, 0, u32::from(cpu.kind != Kind::Only) << 15],
            // Version 4, counters of 48 bits, 8 architectural events: the last of them is slots,
            // which fixed counter 3 counts.
            0xa if is_intel => [
                0x0830_0004 | general << 8,
                u32::from(fixed < 4) << 7,
                0,
                0x600 | fixed,
            ],
            0x1a => match cpu.kind {
                Kind::Only => [0; 4],
                Kind::Core => [CORE << 24, 0, 0, 0],
                Kind::Atom => [ATOM << 24, 0, 0, 0],
                Kind::LowPower => [ATOM << 24 | CRESTMONT, 0, 0, 0],
            },
            0x23 => [0, u32::from(self.has_unit_mask_2), 0, 0],
            0x8000_0000 if !is_intel => [0x8000_0022, 0, 0, 0],
            // PerfCtrExtCore.
            0x8000_0001 if !is_intel => [0, 0, u32::from(general == 6) << 23, 0],
            _ => [0; 4],
        };
        CpuIdResult { eax, ebx, ecx, edx }
    }
}

/// Returns the kinds of cores of this machine; none if its processor is not hybrid. A kind is left out if the calling
/// program may not run on its CPUs.
fn core_kinds_of_this_machine() -> Vec<CoreKind> {
    let kind = |name| {
        let text =
            |file| fs::read_to_string(format!("/sys/bus/event_source/devices/{name}/{file}"));
        let perf_type = text("type").ok()?.trim().parse().ok()?;
        let cpus = text("cpus").ok()?;
        let read = |runs_on_kind: bool| runs_on_kind.then(|| Pmu::from_cpuid(&CpuIdReaderNative));
        let pmu = on_cpus(&cpu_list::to_set(&cpus)?, read)?;
        Some(CoreKind::new(name, perf_type, cpus.trim().to_owned(), pmu))
    };
    CoreKind::NAMES.into_iter().filter_map(kind).collect()
}

#[cfg(test)]
pub(crate) mod testing {
    //! PMUs for tests.

    use super::Pmu;
    use raw_cpuid::{CpuIdReader, CpuIdResult};

    /// Leaves by their numbers: EAX to EDX.
    #[derive(Clone)]
    struct Leaves(&'static [(u32, [u32; 4])]);

    impl CpuIdReader for Leaves {
        fn cpuid2(&self, leaf: u32, _: u32) -> CpuIdResult {
            let leaf_row = self.0.iter().find(|(number, _)| *number == leaf);
            let [eax, ebx, ecx, edx] = leaf_row.map_or([0; 4], |(_, registers)| *registers);
            CpuIdResult { eax, ebx, ecx, edx }
        }
    }

    const INTEL: [u32; 4] = [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69];

    /// The PMU of a CPU that QEMU emulates: Skylake, or Zen 4.
    pub(crate) fn emulated(vendor: super::Vendor) -> Pmu {
        const TCG: (u32, [u32; 4]) = (
            0x4000_0000,
            [0x4000_0001, 0x5447_4354, 0x4354_4743, 0x4743_5447],
        );
        match vendor {
            super::Vendor::Intel => Pmu::from_cpuid(&Leaves(&[
                (0, INTEL),
                (1, [0x0005_06e3, 0, 1 << 31, 0]),
                (0xa, [0x0730_0804, 0b101_1000, 0, 0x603]),
                TCG,
            ])),
            super::Vendor::Amd => Pmu::from_cpuid(&Leaves(&[
                (0, [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65]),
                (1, [0x00a6_0f12, 0, 1 << 31, 0]),
                (0x8000_0000, [0x8000_0028, 0, 0, 0]),
                (0x8000_0001, [0, 0, 1 << 23, 0]),
                TCG,
            ])),
        }
    }

    /// An Intel PMU of version 4 and unknown model: 8 general and 3 fixed counters, all architectural events except
    /// cache misses.
    pub(crate) fn intel() -> Pmu {
        Pmu::from_cpuid(&Leaves(&[
            (0, INTEL),
            (0xa, [0x0730_0804, 1 << 4, 0, 0x603]),
        ]))
    }

    /// A Skylake with 8 general and 3 fixed counters and all architectural events.
    pub(crate) fn skylake() -> Pmu {
        Pmu::from_cpuid(&Leaves(&[
            (0, INTEL),
            (1, [0x0005_06e3, 0, 0, 0]),
            (0xa, [0x0730_0804, 0, 0, 0x603]),
        ]))
    }

    /// A Skylake with this number of general counters, and no fixed counters.
    pub(crate) fn skylake_with(general: u8) -> Pmu {
        let model = perfmon_events::model("skylake").expect("it is there");
        Pmu::from_cpuid(&super::ModelCpuid {
            cpu: model.example_cpu(),
            general,
            fixed: 0,
            has_unit_mask_2: false,
        })
    }

    /// An Alder Lake with its two kinds of cores, whose types are 4 and 10.
    pub(crate) fn hybrid() -> Pmu {
        let pmu = |name| Pmu::of_model(perfmon_events::model(name).expect("it is there"));
        let [core, atom] = [pmu("alderlake-core"), pmu("alderlake-atom")];
        core.clone().with_core_kinds(vec![
            super::CoreKind::new("cpu_core", 4, "0-15".to_owned(), core),
            super::CoreKind::new("cpu_atom", 10, "16-19".to_owned(), atom),
        ])
    }

    /// AMD's Zen 4, with `PerfMonV2` and 6 counters.
    pub(crate) fn amd() -> Pmu {
        Pmu::from_cpuid(&Leaves(&[
            (0, [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65]),
            (1, [0x00a6_0f12, 0, 0, 0]),
            (0x8000_0000, [0x8000_0028, 0, 0, 0]),
            (0x8000_0001, [0, 0, 1 << 23, 0]),
            (0x8000_0022, [1, 6, 0, 0]),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_counters_are_listed_by_number() {
        let pmu = testing::intel();
        assert_eq!(pmu.fixed_counters().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(!pmu.has_fixed(255));
        assert_eq!(testing::amd().fixed_counters().count(), 0);
    }

    #[test]
    fn a_select_has_the_bits_of_its_vendor() {
        let bits_of = |pmu: Pmu| (pmu.event_bits(), pmu.select_bits(), pmu.general_counters());
        assert_eq!(bits_of(testing::intel()), (8, 32, 8));
        assert_eq!(bits_of(testing::amd()), (12, 36, 6));
        assert_eq!(testing::amd().vendor(), Vendor::Amd);
        assert_eq!(testing::intel().unit_mask_bits(), 8);
    }

    #[test]
    fn a_model_has_the_unit_masks_of_its_events() {
        for model in perfmon_events::models() {
            let bits = Pmu::of_model(model).unit_mask_bits();
            let is_wide = model.events().any(|event| event.unit_mask > 0xff);
            assert_eq!(bits, if is_wide { 16 } else { 8 }, "{}", model.name());
        }
    }

    #[test]
    fn a_cpu_has_a_model() {
        let name = |pmu: Pmu| pmu.model().map(Model::name);
        assert_eq!(name(testing::skylake()), Some("skylake"));
        assert_eq!(name(testing::amd()), Some("amdzen4"));
        assert_eq!(name(testing::intel()), None);
        assert!(!testing::skylake().is_emulated());
        assert!(testing::emulated(Vendor::Intel).is_emulated());
        assert!(testing::emulated(Vendor::Amd).is_emulated());
    }

    #[test]
    fn a_model_has_a_pmu() {
        for model in perfmon_events::models() {
            let pmu = Pmu::of_model(model);
            assert_eq!(pmu.model().map(Model::name), Some(model.name()));
            assert_eq!(pmu.vendor() == Vendor::Intel, model.is_intel());
            assert_eq!(
                pmu.general_counters(),
                model.general_counters(),
                "{}",
                model.name()
            );
            assert!(pmu.general_counters() >= 2);
        }
    }
}
