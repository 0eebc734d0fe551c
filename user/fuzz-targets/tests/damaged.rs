// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a recording that is cut, or has wrong bytes, at any place is read or refused without
//! a panic.

use std::fs;

use proptest::prelude::*;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../pmctl/tests/recordings");

fn recordings() -> Vec<Vec<u8>> {
    let names = ["callers", "branches", "lost", "timebase", "of-perf"];
    let read_recording = |name| fs::read(format!("{FOLDER}/{name}.data")).expect("it is there");
    names.map(read_recording).into()
}

#[test]
fn a_recording_can_be_cut_anywhere() {
    for whole in recordings() {
        // Cuts at each byte of the header, and then at every 41st byte.
        for end in (0..110).chain((110..whole.len()).step_by(41)) {
            fuzz_targets::recording(&whole[..end]);
        }
    }
}

/// Bit 14 of the field `misc` says that a mapping has a build-id in place of device and inode. A mapping without a file has
/// zeros there, so with this bit its build-id is empty.
#[test]
fn a_mapping_can_have_an_empty_build_id() {
    let recording = recordings().swap_remove(4);
    for place in 0..recording.len() {
        let mut bytes = recording.clone();
        bytes[place] |= 0x40;
        fuzz_targets::recording(&bytes);
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
