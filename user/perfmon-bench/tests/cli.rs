// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of a bench target where it counts nothing: its list, its trial, its errors. Counting is tested by
//! scripts/test-cargo-bench.

#[test]
fn sessions() {
    // cargo builds the examples with the tests, in a folder beside them.
    let test = std::env::current_exe().expect("it has a file");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("it is in target/PROFILE/deps");
    trycmd::TestCases::new()
        .register_bin("sorting", profile.join("examples/sorting"))
        .case("tests/cmd/*.trycmd")
        // How wide help is.
        .env("COLUMNS", "80");
}
