// SPDX-License-Identifier: MIT OR Apache-2.0

use std::collections::BTreeMap;

use perfmon::spec::{self, EventSpec, models};

use super::*;
use crate::events::schedule::{CounterSupply, schedule};

const FACTS: MachineFacts = MachineFacts {
    is_smt: false,
    online: 4,
};

fn pmu(model: &str) -> Pmu {
    Pmu::of_model(models::model(model).expect("it is a model"))
}

fn message(word: &str, pmu: &Pmu) -> String {
    match find(word, &all(pmu), pmu) {
        Ok(_) => panic!("{word} was found"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn metrics_are_found_by_name_and_by_group() {
    let skylake = pmu("skylake");
    let all = all(&skylake);
    let names = |word: &str| -> Vec<&str> {
        let wanted_metrics = find(word, &all, &skylake).unwrap_or_else(|error| panic!("{error}"));
        wanted_metrics
            .metrics
            .iter()
            .map(|metric| metric.name)
            .collect()
    };
    assert_eq!(names("TMA_retiring"), ["tma_retiring"]);
    assert_eq!(
        names("TopdownL1"),
        [
            "tma_backend_bound",
            "tma_bad_speculation",
            "tma_frontend_bound",
            "tma_retiring"
        ]
    );
    assert!(names("Default").contains(&"insn_per_cycle"));
}

#[test]
fn unknown_metrics_have_messages() {
    let skylake = pmu("skylake");
    let not_of_cores = message("tma_info_system_dram_bw_use", &skylake);
    assert!(
        not_of_cores.contains("needs UNC_") && not_of_cores.contains("not an event of a core"),
        "{not_of_cores}"
    );
    let message_of_similar = message("tma_retirin", &skylake);
    assert!(
        message_of_similar.contains("Did you mean `tma_retiring`"),
        "{message_of_similar}"
    );
    let message = message("xyz", &crate::system::pmu::testing::intel());
    assert!(message.contains("whose model is unknown"), "{message}");
}

/// Evaluates all metrics of all models with made-up counts.
#[test]
fn every_formula_of_every_model_has_a_value() {
    let mut metrics_of_models = 0;
    for model in models::models() {
        let pmu = Pmu::of_model(model);
        for is_smt in [false, true] {
            let mut formulas = Formulas::new(MachineFacts { is_smt, online: 4 });
            for metric in all(&pmu) {
                let events = formulas
                    .add(&metric, pmu.model())
                    .unwrap_or_else(|error| panic!("{} {error:#}", model.name()));
                let of_cores = |event: &&String| !linux_pmu::is_pmu_event(event, &pmu);
                for event in events.iter().filter(of_cores) {
                    let result = spec::parse(event, &pmu);
                    assert!(
                        result.as_ref().err().is_none_or(spec::SpecError::is_absent),
                        "{} {}: {}",
                        model.name(),
                        metric.name,
                        result.expect_err("it is one")
                    );
                }
                // Some formulas divide by differences, which are 0 with some counts.
                let has_value = (1..30).any(|choice| {
                    let count = |name: &str| {
                        let bytes = name.bytes().map(u32::from);
                        let mixed = bytes.fold(choice, |mixed: u32, byte| {
                            mixed.wrapping_mul(16_777_619) ^ byte
                        });
                        // Some formulas need more slots than uops.
                        let slots = if name.ends_with("SLOTS_P") { 50.0 } else { 1.0 };
                        Some(slots * f64::from(1 + mixed % 9973))
                    };
                    formulas.value(&metric, &count).is_some()
                });
                assert!(
                    has_value,
                    "{} {} = {}",
                    model.name(),
                    metric.name,
                    metric.formula
                );
                metrics_of_models += 1;
            }
        }
    }
    assert!(metrics_of_models > 8000, "{metrics_of_models}");
}

type Count = (&'static str, f64);
/// Model, metric, counts, and value.
type Row = (&'static str, &'static str, &'static [Count], f64);

/// Values that were computed by hand.
const BY_HAND: [Row; 9] = [
    (
        "skylake",
        "tma_frontend_bound",
        &[
            ("IDQ_UOPS_NOT_DELIVERED.CORE", 500.0),
            ("CPU_CLK_UNHALTED.THREAD", 1000.0),
        ],
        12.5,
    ),
    (
        "skylake",
        "tma_backend_bound",
        &[
            ("IDQ_UOPS_NOT_DELIVERED.CORE", 400.0),
            ("UOPS_ISSUED.ANY", 1000.0),
            ("INT_MISC.RECOVERY_CYCLES", 50.0),
            ("CPU_CLK_UNHALTED.THREAD", 1000.0),
        ],
        // 1 - 400 / 4000 - (1000 + 4 * 50) / 4000
        60.0,
    ),
    (
        "sapphirerapids",
        "tma_bad_speculation",
        &[
            ("IDQ_BUBBLES.CORE", 100.0),
            ("INT_MISC.UOP_DROPPING", 10.0),
            ("TOPDOWN.BACKEND_BOUND_SLOTS", 300.0),
            ("UOPS_RETIRED.SLOTS", 500.0),
            ("TOPDOWN.SLOTS_P", 1000.0),
        ],
        // 1 - ((100 - 10) + 300 + 500) / 1000
        11.0,
    ),
    // Level 2 of the top-down method, and AMD's two levels.
    (
        "skylake",
        "tma_branch_mispredicts",
        &[
            ("BR_MISP_RETIRED.ALL_BRANCHES", 30.0),
            ("MACHINE_CLEARS.COUNT", 10.0),
            ("UOPS_ISSUED.ANY", 1000.0),
            ("UOPS_RETIRED.RETIRE_SLOTS", 600.0),
            ("INT_MISC.RECOVERY_CYCLES", 50.0),
            ("CPU_CLK_UNHALTED.THREAD", 1000.0),
        ],
        // 30 / (30 + 10) of (1000 - 600 + 4 * 50) / 4000
        11.25,
    ),
    (
        "skylake",
        "tma_memory_bound",
        &[
            ("CYCLE_ACTIVITY.STALLS_MEM_ANY", 200.0),
            ("EXE_ACTIVITY.BOUND_ON_STORES", 50.0),
            ("CYCLE_ACTIVITY.STALLS_TOTAL", 350.0),
            ("EXE_ACTIVITY.1_PORTS_UTIL", 60.0),
            ("UOPS_RETIRED.RETIRE_SLOTS", 1600.0),
            ("CPU_CLK_UNHALTED.THREAD", 1000.0),
            ("EXE_ACTIVITY.2_PORTS_UTIL", 100.0),
            ("IDQ_UOPS_NOT_DELIVERED.CORE", 400.0),
            ("UOPS_ISSUED.ANY", 1800.0),
            ("INT_MISC.RECOVERY_CYCLES", 50.0),
        ],
        // (200 + 50) / (350 + 60 + 0.4 * 100 + 50) of 1 - 400 / 4000 - (1800 + 4 * 50) / 4000
        20.0,
    ),
    (
        "zen4",
        "frontend_bound",
        &[
            ("de_no_dispatch_per_slot.no_ops_from_frontend", 300.0),
            ("ls_not_halted_cyc", 1000.0),
        ],
        // The percentage of the slots: 300 of 6 slots in each of 1000 cycles.
        5.0,
    ),
    (
        "zen4",
        "backend_bound_memory",
        &[
            ("de_no_dispatch_per_slot.backend_stalls", 1200.0),
            ("ls_not_halted_cyc", 1000.0),
            ("ex_no_retire.load_not_complete", 30.0),
            ("ex_no_retire.not_complete", 40.0),
        ],
        // 30 / 40 of 1200 / 6000
        15.0,
    ),
    (
        "zen4",
        "branch_misprediction_ratio",
        &[("ex_ret_brn_misp", 5.0), ("ex_ret_brn", 200.0)],
        2.5,
    ),
    (
        "zen4",
        "insn_per_cycle",
        &[("instructions", 30.0), ("cycles", 20.0)],
        1.5,
    ),
];

#[test]
fn values_are_those_of_the_formulas_by_hand() {
    for (model, name, counts, expected) in BY_HAND {
        let pmu = pmu(model);
        let metric = find(name, &all(&pmu), &pmu).unwrap_or_else(|error| panic!("{error}"));
        let metric = metric.metrics[0];
        let mut formulas = Formulas::new(FACTS);
        let mut events = formulas
            .add(&metric, pmu.model())
            .expect("it is well formed");
        let counts: BTreeMap<&str, f64> = counts.iter().copied().collect();
        events.sort();
        assert_eq!(events, counts.keys().copied().collect::<Vec<_>>(), "{name}");
        let value = formulas.value(&metric, &|name| counts.get(name).copied());
        let value = value.expect("it has a value");
        assert!((value - expected).abs() < 1e-9, "{name}: {value}");
    }
}

#[test]
fn a_threshold_needs_its_counts() {
    let skylake = pmu("skylake");
    let metric = |name: &str| {
        let wanted_metrics = find(name, &all(&skylake), &skylake);
        wanted_metrics
            .unwrap_or_else(|error| panic!("{error}"))
            .metrics[0]
    };
    let mut formulas = Formulas::new(FACTS);
    let frontend = metric("tma_frontend_bound");
    formulas
        .add(&frontend, skylake.model())
        .expect("it is well formed");
    let value_with = |bubbles: f64| {
        formulas.is_notable(&frontend, &move |name| match name {
            "IDQ_UOPS_NOT_DELIVERED.CORE" => Some(bubbles),
            "CPU_CLK_UNHALTED.THREAD" => Some(1000.0),
            _ => None,
        })
    };
    assert_eq!(value_with(599.0), Some(false));
    assert_eq!(value_with(601.0), Some(true));
    assert_eq!(formulas.is_notable(&frontend, &|_| None), None);
}

fn events(text: &str) -> Vec<EventSpec> {
    spec::parse(text, &pmu("skylake")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn events_that_fit_share_a_run() {
    let supply = CounterSupply {
        general: 2,
        fixed: 0,
        busy: 0,
    };
    let item = |name: &str, text: &str| MetricEvents {
        name: name.to_owned(),
        events: events(text),
    };
    let items = [
        item("a", "r1,r2"),
        item("b", "r2,r3"),
        item("c", "r2"),
        item("d", "r1,r2,r3"),
        item("e", "r4"),
    ];
    let packed_runs = pack(&items, Some(supply));
    let places: [&[(usize, usize)]; 5] = [
        &[(0, 0), (0, 1)],
        &[(1, 0), (1, 1)],
        &[(0, 1)],
        &[(0, 0), (0, 1), (1, 1)],
        &[(2, 0)],
    ];
    assert_eq!(packed_runs.places, places);
    assert_eq!(packed_runs.split_items, ["d"]);
    for run in &packed_runs.runs {
        assert!(schedule(run, supply).is_ok());
    }
}

#[test]
fn an_item_without_events_has_no_run() {
    let supply = CounterSupply {
        general: 0,
        fixed: 0,
        busy: 0,
    };
    let item = |name: &str, events: Vec<EventSpec>| MetricEvents {
        name: name.to_owned(),
        events,
    };
    // No counter is free for `r1`, so it gets a run of its own.
    let items = [item("-e", Vec::new()), item("a", events("r1"))];
    let packed_runs = pack(&items, Some(supply));
    assert_eq!(packed_runs.runs, [events("r1")]);
    assert_eq!(packed_runs.places, [vec![], vec![(0, 0)]]);
}

#[test]
fn groups_stay_whole() {
    let supply = CounterSupply {
        general: 2,
        fixed: 0,
        busy: 0,
    };
    let item = |name: &str, text: &str| MetricEvents {
        name: name.to_owned(),
        events: events(text),
    };
    let items = [item("-e", "r1,{r2,r3},{r2,r4}"), item("a", "r4")];
    let packed_runs = pack(&items, Some(supply));
    let labels = packed_runs.runs.iter().map(|run| {
        let labels: Vec<&str> = run.iter().map(|event| &event.label[..]).collect();
        labels.join(",")
    });
    assert_eq!(labels.collect::<Vec<_>>(), ["r1,r4", "r2,r3", "r2,r4"]);
    let places: [&[(usize, usize)]; 2] = [&[(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)], &[(0, 1)]];
    assert_eq!(packed_runs.places, places);
}
