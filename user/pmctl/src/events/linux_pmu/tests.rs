// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with the PMUs of recorded machines.

use std::path::Path;

use perfmon::spec::SampleRate;
use perfmon::{Modes, Pmu};

use super::format::Configs;
use super::*;
use crate::system::exit::Usage;
use crate::system::machine::Machine;
use crate::system::pmu::testing;

/// Returns a machine of `tests/trees`.
fn machine(tree: &str) -> Machine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees");
    Machine::recorded(&folder.join(tree)).expect("it is there")
}

/// Splits the text of -e on a machine of `tests/trees`.
fn split_on(tree: &str, text: &str) -> Result<(Vec<String>, Vec<PmuEvent>), Usage> {
    let cores: Pmu = testing::intel();
    split(&[text.to_owned()], &machine(tree), &cores)
}

/// Splits the text of -e of `record` on a machine with `ibs_op`.
fn split_sampled_on_amd(text: &str) -> Result<(Vec<String>, Vec<PmuEvent>), Usage> {
    let cores: Pmu = testing::intel();
    split_sampled(&[text.to_owned()], &machine("uncore-amd"), &cores)
}

/// Returns the only event of a text.
fn event(tree: &str, text: &str) -> PmuEvent {
    let (rest, mut found) = split_on(tree, text).expect(text);
    assert_eq!((rest.len(), found.len()), (0, 1), "{text}");
    found.remove(0)
}

/// Returns the error message of a text.
fn error(tree: &str, text: &str) -> String {
    split_on(tree, text).expect_err(text).to_string()
}

/// Returns the type, the words and the CPUs for each PMU of an event.
fn encodings_of(tree: &str, text: &str) -> Vec<(u32, Configs, Option<String>)> {
    let one = |encoding: Encoding| {
        let cpus = encoding.cpus.map(|cpus| cpus.to_string());
        (encoding.number, encoding.configs, cpus)
    };
    event(tree, text).encodings.into_iter().map(one).collect()
}

#[test]
fn events_of_pmus_are_found_among_others() {
    let text = "cycles,uncore_imc/data_reads/,cpu/event=0xc0,umask=0/u,instructions/period=9/,msr/tsc/,msr/tsc/";
    let (rest, found) = split_on("uncore-client", text).expect("they are there");
    assert_eq!(
        rest,
        ["cycles,cpu/event=0xc0,umask=0/u,instructions/period=9/"]
    );
    let labels: Vec<&str> = found.iter().map(|event| &*event.label).collect();
    assert_eq!(labels, ["uncore_imc/data_reads/", "msr/tsc/"]);
    let scale = |factor, unit: &str| {
        let unit = unit.to_owned();
        Some(Scale { factor, unit })
    };
    assert_eq!(found[0].scale, scale(6.103_515_625e-5, "MiB"));
    assert_eq!(found[1].scale, None);
    let energy = event("uncore-client", "power/energy-psys,name=all/");
    assert_eq!(energy.label, "all");
    assert_eq!(energy.scale, scale(2.328_306_436_538_696_3e-10, "Joules"));
}

#[test]
fn fields_are_where_the_pmu_has_them() {
    let first = |config| [config, 0, 0, 0, 0];
    let zero = || Some("0".to_owned());
    let sockets = || Some("0,18".to_owned());
    let table = [
        (
            "uncore-client",
            "uncore_imc/data_reads/",
            vec![(13, first(1), zero())],
        ),
        (
            "uncore-client",
            "cstate_core/c6-residency/",
            vec![(16, first(2), Some("0-3".to_owned()))],
        ),
        (
            "uncore-client",
            "msr/event=0x4/",
            vec![(10, first(4), None)],
        ),
        ("uncore-client", "msr/config=4/", vec![(10, first(4), None)]),
        // Both controllers, by any of their names.
        (
            "uncore-server",
            "uncore_imc/cas_count_read/",
            vec![(13, first(0x304), sockets()), (14, first(0x304), sockets())],
        ),
        (
            "uncore-server",
            "imc/cas_count_read,edge,thresh=3/",
            vec![
                (13, first(0x0304_0304), sockets()),
                (14, first(0x0304_0304), sockets()),
            ],
        ),
        (
            "uncore-server",
            "imc_1/clockticks/",
            vec![(14, first(0), sockets())],
        ),
        (
            "uncore-server",
            "uncore_cha/event=0x35,umask=0x21,filter_opc_0=0x3ff/",
            vec![(20, [0x2135, 0x3ff << 41, 0, 0, 0], sockets())],
        ),
        // The field `event` has 14 bits in two parts of the word, and `umask` has 12 bits.
        (
            "uncore-amd",
            "amd_df/event=0x3f1f,umask=0xffe/",
            vec![(9, first(0x3f_0f00_fe1f), zero())],
        ),
        (
            "uncore-amd",
            "amd_umc/event=0x0a,rdwrmask=0x1/",
            vec![(12, first(0x10a), zero()), (13, first(0x10a), zero())],
        ),
        (
            "uncore-amd",
            "ibs_op/cnt_ctl/",
            vec![(11, first(1 << 19), None)],
        ),
    ];
    for (tree, text, expected) in table {
        assert_eq!(encodings_of(tree, text), expected, "{text}");
    }
}

#[test]
fn an_event_of_all_cpus_can_be_limited_to_some() {
    let residency = event("uncore-client", "cstate_core/c6-residency/");
    let cpus = residency.cpus().expect("it is of cores");
    assert_eq!(residency.clone().limit_to_cpus(&cpus), residency);
    let clock = event("uncore-client", "msr/tsc/");
    assert_eq!(clock.cpus(), None);
    let clock = clock.limit_to_cpus(&cpus);
    assert_eq!(
        (&*clock.label, clock.cpus()),
        ("msr/tsc,cpu=0-3/", Some(cpus))
    );
}

#[test]
fn wrong_events_are_refused_with_the_reason() {
    let table = [
        (
            "uncore_imx/data_reads/",
            "no PMU `uncore_imx` here.\nDid you mean `uncore_imc`?",
        ),
        (
            "uncore_imc/data_read/",
            "no event and no field `data_read`.\nDid you mean `data_reads`",
        ),
        ("mrs/tsc/", "Did you mean `msr`?"),
        ("msr/tcs/", "Did you mean `tsc`?"),
        ("uncore_imc/umask=1/", "`uncore_imc` has no field `umask`."),
        (
            "uncore_imc/event=0x100/",
            "`event=0x100`: the field takes 0xff at most.",
        ),
        ("uncore_imc/event=x/", "`x` is not a number"),
        (
            "uncore_imc/data_reads,data_writes/",
            "`data_reads` and `data_writes` are two events",
        ),
        ("uncore_imc//", "a field is missing"),
        ("uncore_imc/data_reads", "the second slash is missing"),
        (
            "uncore_imc/data_reads/u",
            "counts all modes together, user and kernel. Leave out `u`",
        ),
        (
            "uncore_imc/data_reads/:k",
            "counts all modes together, user and kernel. Leave out `:k`",
        ),
        ("{cycles,uncore_imc/data_reads/}", "can't be in a group"),
        (
            "{cycles,uncore_imc/data_reads/,branches}",
            "can't be in a group",
        ),
        ("msr/cpu_thermal_margin/", "is a level"),
        ("msr/event=7/", "`cpu_thermal_margin` is a level"),
        ("kprobe/config=1/", "`kprobe` are perf's"),
    ];
    for (text, expected) in table {
        let message = error("uncore-client", text);
        assert!(message.contains(expected), "{text}: {message}");
        let (event, _) = message.split_once(':').expect("it names the event");
        assert!(event.starts_with("-e "), "{message}");
    }
}

#[test]
fn samples_have_modes_and_rates() {
    let text = "cycles:u,ibs_op//,ibs_op/cnt_ctl=1,period=1009,name=ops/u,ibs_op/freq=99/:k,software/config=0x1/,\
                page-faults/period=1/u";
    let (rest, found) = split_sampled_on_amd(text).expect("they are there");
    assert_eq!(rest, ["cycles:u"]);
    let all = found.iter().map(|event| {
        let encoding = &event.encodings[0];
        let configs = encoding.sampled_configs(event.modes);
        (&*event.label, encoding.number, configs, event.rate)
    });
    // With a mode, `swfilt` is set: Linux leaves out the samples of other modes.
    let expected = [
        ("ibs_op//", 11, [0, 0, 0, 0, 0], None),
        (
            "ops",
            11,
            [1 << 19, 0, 1, 0, 0],
            Some(SampleRate::Period(1009)),
        ),
        (
            "ibs_op/freq=99/:k",
            11,
            [0, 0, 1, 0, 0],
            Some(SampleRate::Frequency(99)),
        ),
        ("software/config=0x1/", 1, [1, 0, 0, 0, 0], None),
        (
            "page-faults/period=1/u",
            1,
            [2, 0, 0, 0, 0],
            Some(SampleRate::Period(1)),
        ),
    ];
    assert_eq!(all.collect::<Vec<_>>(), expected);
    let mut event = found[0].clone();
    assert!(event.limit_modes_if_unmodified(Modes::User));
    assert_eq!(
        (
            &*event.label,
            event.encodings[0].sampled_configs(event.modes)[2]
        ),
        ("ibs_op//u", 1)
    );
    assert!(!event.limit_modes_if_unmodified(Modes::Kernel));
}

#[test]
fn wrong_events_to_sample_are_refused_with_the_reason() {
    let table = [
        ("ibs_op//p", "take the modes `u` and `k`"),
        ("ibs_op/period=0/", "takes a number of 1 or more"),
        ("ibs_op/freq=x/", "takes a number of 1 or more"),
        ("ibs_op/,cnt_ctl/", "a field is missing"),
        (
            "ibs_fetch//",
            "no PMU `ibs_fetch` here.\nDid you mean `ibs_op`?",
        ),
        ("breakpoint//", "pmctl can't sample them"),
        ("{cycles,ibs_op//}", "can't be in a group"),
    ];
    for (text, expected) in table {
        let message = split_sampled_on_amd(text).expect_err(text).to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
    // A count has no period, and needs a field.
    assert!(error("uncore-amd", "ibs_op/period=9/").contains("no field `period`"));
    assert!(error("uncore-amd", "ibs_op//").contains("a field is missing"));
}
