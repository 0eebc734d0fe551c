// SPDX-License-Identifier: MIT OR Apache-2.0

use std::path::Path;

use super::*;

/// Returns the lines of a table that are events.
fn event_lines(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tables")
        .join(format!("{name}.txt"));
    let text = std::fs::read_to_string(path).expect("it is there");
    let is_event = |line: &&str| {
        !["#", "table ", "version ", "counters ", "kind ", "cpu "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    text.lines().filter(is_event).map(str::to_owned).collect()
}

/// Returns an event in the form of a line of its table.
fn line(event: &Event) -> String {
    let mut text = format!("{} {:x} {:x}", event.name, event.number, event.unit_mask);
    let flags = [
        (event.invert, "inv"),
        (event.edge, "edge"),
        (event.any_thread, "any"),
        (event.deprecated, "deprecated"),
    ];
    for (_, flag) in flags.into_iter().filter(|(is_set, _)| *is_set) {
        text += &format!(" {flag}");
    }
    let mask = Some(u64::from(event.counter_mask)).filter(|mask| *mask != 0);
    let fields = [
        ("cmask", mask),
        ("counters", event.counters),
        ("period", event.period.map(u64::from)),
        ("fixed", event.fixed.map(u64::from)),
    ];
    for (key, value) in fields {
        text += &value.map_or(String::new(), |value| format!(" {key}={value:x}"));
    }
    text + &event.extra.map_or(String::new(), |extra| {
        format!(" msr={:x}:{:x}", extra.register, extra.value)
    })
}

#[test]
fn each_line_of_a_table_is_found() {
    for model in models() {
        let lines = event_lines(model.name());
        let events: Vec<String> = model.events().map(|event| line(&event)).collect();
        assert_eq!(events, lines, "{}", model.name());
        for line in &lines {
            let name = line.split(' ').next().expect("a line has a word");
            for spelling in [
                name.to_owned(),
                name.to_ascii_lowercase(),
                name.to_ascii_uppercase(),
            ] {
                let event = model.event(&spelling).expect("it is there");
                assert_eq!(&super::tests::line(&event), line, "{}", model.name());
            }
        }
    }
}

#[test]
fn other_names_are_not_found() {
    let model = model("skylake").expect("it is there");
    for name in [
        "",
        " ",
        "A",
        "zzzz",
        "INST_RETIRED",
        "INST_RETIRED.ANY_P ",
        "é",
        "ls_not_halted_cyc",
        "~",
    ] {
        assert_eq!(model.event(name), None, "{name}");
    }
}

#[test]
fn models_are_found_by_their_names() {
    let name = |text| model(text).map(Model::name);
    assert_eq!(name("Skylake"), Some("skylake"));
    assert_eq!(name("zen4"), Some("amdzen4"));
    assert_eq!(name("amdzen4"), Some("amdzen4"));
    assert_eq!(name("fam15h"), Some("amdfam15h"));
    assert_eq!(name("amd"), None);
    assert_eq!(name(""), None);
}

/// Returns the name of a processor's model.
fn model_name(
    vendor: &[u8; 12],
    family: u32,
    model: u32,
    stepping: u32,
    kind: Kind,
) -> Option<&'static str> {
    model_of(&Cpu {
        vendor: *vendor,
        family,
        model,
        stepping,
        kind,
    })
    .map(Model::name)
}

#[test]
fn processors_have_their_models() {
    const INTEL: &[u8; 12] = b"GenuineIntel";
    const AMD: &[u8; 12] = b"AuthenticAMD";
    use Kind::{Atom, Core, LowPower, Only};

    let table = [
        (INTEL, 6, 0x1a, 5, Only, Some("nehalemep")),
        (INTEL, 6, 0x5e, 3, Only, Some("skylake")),
        (INTEL, 6, 0x55, 4, Only, Some("skylakex")),
        (INTEL, 6, 0x55, 7, Only, Some("cascadelakex")),
        (INTEL, 6, 0x8f, 8, Only, Some("sapphirerapids")),
        (INTEL, 6, 0x97, 2, Core, Some("alderlake-core")),
        (INTEL, 6, 0x97, 2, Atom, Some("alderlake-atom")),
        (INTEL, 6, 0x97, 2, Only, Some("alderlake-core")),
        (INTEL, 6, 0xaa, 4, LowPower, Some("meteorlake-atom")),
        (INTEL, 6, 0xbe, 0, Atom, Some("alderlaken")),
        (INTEL, 6, 0xc5, 2, LowPower, Some("arrowlake-lowpower")),
        (INTEL, 6, 0x0f, 2, Only, None),
        (INTEL, 18, 1, 0, Core, Some("novalake-core")),
        (AMD, 0x10, 2, 3, Only, Some("amdfam10h-barcelona")),
        (AMD, 0x10, 10, 0, Only, Some("amdfam10h-istanbul")),
        (AMD, 0x15, 0x60, 1, Only, Some("amdfam15h")),
        (AMD, 0x16, 0, 1, Only, Some("amdfam16h")),
        (AMD, 0x17, 0x01, 1, Only, Some("amdzen1")),
        (AMD, 0x17, 0x71, 0, Only, Some("amdzen2")),
        (AMD, 0x19, 0x21, 0, Only, Some("amdzen3")),
        (AMD, 0x19, 0x61, 2, Only, Some("amdzen4")),
        (AMD, 0x1a, 0x44, 0, Only, Some("amdzen5")),
        (AMD, 0x1a, 0x50, 0, Only, Some("amdzen6")),
        (AMD, 0x0f, 4, 8, Only, None),
        (b"HygonGenuine", 0x18, 0, 1, Only, Some("amdzen1")),
        (b"CentaurHauls", 7, 0, 0, Only, None),
    ];
    for (vendor, family, model, stepping, kind, expected) in table {
        assert_eq!(
            model_name(vendor, family, model, stepping, kind),
            expected,
            "family {family:x} model {model:x}"
        );
    }
}

#[test]
fn each_model_is_found_by_its_cpu() {
    for model in models() {
        assert_eq!(
            model_of(&model.example_cpu()).map(Model::name),
            Some(model.name())
        );
        assert!(!model.is_empty());
    }
}
