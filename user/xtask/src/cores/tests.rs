// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with a small source that has all forms of Linux's tables.

use super::setup::{Kind, setups};
use super::source::Source;
use super::tables::{Counters, ExtraEvent};

const SOURCE: &str = "
static u64 intel_perfmon_event_map[PERF_COUNT_HW_MAX] =
{
	[PERF_COUNT_HW_CPU_CYCLES]		= 0x003c,
	[PERF_COUNT_HW_REF_CPU_CYCLES]		= 0x0300, /* pseudo-encoding */
};
static struct event_constraint big_constraints[] __read_mostly =
{
	FIXED_EVENT_CONSTRAINT(0x00c0, 0), /* INST_RETIRED.ANY */
	METRIC_EVENT_CONSTRAINT(INTEL_TD_METRIC_RETIRING, 0),
	INTEL_UBIT_EVENT_CONSTRAINT(0x8a3, 0x4),
	INTEL_EVENT_CONSTRAINT_RANGE(0x01, 0x8f, 0xf),
	EVENT_CONSTRAINT_END
};
struct event_constraint big_pebs_event_constraints[] = {
	INTEL_FLAGS_UEVENT_CONSTRAINT(0x01c0, 0x2),
	INTEL_FLAGS_UEVENT_CONSTRAINT(0x108001c0, 0x1), /* cycles:ppp */
	INTEL_PLD_CONSTRAINT(0x01cd, 0xe),
	INTEL_FLAGS_EVENT_CONSTRAINT_DATALA_LD_RANGE(0xd1, 0xd4, 0x7),
	INTEL_ALL_EVENT_CONSTRAINT(0, 0xf),
	EVENT_CONSTRAINT_END
};
static struct extra_reg small_extra_regs[] = {
	INTEL_UEVENT_EXTRA_REG(0x01b7, MSR_OFFCORE_RSP_0, 0x3fffull, RSP_0),
	EVENT_EXTRA_END
};
static const u64 big_hw_cache_event_ids
				[PERF_COUNT_HW_CACHE_MAX] = {
[C(L1D)] = {
	[C(OP_WRITE)] = {
		[C(RESULT_ACCESS)] = 0x82d0,
		[C(RESULT_MISS)]   = -1,
	},
},
};
static __always_inline void intel_pmu_init_big(struct pmu *pmu)
{
	memcpy(hybrid_var(pmu, hw_cache_event_ids), big_hw_cache_event_ids, sizeof(hw_cache_event_ids));
	hybrid(pmu, event_constraints) = big_constraints;
	hybrid(pmu, pebs_constraints) = big_pebs_event_constraints;
	hybrid_var(pmu, hw_cache_event_ids)[C(ITLB)][C(OP_READ)][C(RESULT_MISS)] = 0x85;
}
__init int intel_pmu_init(void)
{
	switch (boot_cpu_data.x86_vfm) {
	case INTEL_OLD:
		intel_perfmon_event_map[PERF_COUNT_HW_STALLED_CYCLES_FRONTEND] =
			X86_CONFIG(.event=0x0e, .umask=0x01, .inv=1, .cmask=1);
		goto common;
	case INTEL_TWO:
		ret = intel_pmu_init_hybrid(hybrid_big_small);
		pmu = &x86_pmu.hybrid_pmu[X86_HYBRID_PMU_CORE_IDX];
		intel_pmu_init_big(&pmu->pmu);
		pmu = &x86_pmu.hybrid_pmu[X86_HYBRID_PMU_ATOM_IDX];
		pmu->extra_regs = small_extra_regs;
		break;
	case INTEL_OTHER:
		break;
	common:
		x86_pmu.event_constraints = big_constraints;
		break;
	}
}
";

#[test]
fn a_case_is_followed_through_its_labels() {
    let old_setup =
        &setups(&Source::of(SOURCE), "INTEL_OLD").expect("it is understood")[&Kind::Only];
    assert_eq!(old_setup.hardware[7], 0x0180_010e);
    assert_eq!(old_setup.hardware[0], 0x3c);
    let counters = |event| {
        let constraint = old_setup
            .constraints
            .iter()
            .find(|constraint| constraint.applies(event));
        constraint.map(|constraint| constraint.counters)
    };
    assert_eq!(counters(0xc0), Some(Counters::Fixed(0)));
    assert_eq!(counters(0x01c0), None);
    assert_eq!(counters(0x0ca3), Some(Counters::General(0x4)));
    assert_eq!(counters(0x04a3), None);
    assert_eq!(counters(0x048f), Some(Counters::General(0xf)));
}

#[test]
fn kinds_of_cores_are_set_up_separately() {
    let setups = setups(&Source::of(SOURCE), "INTEL_TWO").expect("it is understood");
    assert_eq!(
        setups.keys().collect::<Vec<_>>(),
        [&Kind::Core, &Kind::Atom]
    );
    let precise_counters = |event| {
        let mut constraints = setups[&Kind::Core].precise_constraints.iter();
        let constraint = constraints.find(|constraint| constraint.applies(event));
        constraint.map(|constraint| constraint.counters)
    };
    assert_eq!(precise_counters(0x01c0), Some(Counters::General(0x2)));
    assert_eq!(precise_counters(0x01cd), Some(Counters::General(0xe)));
    assert_eq!(precise_counters(0x20d2), Some(Counters::General(0x7)));
    assert_eq!(precise_counters(0x00c0), Some(Counters::General(0xf)));
    assert!(setups[&Kind::Atom].precise_constraints.is_empty());
    let caches = setups[&Kind::Core].caches;
    assert_eq!(caches[0][1], [0x82d0, u64::MAX]);
    assert_eq!(caches[4][0], [0, 0x85]);
    assert!(setups[&Kind::Core].extra_register_events.is_empty());
    let extra_event = ExtraEvent {
        event: 0x01b7,
        register: "MSR_OFFCORE_RSP_0".to_owned(),
        mask: 0x3fff,
    };
    assert_eq!(setups[&Kind::Atom].extra_register_events, [extra_event]);
}

#[test]
fn an_unknown_form_is_an_error() {
    let source = SOURCE.replace("INTEL_UBIT_EVENT", "INTEL_NEW_EVENT");
    assert!(setups(&Source::of(&source), "INTEL_TWO").is_err());
    let source = SOURCE.replace("0x82d0,", "SOME_EVENT,");
    assert!(setups(&Source::of(&source), "INTEL_TWO").is_err());
    let no_setups = setups(&Source::of(SOURCE), "INTEL_NONE").expect("there is no case");
    assert!(no_setups.is_empty());
}
