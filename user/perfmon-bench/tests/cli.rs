// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the output of a bench target that counts nothing: list, trial, errors. scripts/test-cargo-bench tests counting.

#[test]
fn output_is_as_recorded() {
    // cargo builds the examples with the tests, in a folder beside them.
    let test = std::env::current_exe().expect("it has a file");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("it is in target/PROFILE/deps");
    trycmd::TestCases::new()
        .register_bin("sorting", profile.join("examples/sorting"))
        .case("tests/cmd/*.trycmd")
        // The width of the help.
        .env("COLUMNS", "80");
}
