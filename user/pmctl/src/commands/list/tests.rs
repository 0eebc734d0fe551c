// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the lists of events of several CPUs.

use super::advice::missing_list_message;
use super::named_event::all_named_events;
use super::*;
use crate::system::glob::contains_or_matches;
use crate::system::machine::Leaves;

#[test]
fn patterns_match_whole_names_and_texts_match_parts() {
    let table = [
        ("miss", "l2_rqsts.miss", true),
        ("l2_*miss*", "l2_rqsts.all_demand_miss", true),
        ("l2_*miss", "l2_rqsts.miss_all", false),
        ("*", "", true),
        ("a*b*c", "aXbXbc", true),
        ("a*b*c", "aXc", false),
        ("?ycles", "cycles", true),
        ("?ycles", "ycles", false),
        ("*.any", "x.any.any", true),
    ];
    for (glob, name, expected) in table {
        assert_eq!(contains_or_matches(glob, name), expected, "{glob} {name}");
    }
}

#[test]
fn message_about_missing_list_has_family_and_model() {
    let leaves = [
        (0, [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]),
        (1, [0x000f_06ff, 0, 0, 0]),
        (0xa, [0x0730_0804, 1 << 4, 0, 0x603]),
    ];
    let pmu = Pmu::from_cpuid(&Leaves::recorded(&leaves));
    assert!(pmu.model().is_none());
    assert_eq!(
        missing_list_message(&pmu, "`pmctl list` shows them"),
        "pmctl has no list for this CPU (family 0x6, model 0xff), only generic events and metrics: `pmctl list` shows them."
    );
}

#[test]
fn all_models_have_lists_without_a_name_twice() {
    for model in models() {
        let pmu = Pmu::of_model(model);
        let named_events = all_named_events(&pmu);
        let mut names: Vec<String> = named_events
            .iter()
            .map(|event| event.name.to_ascii_lowercase())
            .collect();
        let number = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), number, "{}", model.name());
        assert!(
            named_events
                .iter()
                .filter(|event| event.is_countable_and_not_outdated())
                .count()
                > 40,
            "{}",
            model.name()
        );
        // Each listed name is accepted by -e, some only with precise samples.
        for event in named_events.iter().filter(|event| event.counters.is_ok()) {
            let name = &event.name;
            let is_accepted = |text: &str| spec::parse(text, &pmu).is_ok();
            assert!(
                is_accepted(name) || is_accepted(&format!("{name}:pp")),
                "{} {name}",
                model.name(),
            );
        }
    }
}
