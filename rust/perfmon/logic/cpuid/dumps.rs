// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! CPUID dumps of real processors: the leaves that [`Processor::read`] reads.
//!
//! The dumps are from the collection at instlatx64.atw.hu; dumps of virtual machines are from a thread on the KVM
//! mailing list (27 May 2021, "Windows fails to boot after rebase to QEMU master").

use super::{Architecture, Leaf, Microarchitecture, NoPmu, Processor};
use Architecture::{AmdCore, AmdLegacy, AmdV2, Intel};

/// The dump of a processor, and the properties that must be detected in it.
pub(super) struct Dump {
    pub(super) name: &'static str,
    /// The leaves and their subleaves: EAX, EBX, ECX, EDX. Leaves that are not listed are zero.
    leaves: &'static [((u32, u32), [u32; 4])],
    /// Family and model.
    pub(super) model: (u32, u32),
    pub(super) core: Microarchitecture,
    pub(super) is_virtual: bool,
    /// Architecture, version, number and width of general counters, bitmap of fixed-function counters,
    /// architectural events.
    pub(super) expected: Result<(Architecture, u8, u8, u8, u16, u32), NoPmu>,
}

impl Dump {
    fn leaf(&self, number: u32, subleaf: u32) -> Leaf {
        let mut leaves = self.leaves.iter();
        let listed_leaf = leaves.find(|(leaf, _)| *leaf == (number, subleaf));
        let [eax, ebx, ecx, edx] = listed_leaf.map_or([0; 4], |(_, registers)| *registers);
        Leaf { eax, ebx, ecx, edx }
    }
}

/// Returns the name of the first processor for which `is_right` is false.
pub(super) fn first_mismatch(is_right: impl Fn(&Dump, Processor) -> bool) -> Option<&'static str> {
    let read_dump = |dump: &Dump| Processor::read(|leaf, subleaf| dump.leaf(leaf, subleaf));
    let is_wrong = |dump: &&Dump| !is_right(dump, read_dump(dump));
    DUMPS.iter().find(is_wrong).map(|dump| dump.name)
}

/// Makes a [`Dump`]. The numbers after `last` are the highest basic and the highest extended leaf. A slash precedes a
/// subleaf other than 0.
macro_rules! dump {
    (@vendor Intel) => { [0x756e_6547, 0x6c65_746e, 0x4965_6e69] };
    (@vendor Amd) => { [0x6874_7541, 0x444d_4163, 0x6974_6e65] };
    (@vendor Hygon) => { [0x6f67_7948, 0x656e_6975, 0x6e65_476e] };
    ($name:literal, $vendor:ident, last $last:literal and $extended:literal,
        [$($leaf:literal $(/ $subleaf:literal)?: $eax:literal, $ebx:literal, $ecx:literal, $edx:literal;)*]
        $model:expr, $core:ident, $virtual:literal, $expected:expr) => {
        Dump {
            name: $name,
            leaves: &[
                ((0, 0), {
                    let [ebx, ecx, edx] = dump!(@vendor $vendor);
                    [$last, ebx, ecx, edx]
                }),
                ((0x8000_0000, 0), [$extended, 0, 0, 0]),
                $((($leaf, 0 $(+ $subleaf)?), [$eax, $ebx, $ecx, $edx]),)*
            ],
            model: $model,
            core: Microarchitecture::$core,
            is_virtual: $virtual,
            expected: $expected,
        }
    };
}

/// All dumps, sorted by vendor, and then by the age of the processor.
#[rustfmt::skip]
const DUMPS: &[Dump] = &[
    // The first processors do not report all of their three fixed-function counters.
    dump!("Conroe", Intel, last 0x0a and 0x8000_0008, [
        0x01: 0x0000_06f2, 0x0002_0800, 0x0000_e3bd, 0xbfeb_fbff;
        0x0a: 0x0728_0202, 0, 0, 0;
        0x8000_0001: 0, 0, 1, 0x2010_0000;
    ] (6, 0x0f), Core2, false, Ok((Intel, 2, 2, 40, 0b111, 0x7f))),
    dump!("Penryn", Intel, last 0x0d and 0x8000_0008, [
        0x01: 0x0001_067a, 0x0002_0800, 0x0400_e39d, 0xbfeb_fbff;
        0x0a: 0x0728_0202, 0, 0, 0x503;
        0x8000_0001: 0, 0, 1, 0x2010_0000;
    ] (6, 0x17), Core2, false, Ok((Intel, 2, 2, 40, 0b111, 0x7f))),
    dump!("Bonnell (Diamondville)", Intel, last 0x0a and 0x8000_0008, [
        0x01: 0x0001_06c2, 0x0002_0800, 0x0040_e31d, 0xbfe9_fbff;
        0x0a: 0x0728_0203, 0, 0, 0x2501;
        0x8000_0001: 0, 0, 1, 0x2010_0000;
    ] (6, 0x1c), Bonnell, false, Ok((Intel, 3, 2, 40, 0b111, 0x7f))),
    dump!("Nehalem", Intel, last 0x0b and 0x8000_0008, [
        0x01: 0x0001_06a1, 0x0010_0800, 0x00bc_e3bd, 0xb7eb_fbff;
        0x0a: 0x0730_0403, 0, 0, 0x603;
        0x8000_0001: 0, 0, 1, 0x2810_0000;
    ] (6, 0x1a), Nehalem, false, Ok((Intel, 3, 4, 48, 0b111, 0x7f))),
    dump!("Sandy Bridge", Intel, last 0x0d and 0x8000_0008, [
        0x01: 0x0002_06a2, 0x0010_0800, 0x1fba_ebff, 0xbfeb_fbff;
        0x0a: 0x0730_0403, 0, 0, 0x603;
        0x8000_0001: 0, 0, 1, 0x2810_0800;
    ] (6, 0x2a), SandyBridge, false, Ok((Intel, 3, 4, 48, 0b111, 0x7f))),
    // Without Hyper-Threading, a core's thread has the counters of both threads.
    dump!("Ivy Bridge without Hyper-Threading", Intel, last 0x0d and 0x8000_0008, [
        0x01: 0x0003_06a9, 0x0010_0800, 0x0d9a_e3bf, 0xbfeb_fbff;
        0x0a: 0x0730_0803, 0, 0, 0x603;
        0x8000_0001: 0, 0, 1, 0x2810_0000;
    ] (6, 0x3a), IvyBridge, false, Ok((Intel, 3, 8, 48, 0b111, 0x7f))),
    dump!("Silvermont", Intel, last 0x0b and 0x8000_0008, [
        0x01: 0x0003_0673, 0x0010_0800, 0x41d8_e3bf, 0xbfeb_fbff;
        0x0a: 0x0728_0203, 0, 0, 0x4503;
        0x8000_0001: 0, 0, 0x101, 0x2810_0000;
    ] (6, 0x37), Silvermont, false, Ok((Intel, 3, 2, 40, 0b111, 0x7f))),
    dump!("Knights Landing", Intel, last 0x0d and 0x8000_0008, [
        0x01: 0x0005_0670, 0x02ff_0800, 0x7ff8_f3bf, 0xbfeb_fbff;
        0x07: 0, 0x1c0d_23ab, 1, 0;
        0x0a: 0x0728_0203, 0, 0, 0x503;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0x57), Silvermont, false, Ok((Intel, 3, 2, 40, 0b111, 0x7f))),
    dump!("Haswell", Intel, last 0x0d and 0x8000_0008, [
        0x01: 0x0003_06c3, 0x0010_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x0a: 0x0730_0403, 0, 0, 0x603;
        0x8000_0001: 0, 0, 0x21, 0x2c10_0000;
    ] (6, 0x3c), Haswell, false, Ok((Intel, 3, 4, 48, 0b111, 0x7f))),
    dump!("Broadwell", Intel, last 0x14 and 0x8000_0008, [
        0x01: 0x0003_06d4, 0x0010_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x0a: 0x0730_0403, 0, 0, 0x603;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0x3d), Broadwell, false, Ok((Intel, 3, 4, 48, 0b111, 0x7f))),
    dump!("Skylake", Intel, last 0x16 and 0x8000_0008, [
        0x01: 0x0004_06e3, 0x0010_0800, 0x7ffa_fbbf, 0xbfeb_fbff;
        0x0a: 0x0730_0404, 0, 0, 0x603;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0x4e), Skylake, false, Ok((Intel, 4, 4, 48, 0b111, 0x7f))),
    dump!("Skylake-X, counter 3 taken for TSX", Intel, last 0x16 and 0x8000_0008, [
        0x01: 0x0005_0654, 0x0010_0800, 0x7ffe_fbbf, 0xbfeb_fbff;
        0x07: 0, 0xd39f_fffb, 0, 0x9c00_2400;
        0x0a: 0x0730_0404, 0, 0, 0x603;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0x55), Skylake, false, Ok((Intel, 4, 3, 48, 0b111, 0x7f))),
    dump!("Kaby Lake without TSX", Intel, last 0x16 and 0x8000_0008, [
        0x01: 0x0009_06e9, 0x0010_0800, 0x7ffa_fbbf, 0xbfeb_fbff;
        0x07: 0, 0x029c_67af, 0, 0x9c00_2600;
        0x0a: 0x0730_0404, 0, 0, 0x603;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0800;
    ] (6, 0x9e), Skylake, false, Ok((Intel, 4, 4, 48, 0b111, 0x7f))),
    // Without Hyper-Threading the processor has eight counters.
    dump!("Coffee Lake, counter 3 taken for TSX", Intel, last 0x16 and 0x8000_0008, [
        0x01: 0x0009_06ea, 0x0010_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 0, 0x029c_6fbb, 0, 0x9c00_2600;
        0x0a: 0x0730_0804, 0, 0, 0x603;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0x9e), Skylake, false, Ok((Intel, 4, 3, 48, 0b111, 0x7f))),
    dump!("Goldmont", Intel, last 0x15 and 0x8000_0008, [
        0x01: 0x0005_06ca, 0x0020_0800, 0x4ff8_ebb7, 0xbfeb_fbff;
        0x07: 0, 0x2294_e283, 0, 0xac00_0400;
        0x0a: 0x0730_0404, 0, 0, 0x603;
        0x8000_0001: 0, 0, 0x101, 0x2c10_0000;
    ] (6, 0x5c), Goldmont, false, Ok((Intel, 4, 4, 48, 0b111, 0x7f))),
    dump!("Goldmont Plus", Intel, last 0x18 and 0x8000_0008, [
        0x01: 0x0007_06a8, 0x0040_0800, 0x4ff8_ebbf, 0xbfeb_fbff;
        0x07: 0, 0x2294_e287, 0x4040_0004, 0xac00_0400;
        0x0a: 0x0730_0404, 0, 0, 0x8603;
        0x8000_0001: 0, 0, 0x101, 0x2c10_0000;
    ] (6, 0x7a), GoldmontPlus, false, Ok((Intel, 4, 4, 48, 0b111, 0x7f))),
    dump!("Ice Lake", Intel, last 0x1b and 0x8000_0008, [
        0x01: 0x0007_06e5, 0x0010_0800, 0x7ffa_fbbf, 0xbfeb_fbff;
        0x0a: 0x0830_0805, 0, 0x0f, 0x8604;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0x7e), IceLake, false, Ok((Intel, 5, 8, 48, 0b1111, 0xff))),
    dump!("Tremont (Jasper Lake)", Intel, last 0x1b and 0x8000_0008, [
        0x01: 0x0009_06c0, 0x0080_0800, 0x4ff8_ebbf, 0xbfeb_fbff;
        0x07: 0, 0x2394_a2c3, 0x1840_0124, 0xfc00_0400;
        0x0a: 0x0730_0405, 0, 7, 0x8603;
        0x1a: 0x2000_0000, 0, 0, 0;
        0x8000_0001: 0, 0, 0x101, 0x2810_0000;
    ] (6, 0x9c), Tremont, false, Ok((Intel, 5, 4, 48, 0b111, 0x7f))),
    // Hybrid processors whose efficiency cores are off or missing.
    dump!("Alder Lake, efficiency cores off", Intel, last 0x20 and 0x8000_0008, [
        0x01: 0x0009_0672, 0x0020_0800, 0x7ffa_fbbf, 0xbfeb_fbff;
        0x07: 1, 0xf3bf_a7eb, 0x98c0_5fee, 0xfc98_4510;
        0x0a: 0x0830_0805, 0, 0xf, 0x8604;
        0x1c: 0x4000_000b, 7, 7, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0x97), GoldenCove, false, Ok((Intel, 5, 8, 48, 0b1111, 0xff))),
    dump!("Raptor Lake without efficiency cores", Intel, last 0x20 and 0x8000_0008, [
        0x01: 0x000b_0671, 0x0020_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_27eb, 0x98c0_27ac, 0xfc1c_4410;
        0x0a: 0x0830_0805, 0, 0xf, 0x8604;
        0x1c: 0x4000_000b, 7, 7, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0xb7), GoldenCove, false, Ok((Intel, 5, 8, 48, 0b1111, 0xff))),
    dump!("Bartlett Lake", Intel, last 0x20 and 0x8000_0008, [
        0x01: 0x000d_0670, 0x0020_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_27eb, 0x9ac0_27ac, 0xfc1c_4410;
        0x0a: 0x0830_0805, 0, 0xf, 0x8604;
        0x1c: 0x4000_000b, 7, 7, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0800;
    ] (6, 0xd7), GoldenCove, false, Ok((Intel, 5, 8, 48, 0b1111, 0xff))),
    dump!("Sapphire Rapids", Intel, last 0x20 and 0x8000_0008, [
        0x01: 0x0008_06f8, 0x0080_0800, 0x7ffe_fbff, 0xbfeb_fbff;
        0x07: 2, 0xf3bf_bffb, 0xbb41_7fee, 0xffdd_4430;
        0x0a: 0x0830_0805, 0, 0xf, 0x8604;
        0x1c: 0x4000_000b, 7, 7, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0x8f), GoldenCove, false, Ok((Intel, 5, 8, 48, 0b1111, 0xff))),
    dump!("Emerald Rapids", Intel, last 0x20 and 0x8000_0008, [
        0x01: 0x000c_06f2, 0x0080_0800, 0x7ffe_fbff, 0xbfeb_fbff;
        0x07: 2, 0xf3bf_bfff, 0xfb41_7fee, 0xffdd_4432;
        0x0a: 0x0830_0805, 0, 0xf, 0x8604;
        0x1c: 0x4000_000b, 7, 7, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0xcf), GoldenCove, false, Ok((Intel, 5, 8, 48, 0b1111, 0xff))),
    // Leaf 0x0a has the counters and events that both kinds of cores have, and there is no leaf 0x23. The further counters
    // and the top-down slots of the performance core are known from its model.
    dump!("Raptor Lake, performance core", Intel, last 0x20 and 0x8000_0008, [
        0x01: 0x000b_06f2, 0x0080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_27eb, 0x98c0_27ac, 0xfc1c_c410;
        0x0a: 0x0730_0605, 0, 7, 0x8603;
        0x1a: 0x4000_0001, 0, 0, 0;
        0x1c: 0x4000_000b, 7, 7, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0xbf), GoldenCove, false, Ok((Intel, 5, 8, 48, 0b1111, 0xff))),
    dump!("Raptor Lake, efficiency core", Intel, last 0x20 and 0x8000_0008, [
        0x01: 0x000b_06f2, 0x3080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_27eb, 0x98c0_27ac, 0xfc1c_c410;
        0x0a: 0x0730_0605, 0, 7, 0x8603;
        0x1a: 0x2000_0001, 0, 0, 0;
        0x1c: 0xc000_000b, 7, 7, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0xbf), Gracemont, false, Ok((Intel, 5, 6, 48, 0b111, 0x7f))),
    dump!("Alder Lake-N", Intel, last 0x20 and 0x8000_0008, [
        0x01: 0x000b_06e0, 0x0080_0800, 0x7ffa_fbbf, 0xbfeb_fbff;
        0x07: 2, 0x239c_a7eb, 0x98c0_07ac, 0xfc18_4410;
        0x0a: 0x0730_0605, 0, 7, 0x8603;
        0x1a: 0x2000_0001, 0, 0, 0;
        0x1c: 0xc000_000b, 7, 7, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0xbe), Gracemont, false, Ok((Intel, 5, 6, 48, 0b111, 0x7f))),
    dump!("Granite Rapids", Intel, last 0x24 and 0x8000_0008, [
        0x01: 0x000a_06d1, 0x0080_0800, 0x7ffe_fbff, 0xbfeb_fbff;
        0x07: 2, 0xf3bf_bffb, 0xbb41_7fee, 0xffdd_4430;
        0x0a: 0x0830_0805, 0, 0xf, 0x8604;
        0x1a: 0x4000_0002, 0, 0, 0;
        0x1c: 0x4000_000b, 7, 7, 0;
        0x23: 0xb, 0, 0, 0;
        0x23 / 1: 0xff, 0xf, 0, 0;
        0x23 / 3: 0xdff, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0xad), RedwoodCove, false, Ok((Intel, 5, 8, 48, 0b1111, 0xdff))),
    dump!("Meteor Lake, performance core", Intel, last 0x23 and 0x8000_0008, [
        0x01: 0x000a_06a4, 0x2080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_27eb, 0x9940_07ac, 0xfc18_c410;
        0x0a: 0x0730_0805, 0, 7, 0x8603;
        0x1a: 0x4000_0002, 0, 0, 0;
        0x1c: 0x4000_000b, 7, 7, 0;
        0x23: 0xb, 0, 0, 0;
        0x23 / 1: 0xff, 0xf, 0, 0;
        0x23 / 3: 0xdff, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0800;
    ] (6, 0xaa), RedwoodCove, false, Ok((Intel, 5, 8, 48, 0b1111, 0xdff))),
    dump!("Meteor Lake, efficiency core", Intel, last 0x23 and 0x8000_0008, [
        0x01: 0x000a_06a4, 0x0080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_27eb, 0x9940_07ac, 0xfc18_c410;
        0x0a: 0x0730_0805, 0, 7, 0x8603;
        0x1a: 0x2000_0002, 0, 0, 0;
        0x1c: 0xc000_000b, 7, 7, 0;
        0x23: 0xb, 0, 6, 0;
        0x23 / 1: 0xff, 7, 0, 0;
        0x23 / 3: 0x7f, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0800;
    ] (6, 0xaa), Crestmont, false, Ok((Intel, 5, 8, 48, 0b111, 0x7f))),
    dump!("Arrow Lake-H, performance core", Intel, last 0x23 and 0x8000_0008, [
        0x01: 0x000c_0652, 0x0080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_27eb, 0x9940_27ac, 0xfc1c_c430;
        0x0a: 0x0730_0805, 0, 7, 0x8603;
        0x1a: 0x4000_0003, 0, 0, 0;
        0x1c: 0x4000_000b, 7, 7, 0;
        0x23: 0xb, 3, 0, 0;
        0x23 / 1: 0x3ff, 0xf, 0, 0;
        0x23 / 3: 0x1dff, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0xc5), LionCove, false, Ok((Intel, 5, 8, 48, 0b1111, 0x1dff))),
    dump!("Arrow Lake-H, efficiency core", Intel, last 0x23 and 0x8000_0008, [
        0x01: 0x000c_0652, 0x1080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_27eb, 0x9940_27ac, 0xfc1c_c430;
        0x0a: 0x0730_0805, 0, 7, 0x8603;
        0x1a: 0x2000_0003, 0, 0, 0;
        0x1c: 0xc000_000b, 7, 7, 0;
        0x23: 0xf, 3, 8, 0;
        0x23 / 1: 0xff, 0x77, 0, 0;
        0x23 / 3: 0x1f7f, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0xc5), Skymont, false, Ok((Intel, 5, 8, 48, 0b111_0111, 0x1f7f))),
    dump!("Arrow Lake-H, low-power efficiency core", Intel, last 0x23 and 0x8000_0008, [
        0x01: 0x000c_0652, 0x4080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_27eb, 0x9940_27ac, 0xfc1c_c430;
        0x0a: 0x0730_0805, 0, 7, 0x8603;
        0x1a: 0x2000_0002, 0, 0, 0;
        0x1c: 0xc000_000b, 7, 7, 0;
        0x23: 0xb, 0, 6, 0;
        0x23 / 1: 0xff, 7, 0, 0;
        0x23 / 3: 0x7f, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0000;
    ] (6, 0xc5), Crestmont, false, Ok((Intel, 5, 8, 48, 0b111, 0x7f))),
    dump!("Arrow Lake-S, performance core", Intel, last 0x23 and 0x8000_0008, [
        0x01: 0x000c_0662, 0x0080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_a7eb, 0x9940_27ac, 0xfc18_c430;
        0x0a: 0x0d30_0806, 0x280, 7, 0x8603;
        0x1a: 0x4000_0003, 0, 0, 0;
        0x1c: 0x4000_000b, 7, 0x0f_0007, 0;
        0x23: 0xb, 3, 0, 0;
        0x23 / 1: 0x3ff, 0xf, 0, 0;
        0x23 / 3: 0x1dff, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0800;
    ] (6, 0xc6), LionCove, false, Ok((Intel, 6, 8, 48, 0b1111, 0x1dff))),
    dump!("Arrow Lake-S, efficiency core", Intel, last 0x23 and 0x8000_0008, [
        0x01: 0x000c_0662, 0x1880_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_a7eb, 0x9940_27ac, 0xfc18_c430;
        0x0a: 0x0d30_0806, 0x280, 7, 0x8603;
        0x1a: 0x2000_0003, 0, 0, 0;
        0x1c: 0xc000_000b, 7, 0x0f_0007, 0;
        0x23: 0xf, 3, 8, 0;
        0x23 / 1: 0xff, 0x77, 0, 0;
        0x23 / 3: 0x1f7f, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0800;
    ] (6, 0xc6), Skymont, false, Ok((Intel, 6, 8, 48, 0b111_0111, 0x1f7f))),
    dump!("Lunar Lake, performance core", Intel, last 0x23 and 0x8000_0008, [
        0x01: 0x000b_06d1, 0x0080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_a7eb, 0x9940_27ac, 0xfc1c_c430;
        0x0a: 0x0d30_0806, 0x280, 7, 0x8603;
        0x1a: 0x4000_0003, 0, 0, 0;
        0x1c: 0x4000_000b, 7, 0x0f_0007, 0;
        0x23: 0xb, 3, 0, 0;
        0x23 / 1: 0x3ff, 0xf, 0, 0;
        0x23 / 3: 0x1dff, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0800;
    ] (6, 0xbd), LionCove, false, Ok((Intel, 6, 8, 48, 0b1111, 0x1dff))),
    dump!("Lunar Lake, efficiency core", Intel, last 0x23 and 0x8000_0008, [
        0x01: 0x000b_06d1, 0x4080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_a7eb, 0x9940_27ac, 0xfc1c_c430;
        0x0a: 0x0d30_0806, 0x280, 7, 0x8603;
        0x1a: 0x2000_0003, 0, 0, 0;
        0x1c: 0xc000_000b, 7, 0x0f_0007, 0;
        0x23: 0xf, 3, 8, 0;
        0x23 / 1: 0xff, 0x77, 0, 0;
        0x23 / 3: 0x1f7f, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0800;
    ] (6, 0xbd), Skymont, false, Ok((Intel, 6, 8, 48, 0b111_0111, 0x1f7f))),
    dump!("Panther Lake, performance core", Intel, last 0x28 and 0x8000_0008, [
        0x01: 0x000c_06c3, 0x0080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_a7eb, 0x9940_07bc, 0xfc18_c430;
        0x0a: 0x0d30_0806, 0x280, 7, 0x8603;
        0x1a: 0x4000_0004, 0, 0, 0;
        0x1c: 0x4000_000b, 7, 0x0f_0007, 0;
        0x23: 0x3b, 3, 0, 0;
        0x23 / 1: 0x3ff, 0xf, 0, 0;
        0x23 / 3: 0x1dff, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0800;
    ] (6, 0xcc), CougarCove, false, Ok((Intel, 6, 8, 48, 0b1111, 0x1dff))),
    dump!("Panther Lake, efficiency core", Intel, last 0x28 and 0x8000_0008, [
        0x01: 0x000c_06c3, 0x4080_0800, 0x7ffa_fbff, 0xbfeb_fbff;
        0x07: 2, 0x239c_a7eb, 0x9940_07bc, 0xfc18_c430;
        0x0a: 0x0d30_0806, 0x280, 7, 0x8603;
        0x1a: 0x2000_0004, 0, 0, 0;
        0x1c: 0xc000_000b, 7, 0x0f_0007, 0;
        0x23: 0x3f, 3, 8, 0;
        0x23 / 1: 0xff, 0x77, 0, 0;
        0x23 / 3: 0x1f7f, 0, 0, 0;
        0x8000_0001: 0, 0, 0x121, 0x2c10_0800;
    ] (6, 0xcc), Darkmont, false, Ok((Intel, 6, 8, 48, 0b111_0111, 0x1f7f))),
    dump!("KVM guest on Kaby Lake R", Intel, last 0x16 and 0x8000_0008, [
        0x01: 0x0008_06ea, 0x0000_0800, 0xfffa_b223, 0x0f8b_fbff;
        0x0a: 0x0730_0402, 0, 0, 0x8603;
    ] (6, 0x8e), Skylake, true, Ok((Intel, 2, 4, 48, 0b111, 0x7f))),

    dump!("K10 (Phenom II)", Amd, last 0x05 and 0x8000_001b, [
        0x01: 0x0010_0f42, 0x0004_0800, 0x0080_2009, 0x178b_fbff;
        0x8000_0001: 0x0010_0f42, 0x1000_1a86, 0x0000_37ff, 0xefd3_fbff;
    ] (0x10, 4), AmdBeforeZen, false, Ok((AmdLegacy, 1, 4, 48, 0, 0x7b))),
    dump!("Bulldozer", Amd, last 0x0d and 0x8000_001e, [
        0x01: 0x0060_0f01, 0x0004_0800, 0x1e98_220b, 0x178b_fbff;
        0x8000_0001: 0x0060_0f01, 0x1000_0000, 0x01c9_bfff, 0x2fd3_fbff;
    ] (0x15, 0), Bulldozer, false, Ok((AmdCore, 1, 6, 48, 0, 0x7b))),
    dump!("Zen", Amd, last 0x0d and 0x8000_001f, [
        0x01: 0x0081_0f10, 0x0004_0800, 0x7ed8_320b, 0x178b_fbff;
        0x8000_0001: 0x0081_0f10, 0x2000_0000, 0x35c2_33ff, 0x2fd3_fbff;
    ] (0x17, 0x11), Zen1, false, Ok((AmdCore, 1, 6, 48, 0, 0x7b))),
    dump!("Hygon Dhyana", Hygon, last 0x0d and 0x8000_001f, [
        0x01: 0x0090_0f02, 0x0010_0800, 0x74d8_3209, 0x178b_fbff;
        0x8000_0001: 0x0090_0f02, 0x6000_0000, 0x35c2_33ff, 0x2fd3_fbff;
    ] (0x18, 0), Zen1, false, Ok((AmdCore, 1, 6, 48, 0, 0x7b))),
    dump!("Zen 2", Amd, last 0x10 and 0x8000_0020, [
        0x01: 0x0087_0f10, 0x0018_0800, 0x7ed8_320b, 0x178b_fbff;
        0x8000_0001: 0x0087_0f10, 0x2000_0000, 0x75c2_37ff, 0x2fd3_fbff;
    ] (0x17, 0x71), Zen2, false, Ok((AmdCore, 1, 6, 48, 0, 0x7b))),
    // The processor has leaf 0x8000_0022, which is all zero.
    dump!("Zen 3", Amd, last 0x10 and 0x8000_0023, [
        0x01: 0x00a2_0f10, 0x0020_0800, 0x7ed8_320b, 0x178b_fbff;
        0x8000_0001: 0x00a2_0f10, 0x2000_0000, 0x75c2_37ff, 0x2fd3_fbff;
        0x8000_0008: 0x3030, 0x111e_f657, 0x501f, 0x1_0000;
    ] (0x19, 0x21), Zen2, false, Ok((AmdCore, 1, 6, 48, 0, 0x7b))),
    dump!("Zen 4", Amd, last 0x10 and 0x8000_0028, [
        0x01: 0x00a6_0f12, 0x000c_0800, 0x7ef8_320b, 0x178b_fbff;
        0x8000_0001: 0x00a6_0f12, 0, 0x75c2_37ff, 0x2fd3_fbff;
        0x8000_0008: 0x3030, 0x191e_f257, 0x400b, 0x1_0000;
        0x8000_0022: 0x03, 0x0008_4106, 0x03, 0;
    ] (0x19, 0x61), Zen4, false, Ok((AmdV2, 2, 6, 48, 0, 0x7b))),
    dump!("Zen 5 (Turin)", Amd, last 0x10 and 0x8000_0028, [
        0x01: 0x00b0_0f21, 0x0040_0800, 0x7efa_320b, 0x178b_fbff;
        0x8000_0001: 0x00b0_0f21, 0x4000_0000, 0x75c2_37ff, 0x2fd3_fbff;
        0x8000_0008: 0x3934, 0x79be_f25f, 0x703f, 0x1_0007;
        0x8000_0022: 0x07, 0x0030_4106, 0x0fff, 0;
    ] (0x1a, 2), Zen5, false, Ok((AmdV2, 2, 6, 48, 0, 0x7b))),
    dump!("Zen 5 (Granite Ridge)", Amd, last 0x10 and 0x8000_0028, [
        0x01: 0x00b4_0f40, 0x0020_0800, 0x7ed8_320b, 0x178b_fbff;
        0x07: 1, 0xf1bf_97ab, 0x1940_5fce, 0x1000_0110;
        0x8000_0001: 0x00b4_0f40, 0, 0x75c2_37ff, 0x2fd3_fbff;
        0x8000_0008: 0x3030, 0x791e_f257, 0x501f, 0x1_0000;
        0x8000_0022: 0x07, 0x0008_4106, 0x03, 0;
    ] (0x1a, 0x44), Zen5, false, Ok((AmdV2, 2, 6, 48, 0, 0x7b))),
    dump!("Zen 5 (Krackan Point)", Amd, last 0x10 and 0x8000_0028, [
        0x01: 0x00b6_0f00, 0x0010_0800, 0x7ed8_320b, 0x178b_fbff;
        0x07: 1, 0xf1bf_97ab, 0x1940_5fce, 0x1000_0110;
        0x8000_0001: 0x00b6_0f00, 0x1000_0000, 0x75c2_37ff, 0x2fd3_fbff;
        0x8000_0008: 0x3030, 0x791e_f257, 0x400f, 0x1_0000;
        0x8000_0022: 0x07, 0x0010_4106, 0x0f, 0;
    ] (0x1a, 0x60), Zen5, false, Ok((AmdV2, 2, 6, 48, 0, 0x7b))),
    // QEMU's model "max" without KVM, which is not a real processor.
    dump!("QEMU's own", Amd, last 0x0d and 0x8000_0008, [
        0x01: 0x0000_0663, 0x0000_0800, 0xfffa_b223, 0x0f8b_fbff;
        0x0a: 0x0730_0402, 0, 0, 0x8603;
        0x8000_0001: 0x0000_0663, 0, 0x121, 0x2d93_fbff;
    ] (6, 6), Unknown, true, Err(NoPmu::Vendor)),
];
