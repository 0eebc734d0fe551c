// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with bytes that are nearly valid, so that they get past the first rule.

use std::ops::Range;

use perfmon::abi::{
    PERFMON_CONFIG_FLAG_LAST_BRANCH as LAST_BRANCH, PERFMON_CONFIG_FLAG_MASK as MASK,
    PERFMON_GROUP_ARCH, PERFMON_GROUP_FIXED, PERFMON_GROUP_MODEL,
};
use proptest::prelude::*;

/// Generates the ID of an event that most CPUs have, or any ID.
fn event() -> impl Strategy<Value = u16> {
    let id = |group: u32, numbers: Range<u32>| {
        numbers.prop_map(move |n| u16::try_from(group << 10 | n).expect("a group has 6 bits"))
    };
    prop_oneof![
        10 => id(PERFMON_GROUP_ARCH, 0..8),
        10 => id(PERFMON_GROUP_FIXED, 1..5),
        10 => id(PERFMON_GROUP_MODEL, 0..20).prop_map(|id| id & !1),
        1 => any::<u16>(),
    ]
}

/// Generates an event with its rate and its flags; most are valid.
fn row() -> impl Strategy<Value = (u16, u32, u32)> {
    let rate = prop_oneof![2 => Just(0), 4 => 1_u32..100_000, 1 => 0xff_fff0_u32..0x100_000f, 1 => any::<u32>()];
    let flags = prop_oneof![
 16 => (0..=MASK).prop_map(|flags| flags & !LAST_BRANCH), 8 => 0..=MASK, 1 => any::<u32>()];
    (event(), rate, flags)
}

/// Generates a config with some rows, sometimes with a further row at any place of the table.
fn config() -> impl Strategy<Value = Vec<u8>> {
    let stray_row = prop_oneof![row(), row().prop_map(|row| (0, 0, row.2))];
    let stray = prop::option::weighted(0.1, (0_usize..32, stray_row));
    (prop::collection::vec(row(), 0..6), stray).prop_map(|(rows, stray)| {
        let mut table = [(0, 0, 0); 32];
        table[..rows.len()].copy_from_slice(&rows);
        if let Some((place, row)) = stray {
            table[place] = row;
        }
        let events = table.iter().flat_map(|row| row.0.to_le_bytes());
        let rates = table.iter().flat_map(|row| row.1.to_le_bytes());
        let flags = table.iter().flat_map(|row| row.2.to_le_bytes());
        events.chain(rates).chain(flags).collect()
    })
}

/// Generates descriptions of CPUs, typical or random: counters and their widths, features, and which counters are free.
fn cpus() -> impl Strategy<Value = [u8; 20]> {
    let usual_counters = (1_u8..6, any::<u64>()).prop_map(|(general, free)| {
        let mut cpus = [0; 20];
        cpus[..8].copy_from_slice(&[general, 24, 48, 3, 0x0f, 0, 0xff, 0]);
        cpus[8..16].copy_from_slice(&free.to_le_bytes());
        cpus
    });
    prop_oneof![4 => usual_counters, 1 => any::<[u8; 20]>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nearly_valid_configs_keep_the_rules(cpus in cpus(), config in config()) {
        fuzz_targets::config(&[&cpus[..], &config].concat());
    }

    #[test]
    fn nearly_valid_selects_keep_the_rules(bits: u64, cleared in prop::option::of(any::<u64>()), available: u64) {
        // Random bits nearly always include a bit that is refused. So in most selects some bits are
        // cleared.
        let bits = bits & !cleared.unwrap_or(0) & if cleared.is_some() { available } else { u64::MAX };
        fuzz_targets::select(&[bits.to_le_bytes(), available.to_le_bytes()].concat());
    }
}
