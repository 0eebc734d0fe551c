// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory access of a sampled instruction: its address, its latency, and where the data came from.

use super::data_source::DataSource;

/// The memory access of a sampled instruction. Parts that were not recorded are 0, and the source is not available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryAccess {
    /// The address of the data; 0 if the instruction has none.
    pub(crate) address: u64,
    pub(crate) weight: Weight,
    pub(crate) source: DataSource,
}

/// Latencies of a memory access: `union perf_sample_weight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// The latency in cycles (`var1_dw`), which perf calls the weight.
    pub(crate) latency: u32,
    /// Further latencies, which depend on the processor (`var2_w`, `var3_w`).
    pub(crate) others: [u16; 2],
}

impl Weight {
    /// Decodes the word of `PERF_SAMPLE_WEIGHT_STRUCT`.
    pub(super) fn from_struct_word(word: u64) -> Self {
        let [low, high] = [word & u64::from(u32::MAX), word >> 32];
        let half = |shift: u32| u16::try_from(high >> shift & 0xffff).unwrap_or(u16::MAX);
        Self {
            latency: u32::try_from(low).unwrap_or(u32::MAX),
            others: [half(0), half(16)],
        }
    }

    /// Decodes the word of `PERF_SAMPLE_WEIGHT`, which is one number.
    pub(super) fn from_word(word: u64) -> Self {
        Self {
            latency: u32::try_from(word).unwrap_or(u32::MAX),
            others: [0; 2],
        }
    }

    /// Encodes the word of `PERF_SAMPLE_WEIGHT_STRUCT`.
    pub(super) fn to_word(self) -> u64 {
        let [second, third] = self.others;
        u64::from(self.latency) | u64::from(second) << 32 | u64::from(third) << 48
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_three_parts_or_one() {
        let word = 0x0003_0002_0000_0001;
        let weight = Weight::from_struct_word(word);
        assert_eq!((weight.latency, weight.others), (1, [2, 3]));
        assert_eq!(weight.to_word(), word);
        assert_eq!(Weight::from_word(7).latency, 7);
        assert_eq!(Weight::from_word(1 << 40).latency, u32::MAX);
    }
}
