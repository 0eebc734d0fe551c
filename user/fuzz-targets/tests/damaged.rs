// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings that are cut anywhere, or have wrong bytes anywhere, are read or refused.

use std::fs;

use proptest::prelude::*;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../pmctl/tests/recordings");

fn recordings() -> Vec<Vec<u8>> {
    let names = ["callers", "branches", "lost", "timebase", "of-perf"];
    let read = |name| fs::read(format!("{FOLDER}/{name}.data")).expect("it is there");
    names.map(read).into()
}

#[test]
fn a_recording_can_be_cut_anywhere() {
    for whole in recordings() {
        // The header is kept, and each of its bytes is an end, too.
        for end in (0..110).chain((110..whole.len()).step_by(41)) {
            fuzz_targets::recording(&whole[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_byte_can_be_wrong(
        number in 0..5_usize,
        faults in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = recordings().swap_remove(number);
        for (place, byte) in faults {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        fuzz_targets::recording(&bytes);
    }
}
