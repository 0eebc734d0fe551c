// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls the fuzz targets with the seeds of the fuzzer, and with inputs for which it once found a fault.

use std::fs;
use std::path::Path;

use fuzz_targets::TARGETS;

#[test]
fn no_seed_causes_a_panic() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    for (name, target) in TARGETS {
        let mut files = 0;
        for file in fs::read_dir(seeds.join(name)).expect("each target has seeds") {
            let file = file.expect("the folder can be read").path();
            println!("{}", file.display());
            target(&fs::read(&file).expect("the file can be read"));
            files += 1;
        }
        assert_ne!(files, 0, "{name}");
    }
    let folders = fs::read_dir(seeds).expect("they are there").count();
    assert_eq!(folders, TARGETS.len(), "a folder is no target's");
}
