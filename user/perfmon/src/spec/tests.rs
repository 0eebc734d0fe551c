// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests from text to event select, on an Intel PMU with 8 general and 3 fixed counters that lacks the events
//! `cache-misses` and `slots`.

use proptest::prelude::*;

use super::*;
use crate::event::Encoding;
use crate::pmu::testing;
use crate::{CounterId, Modes};

fn parse_all(text: &str) -> Vec<EventSpec> {
    parse_without_groups(text, &testing::intel()).unwrap_or_else(|error| panic!("{error}"))
}

fn parse_one(text: &str) -> EventSpec {
    let mut events = parse_all(text);
    assert_eq!(events.len(), 1, "{text}");
    events.remove(0)
}

/// Returns the select on a general counter.
fn select(text: &str) -> u64 {
    parse_one(text).select_on(CounterId::General(0)).bits()
}

/// Returns the error message for a malformed text.
fn fault_text(text: &str) -> String {
    match parse_without_groups(text, &testing::intel()) {
        Ok(events) => panic!("{text} was taken for {events:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn names_have_their_encodings() {
    let table = [
        ("instructions", 0x0003_00c0),
        ("INSTRUCTIONS:u", 0x0001_00c0),
        ("cycles:k", 0x0002_003c),
        ("cycles:D", 0x0003_003c),
        ("cycles:kSW", 0x0002_003c),
        ("cpu-cycles:uk", 0x0003_003c),
        ("bus-cycles:u", 0x0001_013c),
        ("cache-references:u", 0x0001_4f2e),
        ("branches:u", 0x0001_00c4),
        ("branch-misses:u", 0x0001_00c5),
        ("cpu/branches/u", 0x0001_00c4),
    ];
    for (text, bits) in table {
        assert_eq!(select(text), bits, "{text}");
    }
}

#[test]
fn raw_encodings_and_fields_give_the_same_select() {
    let table = [
        ("r1c0:u", "cpu/event=0xc0,umask=1/u", 0x0001_01c0),
        ("r00c0", "cpu/event=192/", 0x0003_00c0),
        ("r1c0", "cpu/event=0XC0, umask=0X1/", 0x0003_01c0),
        (
            "r284003c:k",
            "cpu/event=0x3c,cmask=2,inv,edge=1/k",
            0x0286_003c,
        ),
        (
            "r104003c:k",
            "cpu/cmask=1,edge,inv=0,event=0x3c/k",
            0x0106_003c,
        ),
        ("rff0000ff", "cpu/config=0xff0000ff/", 0xff03_00ff),
    ];
    for (raw, fields, bits) in table {
        assert_eq!(select(raw), bits, "{raw}");
        assert_eq!(select(fields), bits, "{fields}");
    }
}

/// Event numbers of 12 bits, which only AMD has.
#[test]
fn large_event_numbers_are_amds() {
    let pmu = testing::amd();
    for text in [
        "r1000004cd:u",
        "cpu/event=0x1cd,umask=4/u",
        "cpu/config=0x1000004cd/u",
    ] {
        let events = parse_without_groups(text, &pmu).unwrap_or_else(|error| panic!("{error}"));
        let select = events[0].select_on(CounterId::General(0));
        assert_eq!(select.bits(), 0x1_0001_04cd, "{text}");
    }
    let table = [
        ("r1000000000", "more than the 36 bits"),
        ("cpu/event=0x1000/", "from 0 to 0xfff"),
        ("cpu/event=0x1cd,config=1/", "set these bits already"),
        ("r1002000cd", "bit 21 (AnyThread)"),
    ];
    for (text, message) in table {
        let error = parse_without_groups(text, &pmu).expect_err("it is wrong");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

#[test]
fn the_label_is_what_was_written_or_the_name() {
    let labels: Vec<String> = parse_all("cycles:u,r1c0,cpu/event=1,name=mine/u")
        .into_iter()
        .map(|event| event.label)
        .collect();
    assert_eq!(labels, ["cycles:u", "r1c0", "mine"]);
    let group = parse_or_absent("{cycles,r1c0:k}:PMC1,branches", &testing::intel());
    let group = group.expect("it is well formed").into_iter();
    let labels: Vec<String> = group.map(|event| event.label).collect();
    assert_eq!(labels, ["cycles:PMC1", "r1c0:k:PMC1", "branches"]);
}

#[test]
fn fixed_counters_go_with_their_events() {
    assert_eq!(parse_one("instructions").fixed, Some(0));
    assert_eq!(parse_one("cycles").fixed, Some(1));
    let fixed_only_event = parse_one("INST_RETIRED.ANY");
    assert_eq!(
        (fixed_only_event.general, fixed_only_event.fixed),
        (None, Some(0))
    );
    let fixed_event = parse_one("fixed2:k");
    assert_eq!(
        (fixed_event.general, fixed_event.fixed, fixed_event.modes),
        (None, Some(2), Modes::Kernel)
    );
    assert_eq!(
        fixed_event.select_on(CounterId::Fixed(2)).bits(),
        0x0002_0000
    );
    assert_eq!(parse_one("r1c0").fixed, None);
    // Linux's pseudo-encoding of fixed counter 2, whose event no general counter counts.
    assert_eq!(
        (parse_one("r300").general, parse_one("r300").fixed),
        (None, Some(2))
    );
}

#[test]
fn a_counter_can_be_asked_for() {
    assert_eq!(parse_one("r1c0:PMC7:u").pinned, Some(CounterId::General(7)));
    assert_eq!(
        parse_one("instructions:fixed0").pinned,
        Some(CounterId::Fixed(0))
    );
    assert_eq!(parse_one("cycles").pinned, None);
}

#[test]
fn an_event_that_the_cpu_lacks_is_returned_as_absent() {
    let labels_and_absence = |text| -> Result<Vec<(String, bool)>, String> {
        let events = parse_or_absent(text, &testing::intel()).map_err(|error| error.to_string())?;
        let events = events.into_iter().map(|e| (e.label.clone(), e.is_absent()));
        Ok(events.collect())
    };
    let (cycles, misses) = ("cycles:u".to_owned(), "cache-misses:u".to_owned());
    assert_eq!(
        labels_and_absence("cycles:u,cache-misses:u"),
        Ok(vec![(cycles, false), (misses, true)])
    );
    assert!(
        labels_and_absence("cache-misses")
            .is_err_and(|error| error.contains("does not have the event"))
    );
    assert!(
        labels_and_absence("cycles,cache-mises")
            .is_err_and(|error| error.contains("no event is called"))
    );
}

#[test]
fn a_label_is_the_text_or_the_chosen_name() {
    let labels = |text| -> Vec<String> { parse_all(text).into_iter().map(|e| e.label).collect() };
    assert_eq!(
        labels("cycles:u, r1c4,branches:k"),
        ["cycles:u", "r1c4", "branches:k"]
    );
    // A name that the user chose stays.
    assert_eq!(labels("cpu/event=0x3c,name=mine/:k"), ["mine"]);
}

#[test]
fn default_events_that_the_cpu_lacks_are_left_out() {
    let names: Vec<String> = default_events(&testing::intel())
        .into_iter()
        .map(|event| event.label)
        .collect();
    assert_eq!(
        names,
        ["instructions", "cycles", "branches", "branch-misses"]
    );
}

/// Text, message, column of the first caret, number of carets, and help.
const FAULTS: &[(&str, &str, usize, usize, &str)] = &[
    (
        "cycles,instrucions:u",
        "no event is called `instrucions`",
        7,
        11,
        "`instructions`",
    ),
    (
        "cache-misses",
        "does not have the event",
        0,
        12,
        "CPUID.0AH:EBX[4]",
    ),
    ("slots", "does not have the event", 0, 5, "CPUID.0AH:EBX[7]"),
    (
        "ex_ret_brn",
        "no event is called",
        0,
        10,
        "this CPU's name for the same event is `branches`",
    ),
    ("zzzzzz", "no event is called", 0, 6, "rUUEE"),
    ("r", "no event is called `r`", 0, 1, "hexadecimal digits"),
    (
        "rzz:u",
        "no event is called `rzz`",
        0,
        3,
        "hexadecimal digits",
    ),
    ("reff-cycles", "no event is called", 0, 11, "`ref-cycles`"),
    (
        "task-clock",
        "`task-clock` is not an event of the CPU",
        0,
        10,
        "The kernel counts it. `pmctl stat` counts clocks",
    ),
    (
        "duration_time",
        "`duration_time` is not an event of the CPU",
        0,
        13,
        "`pmctl stat` always prints",
    ),
    ("cycles:pppp", "no precision is higher", 7, 4, ""),
    (
        "cycles:p:pp",
        "the event has another precision already",
        9,
        2,
        "",
    ),
    (
        "L1-dcache-load-misses",
        "does not have the event",
        0,
        21,
        "no table of cache events for this CPU model",
    ),
    (
        "{cycles,r1c0}",
        "groups are for",
        1,
        6,
        "without the braces",
    ),
    (
        "TOPDOWN.SLOTS",
        "does not have the event",
        0,
        13,
        "Only fixed counter 3",
    ),
    (
        "fixed3",
        "no fixed counter 3",
        0,
        6,
        "`fixed0`, `fixed1`, `fixed2`",
    ),
    ("r100000000", "more than the 32 bits", 0, 10, ""),
    ("a,r100c0", "no event is called `a`", 0, 1, ""),
    ("r300c0", "bits 16 and 17 select the modes", 0, 6, ":u"),
    (
        "r4000c0",
        "bit 22 starts the counter",
        0,
        7,
        "driver sets it",
    ),
    ("r2000c0", "bit 21 (AnyThread)", 0, 7, "not allow"),
    (
        "cpu/event=0x100/",
        "takes a number from 0 to 0xff",
        10,
        5,
        "",
    ),
    ("cpu/event=0xzz/", "takes a number", 10, 4, ""),
    ("cpu/event/", "`event` needs a value", 4, 5, "event=0x1"),
    ("cpu/edge=2/", "takes a number from 0 to 0x1", 9, 1, ""),
    ("cpu/event=1,event=2/", "set these bits already", 12, 5, ""),
    ("cpu/event=1,config=2/", "set these bits already", 12, 6, ""),
    ("cpu/evnt=1/", "no field `evnt`", 4, 4, "event"),
    (
        "cpu/instructions,u/",
        "is a whole event",
        17,
        1,
        "`cpu/instructions/u`",
    ),
    (
        "probe:foo",
        "is not an event of the CPU",
        0,
        9,
        "tracepoint",
    ),
    ("cpu/event=1,any/", "sibling hyperthread", 12, 3, ""),
    ("cpu/event=1,name=/", "`name` needs a value", 12, 4, ""),
    ("cpu/config=0x10000/", "bits 16 and 17", 4, 14, ":u"),
    ("cycles:x", "no modifier is called `x`", 7, 1, ":PMC0"),
    ("cycles:ue", "modifier `e` can't be used", 7, 2, ""),
    ("cycles:", "a modifier is missing", 7, 1, ":u"),
    ("cycles:u:k", "has other modes already", 9, 1, ""),
    ("cycles:PMC8", "no general counter 8", 7, 4, "It has 8"),
    ("cycles:PMC0:PMC1", "has a counter already", 12, 4, ""),
    ("cycles:FIXED0", "counts another event", 7, 6, "FIXED1"),
    (
        "r1c0:FIXED0",
        "counts another event",
        5,
        6,
        "No fixed counter",
    ),
    ("fixed0:PMC0", "general counters can't", 7, 4, ""),
    ("cycles:FIXED9", "no fixed counter 9", 7, 6, ""),
    ("cycles r1c0", "a comma must stand", 7, 1, ""),
    (
        "cycles:u/period=9/",
        "stand before its modifiers",
        8,
        1,
        "Write cycles/period=9/u",
    ),
    (
        "{cycles,instructions:u/period=1/}",
        "stand before its modifiers",
        22,
        1,
        "Write instructions/period=1/u",
    ),
];

#[test]
fn faults_have_message_caret_and_help() {
    for (text, message, column, width, help) in FAULTS {
        let error_text = fault_text(text);
        let lines: Vec<&str> = error_text.lines().collect();
        assert!(lines[0].contains(message), "{text}: {error_text}");
        assert_eq!(lines[1].trim_start(), *text);
        let caret = format!("  {}{}", " ".repeat(*column), "^".repeat(*width));
        assert_eq!(lines[2], caret, "{text}: {error_text}");
        assert!(lines[3..].join(" ").contains(help), "{text}: {error_text}");
    }
}

proptest! {
    /// No text causes a panic, and a select never has bits that the driver refuses.
    #[test]
    fn any_text_is_understood_or_refused(
        text in "(cycles|r[0-9a-f]{1,9}|cpu/(event|umask|cmask|config)=0x[0-9a-f]{1,8}(,inv|,edge)?/)(:[a-zA-Z0-9]{0,6}){0,2}"
    ) {
        if let Ok(events) = parse_without_groups(&text, &testing::intel()) {
            for event in events {
                let bits = event.select_on(CounterId::General(0)).bits();
                prop_assert_eq!(bits & 0x0078_0000, 0);
                prop_assert!(bits & 0x0003_0000 != 0);
            }
        }
    }

    /// A raw encoding keeps its bits.
    #[test]
    fn raw_bits_are_kept(bits in any::<u32>()) {
        let bits = u64::from(bits & !0x007b_0000);
        prop_assert_eq!(select(&format!("r{bits:x}:u")), bits | 0x0001_0000);
    }
}

#[test]
fn caches_have_the_encoding_of_the_table() {
    let parse_first = |pmu: &Pmu, text| parse(text, pmu).map(|mut events| events.remove(0));
    let loads = parse_first(&testing::skylake(), "L1-dcache-loads:u").expect("Skylake has it");
    assert_eq!(loads.label, "L1-dcache-loads:u");
    assert_eq!(loads.encoding, Some(Encoding::Cache(0)));
    assert_eq!(loads.select_on(CounterId::General(0)).bits(), 0x1_81d0);
    let misses = parse_first(&testing::amd(), "cpu/dTLB-load-misses/u").expect("Zen 4 has it");
    assert_eq!(misses.encoding, Some(Encoding::Cache(0x1_0003)));
    let error = parse_first(&testing::skylake(), "LLC-loads").expect_err("Skylake lacks it");
    assert!(error.is_absent() && error.to_string().contains("extra register"));
    let events = parse_or_absent("{cycles,LLC-loads}", &testing::skylake());
    let events = events.expect("one of them is there");
    assert!(events[1].is_absent() && events[1].group == Some(0));
    assert!(
        events[1]
            .missing
            .as_deref()
            .is_some_and(|reason| reason.contains("Skylake"))
    );
}

#[test]
fn names_are_encoded_by_perfs_numbers() {
    let encoding = |text| parse_one(text).encoding.map(Encoding::numbers);
    assert_eq!(encoding("instructions:u"), Some((0, 1)));
    assert_eq!(encoding("BR_INST_RETIRED.ALL_BRANCHES"), Some((0, 4)));
    assert_eq!(encoding("INST_RETIRED.ANY"), Some((0, 1)));
    assert_eq!(encoding("r1c0:u"), Some((4, 0x1c0)));
    assert_eq!(encoding("fixed1"), Some((0, 0)));
    let event = parse_one("cycles:k").builder().expect("it is there");
    assert_eq!(event.encoding(), Encoding::Hardware(0));
}

#[test]
fn an_event_may_be_of_one_kind_of_core() {
    let numbers = |text| {
        let events = parse(text, &testing::hybrid()).unwrap_or_else(|error| panic!("{error}"));
        let builder = events[0].builder().expect("it is there");
        (events[0].core_type, builder.attr.type_, builder.attr.config)
    };
    let table = [
        ("cpu_core/cycles/u", (Some(4), 0, 4 << 32)),
        ("cpu_atom/instructions/", (Some(10), 0, 10 << 32 | 1)),
        ("cpu_core/event=0xc0,umask=1/", (Some(4), 4, 0x1c0)),
        ("cpu_atom/r1c0,period=9/", (Some(10), 10, 0x1c0)),
        (
            "cpu_atom/L1-icache-load-misses/",
            (Some(10), 3, 10 << 32 | 0x1_0001),
        ),
        // The same name has a different encoding on each kind of core.
        ("ARITH.FPDIV_ACTIVE", (None, 4, 0x0100_01b0)),
        ("cpu_atom/ARITH.FPDIV_ACTIVE/", (Some(10), 10, 0x2cd)),
        // Only small cores have these events.
        ("ARITH.FPDIV_UOPS:u", (Some(10), 10, 0x8cd)),
        ("cpu/ARITH.FPDIV_UOPS,cmask=1/", (Some(10), 10, 0x0100_08cd)),
        ("L1-icache-loads", (Some(10), 3, 10 << 32 | 1)),
        ("cycles", (None, 0, 0)),
        ("r1c0", (None, 4, 0x1c0)),
    ];
    for (text, expected) in table {
        assert_eq!(numbers(text), expected, "{text}");
    }
    let labels = parse(
        "cpu_atom/cycles/u,{cpu_core/cycles/,cpu_core/r1/}:k,cpu_atom/r1,name=x/",
        &testing::hybrid(),
    );
    let labels = labels
        .expect("they exist")
        .into_iter()
        .map(|event| event.label);
    assert_eq!(
        labels.collect::<Vec<_>>(),
        [
            "cpu_atom/cycles/u",
            "cpu_core/cycles/:k",
            "cpu_core/r1/:k",
            "x"
        ]
    );
}

#[test]
fn a_kind_of_core_that_is_missing_is_refused() {
    let error_text = |text, pmu: &Pmu| parse(text, pmu).expect_err(text).to_string();
    let text = error_text("cpu_lowpower/cycles/", &testing::hybrid());
    assert!(text.contains("no cores `cpu_lowpower`"), "{text}");
    assert!(text.contains("It has `cpu_core` and `cpu_atom`."), "{text}");
    let text = error_text("cpu_core/cycles/", &testing::intel());
    assert!(text.contains("not of several kinds"), "{text}");
    // The small cores lack the event.
    let text = error_text("cpu_atom/L1-dcache-load-misses/", &testing::hybrid());
    assert!(text.contains("does not have the event"), "{text}");
}

#[test]
fn one_event_is_found_by_its_name() {
    use crate::{Cause, Event};
    let find = |text| Event::named_on(text, &testing::skylake()).map(|event| event.encoding());
    let cause = |text| find(text).expect_err("it can't be opened").cause;
    assert_eq!(
        find("L1-dcache-load-misses:u").ok(),
        Some(Encoding::Cache(0x1_0000))
    );
    assert_eq!(cause("cycles,branches"), Cause::SeveralEvents);
    assert_eq!(
        cause("cycles:PMC1"),
        Cause::ChosenCounter(CounterId::General(1))
    );
    assert!(matches!(cause("{cycles}"), Cause::Spec(_)));
    let error = find("LLC-loads").expect_err("Skylake lacks it");
    let expected = "can't count `LLC-loads`: this CPU does not have the event `LLC-loads`";
    assert_eq!(error.to_string(), expected);
    assert!(
        error
            .cause
            .help()
            .is_some_and(|help| help.contains("extra register"))
    );
}

#[test]
fn without_a_pmu_the_help_says_so() {
    #[derive(Clone)]
    struct None;
    impl raw_cpuid::CpuIdReader for None {
        fn cpuid2(&self, _: u32, _: u32) -> raw_cpuid::CpuIdResult {
            raw_cpuid::CpuIdResult {
                eax: 0,
                ebx: 0,
                ecx: 0,
                edx: 0,
            }
        }
    }
    let error = parse("cycles", &Pmu::from_cpuid(&None)).expect_err("it has none");
    assert!(
        error
            .help()
            .is_some_and(|help| help.starts_with("It has no PMU: "))
    );
}

#[test]
fn an_event_may_have_a_precision() {
    let precision = |text| parse_one(text).precision;
    assert_eq!(precision("cycles:u"), None);
    assert_eq!(precision("cycles:p"), Some(Precision::Level(1)));
    assert_eq!(precision("cycles:uppp"), Some(Precision::Level(3)));
    assert_eq!(precision("r1c0:pp:k"), Some(Precision::Level(2)));
    assert_eq!(precision("cycles:P"), Some(Precision::Highest));
    assert_eq!(parse_one("cycles:ppk").modes, Modes::Kernel);
    let grouped_events = parse("{cycles,r1c0}:pp", &testing::intel()).expect("they exist");
    assert!(
        grouped_events
            .iter()
            .all(|event| event.precision == Some(Precision::Level(2)))
    );
    assert_eq!(grouped_events[0].label, "cycles:pp");
}

#[test]
fn an_event_may_have_a_rate() {
    let rate = |text| parse_one(text).rate;
    assert_eq!(rate("instructions"), None);
    let period = Some(SampleRate::Period(1009));
    assert_eq!(rate("cpu/event=0xc0,period=1009/u"), period);
    assert_eq!(rate("cpu/instructions,period=1009/"), period);
    assert_eq!(rate("instructions/period=1009/u"), period);
    assert_eq!(parse_one("instructions/period=9/u").modes, Modes::User);
    assert_eq!(
        parse_one("instructions/period=9/").meaning,
        parse_one("instructions").meaning
    );
    assert_eq!(
        parse_one("cpu/instructions,period=9/").meaning,
        parse_one("instructions").meaning
    );
    assert_eq!(
        rate("cpu/event=0xc0,freq=99/"),
        Some(SampleRate::Frequency(99))
    );
    for text in [
        "cpu/event=0xc0,period/",
        "cpu/event=0xc0,period=0/",
        "cpu/event=0xc0,freq=x/",
        "cpu/event=0xc0,period=9223372036854775808/",
    ] {
        assert!(parse(text, &testing::intel()).is_err(), "{text}");
    }
}
