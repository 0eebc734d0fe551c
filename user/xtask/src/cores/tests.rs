// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with a small source that has all forms of Linux's tables.

use perfmon_core::logic::memory_access::data_source::{
    LVL_HIT, LVL_MISS, LVLNUM_L3, LVLNUM_NA, LVLNUM_RAM, OP_LOAD, REMOTE, SNOOP_HIT, SNOOP_NA,
};

use super::memory_tables::{Access, Decoder, MemoryEvent, RecordBits};
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
#define P(a, b) PERF_MEM_S(a, b)
#define OP_LH (P(OP, LOAD) | P(LVL, HIT))
#define LEVEL(x) P(LVLNUM, x)
#define REM P(REMOTE, REMOTE)
union intel_x86_pebs_dse {
	u64 val;
	struct {
		unsigned int ld_dse:4;
		unsigned int ld_stlb_miss:1;
		unsigned int ld_locked:1;
		unsigned int ld_data_blk:1;
	};
	struct {
		unsigned int big_reserved:2;
		unsigned int big_stlb_miss:1;
		unsigned int big_locked:1;
	};
};
static u64 pebs_data_source[PERF_PEBS_DATA_SOURCE_MAX] = {
	P(OP, LOAD) | P(LVL, MISS) | LEVEL(L3) | P(SNOOP, NA), /* 0x00: ukn L3 */
	0,
	OP_LH | LEVEL(RAM) | REM, /* 0x02 */
};
static void __init __intel_pmu_pebs_data_source_big(bool pmem, u64 *data_source)
{
	u64 pmem_or_l4 = pmem ? LEVEL(PMEM) : LEVEL(L4);

	data_source[0x01] = OP_LH | pmem_or_l4 | P(SNOOP, HIT);
}
void __init intel_pmu_pebs_data_source_two(void)
{
	u64 *data_source;

	data_source = x86_pmu.hybrid_pmu[X86_HYBRID_PMU_CORE_IDX].pebs_data_source;
	memcpy(data_source, pebs_data_source, sizeof(pebs_data_source));
	__intel_pmu_pebs_data_source_big(false, data_source);
	data_source = x86_pmu.hybrid_pmu[X86_HYBRID_PMU_ATOM_IDX].pebs_data_source;
	memcpy(data_source, pebs_data_source, sizeof(pebs_data_source));
}
u64 small_latency_data(struct perf_event *event, u64 status)
{
	union intel_x86_pebs_dse dse;

	dse.val = status;
	return __grt_latency_data(event, status, dse.ld_dse, dse.ld_locked,
				  dse.ld_stlb_miss, dse.ld_data_blk);
}
static u64 big_latency_data(struct perf_event *event, u64 status)
{
	val = hybrid_var(event->pmu, pebs_data_source)[status & PERF_PEBS_DATA_SOURCE_MASK];
	if (dse.big_stlb_miss)
		val |= P(TLB, MISS) | P(TLB, L2);
	if (dse.big_locked)
		val |= P(LOCK, LOCKED);
	return val;
}
u64 two_latency_data(struct perf_event *event, u64 status)
{
	struct x86_hybrid_pmu *pmu = hybrid_pmu(event->pmu);

	if (pmu->pmu_type == hybrid_small)
		return small_latency_data(event, status);

	return big_latency_data(event, status);
}
static __always_inline void intel_pmu_init_big(struct pmu *pmu)
{
	x86_pmu.pebs_block = true;
	x86_pmu.flags |= PMU_FL_INSTR_LATENCY;
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
		intel_pmu_pebs_data_source_two();
		x86_pmu.pebs_latency_data = two_latency_data;
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
    assert_eq!(old_setup.hardware_events[7], 0x0180_010e);
    assert_eq!(old_setup.hardware_events[0], 0x3c);
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
fn memory_events_follow_from_the_macros() {
    let setups = setups(&Source::of(SOURCE), "INTEL_TWO").expect("it is understood");
    let event = |event| setups[&Kind::Core].memory_event(event);
    let slow_loads = MemoryEvent {
        access: Access::Load,
        decoder: Decoder::Latency,
    };
    assert_eq!(event(0x01cd), Some(slow_loads));
    let loads = MemoryEvent {
        decoder: Decoder::L1Hit,
        ..slow_loads
    };
    assert_eq!(event(0x20d2), Some(loads));
    assert_eq!(event(0x01c0), None);
    assert_eq!(event(0x01c4), None);
    assert!(slow_loads.has_threshold() && !loads.has_threshold());
}

#[test]
fn sources_of_data_are_read_for_each_kind() {
    let setups = setups(&Source::of(SOURCE), "INTEL_TWO").expect("it is understood");
    let sources = |kind| setups[&kind].memory.sources[..4].to_vec();
    let first = OP_LOAD | LVL_MISS | LVLNUM_L3 | SNOOP_NA;
    let remote = OP_LOAD | LVL_HIT | LVLNUM_RAM | REMOTE;
    assert_eq!(sources(Kind::Atom), [first, 0, remote, 0]);
    // The exception for persistent memory applies.
    let any = OP_LOAD | LVL_HIT | LVLNUM_NA | SNOOP_HIT;
    assert_eq!(sources(Kind::Core), [first, any, remote, 0]);
    let [big, small] = [Kind::Core, Kind::Atom].map(|kind| &setups[&kind].memory);
    assert!(big.has_blocks && big.has_instruction_latency);
    assert!(!small.has_blocks && !small.has_instruction_latency);
    assert_eq!(big.latency_function, "big_latency_data");
    assert_eq!(small.latency_function, "small_latency_data");
}

#[test]
fn bits_of_records_follow_from_the_fields_that_are_read() {
    let source = Source::of(SOURCE);
    let bits = |name| RecordBits::of_function(&source, name).expect("it is understood");
    let small_bits = RecordBits {
        code: 0xf,
        tlb_miss: 1 << 5,
        locked: 1 << 4,
        data_blocked: 1 << 6,
        address_blocked: 0,
    };
    assert_eq!(bits("small_latency_data"), small_bits);
    let big_bits = RecordBits {
        code: 0xff,
        tlb_miss: 1 << 2,
        locked: 1 << 3,
        data_blocked: 0,
        address_blocked: 0,
    };
    assert_eq!(bits("big_latency_data"), big_bits);
}

#[test]
fn an_unknown_form_is_an_error() {
    let source = SOURCE.replace("INTEL_UBIT_EVENT", "INTEL_NEW_EVENT");
    assert!(setups(&Source::of(&source), "INTEL_TWO").is_err());
    let source = SOURCE.replace("0x82d0,", "SOME_EVENT,");
    assert!(setups(&Source::of(&source), "INTEL_TWO").is_err());
    let source = SOURCE.replace("LEVEL(RAM)", "LEVEL(NEW)");
    assert!(setups(&Source::of(&source), "INTEL_TWO").is_err());
    let source = SOURCE.replace("LEVEL(RAM)", "NEW(RAM)");
    assert!(setups(&Source::of(&source), "INTEL_TWO").is_err());
    let no_setups = setups(&Source::of(SOURCE), "INTEL_NONE").expect("there is no case");
    assert!(no_setups.is_empty());
}
