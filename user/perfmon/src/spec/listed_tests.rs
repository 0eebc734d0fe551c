// SPDX-License-Identifier: MIT OR Apache-2.0

use std::collections::BTreeSet;

use perfmon_events::{model, models};

use super::*;
use crate::CounterId;
use crate::pmu::testing;
use crate::spec::{EventSpec, named_events, parse, parse_or_absent};

/// Returns the PMU of a model.
fn pmu(name: &str) -> Pmu {
    Pmu::of_model(model(name).expect("it is a model"))
}

fn parse_one(text: &str, pmu: &Pmu) -> EventSpec {
    let mut events = parse(text, pmu).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(events.len(), 1, "{text}");
    events.remove(0)
}

/// Returns the error message for a malformed text.
fn fault_text(text: &str, pmu: &Pmu) -> String {
    match parse(text, pmu) {
        Ok(events) => panic!("{text} was taken for {events:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn names_of_the_model_have_their_encodings() {
    let table = [
        ("skylake", "UOPS_ISSUED.ANY", 0x0003_010e),
        ("skylake", "uops_issued.any:u", 0x0001_010e),
        ("skylake", "cpu/UOPS_ISSUED.ANY/k", 0x0002_010e),
        ("skylake", "UOPS_ISSUED.STALL_CYCLES", 0x0183_010e),
        ("skylake", "MACHINE_CLEARS.COUNT", 0x0107_01c3),
        (
            "skylake",
            "cpu/UOPS_ISSUED.ANY,cmask=4,inv,edge/u",
            0x0485_010e,
        ),
        ("skylake", "cpu/UOPS_ISSUED.ANY,umask=0x2/", 0x0003_020e),
        ("pantherlake-atom", "L2_REQUEST.ALL", 0x100_0003_ff24),
        (
            "lunarlake-core",
            "MEM_LOAD_RETIRED.L1_HIT:u",
            0x100_0001_01d1,
        ),
        (
            "pantherlake-atom",
            "cpu/event=0x24,umask=0x1ff/",
            0x100_0003_ff24,
        ),
        (
            "pantherlake-atom",
            "cpu/L2_REQUEST.ALL,umask=0x2ff/u",
            0x200_0001_ff24,
        ),
        ("zen4", "ls_dispatch.store_dispatch:u", 0x0001_0229),
        ("zen4", "ex_ret_fused_instr", 0x1_0003_00d0),
        ("fam16h", "RETIRED_UOPS:k", 0x0002_00c1),
        ("nehalemep", "UOPS_DECODED.STALL_CYCLES", 0x0183_01d1),
    ];
    for (name, text, bits) in table {
        let event = parse_one(text, &pmu(name));
        assert_eq!(
            event.select_on(CounterId::General(0)).bits(),
            bits,
            "{text}"
        );
        assert_eq!(event.meaning, None);
        assert!(event.builder().is_some());
    }
}

#[test]
fn a_field_that_a_name_fixes_cannot_be_changed() {
    let message = |text| fault_text(text, &pmu("skylake"));
    let event = message("cpu/UOPS_ISSUED.ANY,event=1/");
    assert!(
        event.contains("`event` can't be changed in UOPS_ISSUED.ANY"),
        "{event}"
    );
    for text in [
        "cpu/UOPS_ISSUED.ANY,cmask=256/",
        "cpu/UOPS_ISSUED.ANY,umask=0x100/",
    ] {
        let too_large = message(text);
        assert!(too_large.contains("from 0 to 0xff"), "{too_large}");
    }
}

#[test]
fn groups_and_periods_accept_listed_events() {
    let events = parse(
        "{UOPS_ISSUED.ANY,cycles}:u,cpu/UOPS_ISSUED.ANY,period=9/",
        &pmu("skylake"),
    );
    let events = events.expect("it is well formed");
    assert_eq!(events[0].group, Some(0));
    assert_eq!(events[0].label, "UOPS_ISSUED.ANY:u");
    assert!(events[2].rate.is_some());
}

#[test]
fn limits_are_those_of_the_list_and_of_the_driver() {
    let haswell = pmu("haswell");
    assert_eq!(
        parse_one("L1D_PEND_MISS.PENDING", &haswell).general_counters,
        0b100
    );
    assert!(
        parse_one("L1D_PEND_MISS.PENDING:PMC2", &haswell)
            .pinned
            .is_some()
    );
    let message = fault_text("L1D_PEND_MISS.PENDING:PMC1", &haswell);
    assert!(message.contains("Counters that can: PMC2."), "{message}");
    assert_eq!(
        parse_one("UOPS_ISSUED.ANY", &haswell).general_counters,
        0b1111
    );
    assert!(
        !parse_one("L1D_PEND_MISS.PENDING", &haswell).needs_own_counter_choice,
        "the driver knows it, too"
    );

    // A PMU of two counters, as a virtual machine may have it.
    let small_pmu = testing::skylake_with(2);
    let skylake = model("skylake").expect("it is one");
    let mut event = skylake.events().next().expect("one");
    event.counters = Some(0b1100);
    let reason = counters_of_listed(&event, &small_pmu).expect_err("it has counters 0 and 1");
    assert_eq!(
        reason,
        "Only PMC2, PMC3 count it, and this PMU has 2 general counters."
    );
}

#[test]
fn fixed_counters_have_listed_events() {
    let spr = pmu("sapphirerapids");
    let slots = parse_one("TOPDOWN.SLOTS", &spr);
    assert_eq!((slots.general, slots.fixed), (None, Some(3)));
    let front_end = parse_one("TOPDOWN_FE_BOUND.ALL", &pmu("clearwaterforest"));
    assert_eq!((front_end.general, front_end.fixed), (None, Some(5)));
    let event = model("clearwaterforest")
        .and_then(|m| m.event("TOPDOWN_FE_BOUND.ALL"))
        .expect("it is there");
    let message =
        counters_of_listed(&event, &testing::skylake()).expect_err("it is no fixed counter of it");
    assert_eq!(
        message,
        "Only fixed counter 5 counts it, and this CPU lacks that counter."
    );
}

#[test]
fn events_that_the_driver_cannot_count_are_refused_with_the_reason() {
    let table = [
        (
            "haswell",
            "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_128",
            "MSR_PEBS_LD_LAT (0x3f6)",
        ),
        (
            "nehalemep",
            "OFFCORE_RESPONSE.ANY_DATA.ANY_CACHE_DRAM",
            "MSR_OFFCORE_RSP_0 (0x1a6)",
        ),
        (
            "haswell",
            "L1D_PEND_MISS.PENDING_CYCLES_ANY",
            "events of the sibling hyperthread",
        ),
        ("zen2", "fp_ret_sse_avx_ops.all", "a second counter"),
        (
            "fam10h-istanbul",
            "dram_accesses_page.all",
            "that cores share",
        ),
    ];
    for (name, text, reason) in table {
        let pmu = pmu(name);
        let message = fault_text(text, &pmu);
        let (first, caret) = (
            format!("`{text}` can't be counted here"),
            "^".repeat(text.len()),
        );
        assert!(
            message.starts_with(&first) && message.contains(&caret),
            "{message}"
        );
        assert!(message.contains(reason), "{message}");
        // In a list with other events, the parser returns the event as absent instead of failing.
        let events = parse_or_absent(&format!("cycles,{text}"), &pmu).expect("cycles are there");
        assert!(
            events[1]
                .missing
                .as_ref()
                .is_some_and(|missing| missing.contains(reason))
        );
    }
}

#[test]
fn the_extra_register_has_the_value_of_the_list() {
    let table = [
        (
            "skylake",
            "OFFCORE_RESPONSE.DEMAND_CODE_RD.ANY_RESPONSE",
            0x01b7,
            0x1_0004,
        ),
        ("skylake", "FRONTEND_RETIRED.DSB_MISS:u", 0x01c6, 0x11),
        (
            "sapphirerapids",
            "OCR.DEMAND_CODE_RD.DRAM",
            0x012a,
            0x7_3c00_0004,
        ),
        (
            "skylake",
            "cpu/event=0xb7,umask=1,offcore_rsp=0x10001/",
            0x01b7,
            0x1_0001,
        ),
        (
            "skylake",
            "cpu/event=0xbb,umask=1,config1=0x10001/k",
            0x01bb,
            0x1_0001,
        ),
        (
            "skylake",
            "cpu/event=0xc6,umask=1,frontend=18/",
            0x01c6,
            0x12,
        ),
        ("skylake", "cpu/event=0xcd,umask=1,ldlat=30/pp", 0x01cd, 30),
        (
            "sapphirerapids",
            "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_128:upp",
            0x01cd,
            0x80,
        ),
        (
            "sierraforest",
            "MEM_UOPS_RETIRED.LOAD_LATENCY_GT_16:P",
            0x05d0,
            0x10,
        ),
        (
            "sierraforest",
            "cpu/event=0x27,umask=2,snoop_rsp=0x1/",
            0x0227,
            0x1,
        ),
    ];
    for (name, text, select, value) in table {
        let event = parse_one(text, &pmu(name));
        let Some(encoding @ Encoding::RawWithRegister(bits, register_value)) = event.encoding
        else {
            panic!("{text}: {:?}", event.encoding);
        };
        assert_eq!(bits.bits() & 0xffff, select, "{text}");
        assert_eq!(register_value, value, "{text}");
        assert_eq!(encoding.register_value(), value);
        let extra = extra_register(encoding, &pmu(name));
        assert_eq!(extra.map(|extra| extra.value), Some(value), "{text}");
    }
}

#[test]
fn perfs_names_of_loads_and_stores_are_those_of_linux() {
    let select = |event: &EventSpec| match event.encoding {
        Some(Encoding::RawWithRegister(select, latency)) => (select.bits() & 0xffff, latency),
        Some(Encoding::Raw(select)) => (select.bits() & 0xffff, 0),
        other => panic!("{other:?}"),
    };
    // The selects of arch/x86/events/intel/core.c, and the smallest latencies.
    for (name, text, expected) in [
        ("skylake", "mem-loads:P", (0x01cd, 3)),
        ("skylake", "MEM-LOADS:upp", (0x01cd, 3)),
        ("skylake", "cpu/mem-loads/pp", (0x01cd, 3)),
        ("skylake", "cpu/mem-loads,ldlat=30/P", (0x01cd, 30)),
        ("skylake", "mem-stores", (0x82d0, 0)),
        ("icelake", "cpu/mem-stores/P", (0x82d0, 0)),
        ("sapphirerapids", "mem-loads:pp", (0x01cd, 3)),
        ("sapphirerapids", "mem-stores:pp", (0x02cd, 0)),
        ("sierraforest", "cpu/mem-loads,ldlat=50/pp", (0x05d0, 50)),
        ("sierraforest", "mem-stores:pp", (0x06d0, 0)),
        ("haswell", "mem-stores", (0x82d0, 0)),
        ("ivybridge", "mem-stores", (0x02cd, 0)),
        (
            "skylake",
            "cpu/MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4,ldlat=0x64/pp",
            (0x01cd, 100),
        ),
    ] {
        assert_eq!(select(&parse_one(text, &pmu(name))), expected, "{text}");
    }
}

#[test]
fn faults_of_perfs_names_of_loads_and_stores_say_what_to_type() {
    for (name, text, message, help) in [
        (
            "skylake",
            "mem-loads",
            "counted with precise samples only",
            "`pmctl record -d -W -e mem-loads:pp ...`",
        ),
        (
            "skylake",
            "cpu/mem-loads,ldlat=0x10000/P",
            "`ldlat` takes a number from 0 to 0xffff",
            "",
        ),
        (
            "skylake",
            "cpu/mem-stores,ldlat=30/P",
            "`ldlat` can't be changed in mem-stores",
            "",
        ),
        (
            "haswell",
            "mem-loads:P",
            "`mem-loads` can't be counted here",
            "MSR_PEBS_LD_LAT",
        ),
        (
            "zen4",
            "mem-loads",
            "not have the event `mem-loads`",
            "`pmctl list load`",
        ),
        (
            "zen4",
            "cpu/mem-stores/P",
            "not have the event `mem-stores`",
            "`pmctl list store`",
        ),
        (
            "goldmont",
            "cpu/mem-loads,ldlat=30/P",
            "not have the event `mem-loads`",
            "`pmctl list load`",
        ),
    ] {
        let fault = fault_text(text, &pmu(name));
        assert!(fault.contains(message) && fault.contains(help), "{fault}");
    }
    let events = parse_or_absent("cycles,mem-loads", &pmu("zen4")).expect("it has cycles");
    assert!(events[1].is_absent());
}

#[test]
fn wrong_values_of_extra_registers_are_refused() {
    let table = [
        (
            "cpu/event=0xb7,umask=1,offcore_rsp=0x1000/",
            "MSR_OFFCORE_RSP_0 does not have all bits of 0x1000",
        ),
        (
            "cpu/event=0xc6,umask=1,frontend=0x1000000/",
            "`frontend` takes a number from 0 to 0xffffff",
        ),
        ("cpu/event=0xc0,config1=1/", "rc0 has no extra register"),
        (
            "cpu/event=0xb7,umask=1,offcore_rsp=1,config1=1/",
            "an earlier field has set the extra register already",
        ),
        (
            "cpu/event=0xcd,umask=1,ldlat=3/",
            "this event is counted with precise samples only",
        ),
        (
            "cpu/event=0xcd,umask=1,config1=0x10000/pp",
            "MSR_PEBS_LD_LAT does not have all bits of 0x10000",
        ),
    ];
    for (text, message) in table {
        let fault = fault_text(text, &pmu("skylake"));
        assert!(fault.contains(message), "{text}: {fault}");
    }
    // `config1` changes nothing if the event needs no extra register, or if the value is 0.
    let event = parse_one("cpu/event=0xc4,config1=0/", &pmu("skylake"));
    assert!(matches!(event.encoding, Some(Encoding::Raw(_))));
}

/// Models whose extra registers the driver does not write, because threads of a core or two cores
/// share a register, or because the registers are `MSR_OMR_*`.
const MODELS_WITH_UNWRITTEN_REGISTERS: [&str; 8] = [
    "nehalemep",
    "nehalemex",
    "westmereep-dp",
    "westmereep-sp",
    "westmereex",
    "silvermont",
    "knightslanding",
    "novalake-core",
];

#[test]
fn listed_events_with_written_registers_are_counted() {
    let mut counted = 0;
    for model in models() {
        let pmu = Pmu::of_model(model);
        for event in model.events() {
            let Some(extra) = event.extra.filter(|extra| extra.register != 0x3f6) else {
                continue;
            };
            let counters = counters_of_listed(&event, &pmu);
            let is_counted = match &counters {
                Ok(counters) => counters.general != 0,
                Err(_) => false,
            };
            let is_written = !MODELS_WITH_UNWRITTEN_REGISTERS.contains(&model.name())
                || model.name() == "novalake-core" && extra.register == 0x3f7;
            assert_eq!(
                is_counted,
                is_written,
                "{} of {}: {counters:?}",
                event.name,
                model.name()
            );
            counted += usize::from(is_counted);
        }
    }
    assert!(counted > 4000, "{counted}");
}

/// The driver refuses a second unit mask on a CPU that lacks it.
#[test]
fn a_wide_unit_mask_needs_a_cpu_that_has_it() {
    let event = model("pantherlake-atom").and_then(|model| model.event("L2_REQUEST.ALL"));
    let event = event.expect("it is there");
    assert_eq!(event.unit_mask, 0x1ff);
    assert!(counters_of_listed(&event, &pmu("pantherlake-atom")).is_ok());
    let missing = counters_of_listed(&event, &testing::skylake()).expect_err("it has 8 bits");
    assert!(missing.contains("more than 8 bits"), "{missing}");
}

#[test]
fn misspelt_names_get_suggestions() {
    let skylake = pmu("skylake");
    let table = [
        ("uops_isued.any", "Did you mean `UOPS_ISSUED.ANY`"),
        (
            "UOPS_RETIRED.RETIRE_SLOT",
            "Did you mean `UOPS_RETIRED.RETIRE_SLOTS`",
        ),
        (
            "cycles,ls_dispatch.ld_dispatch:u",
            "an event of amdzen1, amdzen2, amdzen3 and ",
        ),
        ("TOPDOWN.BR_MISPREDICT_SLOTS", "this CPU is skylake."),
        (
            "UOPS_ISSUED:ANY",
            "A unit mask is written after a dot: `UOPS_ISSUED.ANY`.",
        ),
        ("zzzzz", "`pmctl list` shows the names"),
    ];
    for (text, help) in table {
        let message = fault_text(text, &skylake);
        assert!(message.contains(help) && message.contains('^'), "{message}");
    }
    let message = fault_text("INST_RETIRED.ANY_PP", &skylake);
    assert_eq!(
        message.matches("INST_RETIRED.ANY_P`").count(),
        1,
        "{message}"
    );
    assert!(
        fault_text("UOPS_ISSUED.ANY", &testing::intel()).contains("this CPU is an unknown model.")
    );
}

#[test]
fn emulation_offers_only_events_that_it_counts() {
    for vendor in [Vendor::Intel, Vendor::Amd] {
        let emulated_pmu = testing::emulated(vendor);
        let counted_names: Vec<String> = emulated_pmu
            .model()
            .expect("it is known")
            .events()
            .filter(|event| counters_of_listed(event, &emulated_pmu).is_ok())
            .map(|event| event.name)
            .collect();
        let expected: &[&str] = match vendor {
            Vendor::Intel => &[
                "BR_INST_RETIRED.ALL_BRANCHES",
                "CPU_CLK_THREAD_UNHALTED.REF_XCLK",
                "CPU_CLK_UNHALTED.REF_TSC",
                "CPU_CLK_UNHALTED.REF_XCLK",
                "CPU_CLK_UNHALTED.THREAD",
                "CPU_CLK_UNHALTED.THREAD_P",
                "INST_RETIRED.ANY",
                "INST_RETIRED.ANY_P",
                "INST_RETIRED.PREC_DIST",
                "MEM_INST_RETIRED.ALL_LOADS",
                "MEM_INST_RETIRED.ALL_STORES",
            ],
            Vendor::Amd => &[
                "ex_ret_brn",
                "ex_ret_instr",
                "ls_dispatch.ld_dispatch",
                "ls_dispatch.store_dispatch",
                "ls_not_halted_cyc",
                "ls_not_halted_p0_cyc.p0_freq_cyc",
            ],
        };
        assert_eq!(counted_names, expected);
    }
    let message = fault_text("UOPS_ISSUED.ANY", &testing::emulated(Vendor::Intel));
    assert!(
        message.contains("QEMU's emulation counts instructions"),
        "{message}"
    );
}

/// Names of architectural events that have another encoding in Intel's list: the encoding of a
/// precise event with the same count, or the encoding of the fixed counter.
const NAMES_WITH_OTHER_ENCODINGS: [&str; 4] = [
    "BR_INST_RETIRED.ALL_BRANCHES",
    "BR_MISP_RETIRED.ALL_BRANCHES",
    "CPU_CLK_UNHALTED.REF_TSC",
    "INST_RETIRED.ANY_P",
];

#[test]
fn names_of_all_cpus_mean_the_same_in_the_lists() {
    let mut different_names = BTreeSet::new();
    for model in models() {
        let pmu = Pmu::of_model(model);
        for named in named_events(pmu.vendor()) {
            let select = named
                .counters_on(&pmu)
                .and_then(|counters| counters.select)
                .map(EventSelect::bits);
            for event in named.names().filter_map(|name| model.event(name)) {
                let listed_select = counters_of_listed(&event, &pmu)
                    .ok()
                    .and_then(|counters| counters.select);
                if select != listed_select.map(EventSelect::bits) {
                    different_names.insert(event.name);
                }
            }
        }
    }
    assert_eq!(
        different_names
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
        NAMES_WITH_OTHER_ENCODINGS
    );
}

/// Events that the vendors' lists limit to fewer counters than the driver's tables, which are Linux's.
const FURTHER_LIMITED_EVENTS: [&str; 9] = [
    "INST_RETIRED.ANY_PS",
    "L1D_CACHE_LOCK_FB_HIT",
    "L1D_CACHE_PREFETCH_LOCK_FB_HIT",
    "L1D_PREFETCH.MISS",
    "L1D_PREFETCH.REQUESTS",
    "L1D_PREFETCH.TRIGGERS",
    "LOAD_HIT_PRE",
    "MEM_TRANS_RETIRED.PRECISE_STORE",
    "TOPDOWN.MEMORY_BOUND_SLOTS",
];

#[test]
fn limits_that_the_driver_lacks_are_known() {
    let mut limited_events = BTreeSet::new();
    for model in models() {
        let pmu = Pmu::of_model(model);
        limited_events.extend(
            model
                .events()
                .filter(|event| needs_own_counter_choice(event, &pmu))
                .map(|event| event.name),
        );
    }
    assert_eq!(
        limited_events
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
        FURTHER_LIMITED_EVENTS
    );
}
