/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * /dev/perfmon: the x86 performance-monitoring counters.
 *
 * This file is the one source of truth of the interface. The module, the Rust
 * library and the C tests all use it; rust/perfmon/abi/ is generated from it.
 *
 * One errno, one meaning, for every call:
 *
 * =========  ================================================================
 * ENOTTY     the command is unknown, or (PMIOTSTAMP) the frequency of the
 *            time-stamp counter is not known
 * EPERM      the descriptor is not open for writing, or the kernel is locked
 *            down (kernel_lockdown(7)); IOCTL_PERFMON_ALLOC_TRACE: it is more
 *            memory than the caller may pin (perf_event_mlock_kb, RLIMIT_MEMLOCK,
 *            CAP_IPC_LOCK), as for the buffers of Linux perf
 * EFAULT     the argument can't be read or written
 * EINVAL     a counter number, an event, a flag or a value is out of its range
 * EACCES     Linux's own policy for perf events forbids it to this process
 *            (/proc/sys/kernel/perf_event_paranoid, CAP_PERFMON)
 * EBUSY      open(2): there is a writer; PMIOSETUP, IOCTL_PERFMON_START: Linux
 *            perf has the hardware counters (the kernel log says so), or a trace
 *            has this one, or PMIOSETUP has those that the trace needs; the
 *            other PMIO calls: nobody has set the counter up
 * EBADFD     the trace is not in the state that the call needs
 * EOPNOTSUPP PMIOREADCPU: this CPU is not counted on
 * ENOMEM     no memory
 * EMFILE     IOCTL_PERFMON_GET_BUFFER_HANDLE: no descriptor is free (ENFILE: in
 *            the whole system)
 * EIO        the hardware does not hold what was written to it, so there is
 *            no count to give, or none to rely on (the kernel log says which
 *            register)
 * =========  ================================================================
 *
 * Checks are made in this order: command, write access, argument copied in,
 * reserved bits, counter number, policy, state, values, hardware owner,
 * memory. A call that fails changes nothing, but with EIO: then PMIOSTOP and
 * IOCTL_PERFMON_STOP have stopped, PMIOSETUP has released the counter, and
 * IOCTL_PERFMON_START has emptied the buffers and stopped again.
 */
#ifndef _UAPI_LINUX_PERFMON_H
#define _UAPI_LINUX_PERFMON_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define _PATH_PERFMON	"/dev/perfmon"

/*
 * Counting: the interface of FreeBSD's perfmon(4).
 */

/**
 * define NPMC - bound of the general counter numbers, on any supported CPU
 *
 * The architectural limit: bits 31:0 of IA32_PERF_GLOBAL_CTRL (Intel SDM,
 * volume 3B, section 21.2.2). The number that this CPU has is in
 * &struct perfmon_properties.max_num_programmable_events.
 */
#define NPMC		32

/* Never implemented, there or here: a call with it is refused with EINVAL. */
#define PMC_ALL		(-1)

#define PMC_FIXED_BASE	0x40000000

/**
 * define PMC_FIXED - the number of fixed-function counter @n
 * @n: from 0
 *
 * An extension. The encoding is that of the RDPMC instruction (Intel SDM,
 * volume 2B, "RDPMC"). Event, unit and mask of a fixed counter must be 0.
 */
#define PMC_FIXED(n)	(PMC_FIXED_BASE + (n))

/* &struct pmc.pmc_flags: bits 23:16 of IA32_PERFEVTSELx */
#define PMCF_USR	0x01	/* count in user mode (CPL 1 to 3) */
#define PMCF_OS		0x02	/* count in kernel mode (CPL 0) */
#define PMCF_E		0x04	/* count edges, not duration */
#define PMCF_PC		0x08	/* pin control: refused with EINVAL */
#define PMCF_INT	0x10	/* interrupt on overflow: the driver's, ignored */
#define PMCF_ANY	0x20	/* AnyThread: refused with EINVAL */
#define PMCF_EN		0x40	/* enabled: the driver's, ignored; set by PMIOGET */
#define PMCF_INV	0x80	/* invert the comparison with the counter mask */
#define PMCF_SYS_FLAGS	(PMCF_INT | PMCF_EN)

#ifdef __BINDGEN__
/* struct pmc - what a counter counts. Rust's unions are unsafe: it gets one member. */
struct pmc {
	int pmc_num;
	__u32 pmc_val;
};
#else
/**
 * struct pmc - what a counter counts
 * @pmc_num: 0 to &struct perfmon_properties.max_num_programmable_events - 1,
 *	or PMC_FIXED(n)
 * @pmc_event: event select
 * @pmc_unit: unit mask
 * @pmc_flags: PMCF_*
 * @pmc_mask: counter mask
 * @pmc_val: the four above in one, with the layout of bits 31:0 of
 *	IA32_PERFEVTSELx (Intel SDM, volume 3B, section 21.2.1.1)
 */
struct pmc {
	int pmc_num;
	union {
		struct {
			__u8 pmc_event;
			__u8 pmc_unit;
			__u8 pmc_flags;
			__u8 pmc_mask;
		};
		__u32 pmc_val;
		/* private: the same by FreeBSD's names; there, those above are macros */
		union {
			struct {
				__u8 pmcus_event;
				__u8 pmcus_unit;
				__u8 pmcus_flags;
				__u8 pmcus_mask;
			} pmcu_s;
			__u32 pmcu_val;
		} pmc_pmcu;
		/* public: */
	};
};
#endif

/**
 * struct pmc_data - the value of a counter
 * @pmcd_num: the counter's number
 * @reserved: ignored on input, 0 on output
 * @pmcd_value: events since the last PMIOSETUP or PMIORESET, the sum over all
 *	CPUs, those that went offline included
 */
struct pmc_data {
	int pmcd_num;
	__u32 reserved;
	__s64 pmcd_value;
};

/**
 * struct pmc_tstamp - the time-stamp counter
 * @pmct_rate: its frequency in MHz, rounded down
 * @reserved: 0
 * @pmct_value: its value on the CPU that executed the call
 */
struct pmc_tstamp {
	int pmct_rate;
	__u32 reserved;
	__s64 pmct_value;
};

/* The most values that one PMIOREADCPU returns. */
#define PMC_CPU_MAX	64

/**
 * struct pmc_cpu_data - the value of a counter on each of some CPUs
 * @pmcc_num: the counter's number
 * @pmcc_first_cpu: the first CPU's number, below that of
 *	`sysconf(_SC_NPROCESSORS_CONF)` on common machines
 * @pmcc_count: in: how many CPUs, 1 to PMC_CPU_MAX; out: how many values there
 *	are, fewer if there are no more CPU numbers
 * @reserved: must be 0
 * @pmcc_value: events since the last PMIOSETUP or PMIORESET on CPU
 *	@pmcc_first_cpu and the following; the last total of one that is
 *	offline, 0 for one that never was online
 */
struct pmc_cpu_data {
	int pmcc_num;
	__u32 pmcc_first_cpu;
	__u32 pmcc_count;
	__u32 reserved;
	__s64 pmcc_value[PMC_CPU_MAX];
};

/**
 * struct pmc2 - what a counter counts, for selects wider than 32 bits
 * @pmc2_num: as &struct pmc.pmc_num
 * @pmc2_flags: must be 0
 * @pmc2_select: as &struct pmc.pmc_val, with the layout of all 64 bits of
 *	IA32_PERFEVTSELx, or of AMD's PERF_CTL: bits 11:8 of an event are its
 *	bits 35:32. A bit that this CPU does not have is refused with EINVAL.
 * @pmc2_extra: must be 0
 * @reserved: must be 0
 */
struct pmc2 {
	int pmc2_num;
	__u32 pmc2_flags;
	__u64 pmc2_select;
	__u64 pmc2_extra;
	__u64 reserved;
};

/**
 * enum pmc_command - the calls that count
 *
 * Enumerators, because bindgen can't evaluate _IOW(); each is a macro, too, so
 * that programs can test for it with #ifdef.
 */
enum pmc_command {
	/**
	 * @PMIOSETUP: set counter &struct pmc.pmc_num up on every CPU: stopped
	 * and zero. It belongs to this descriptor until close(2).
	 */
	PMIOSETUP	= _IOW('5', 1, struct pmc),
	/** @PMIOSTART: go on counting from the value at the stop. */
	PMIOSTART	= _IOW('5', 2, int),
	/** @PMIOSTOP: stop; the value stays. With EIO it has none any more. */
	PMIOSTOP	= _IOW('5', 3, int),
	/** @PMIOREAD: the live value, or that at the stop. */
	PMIOREAD	= _IOWR('5', 4, struct pmc_data),
	/** @PMIORESET: zero; a running counter goes on from there. */
	PMIORESET	= _IOW('5', 5, int),
	/** @PMIOTSTAMP: the time-stamp counter and its frequency. */
	PMIOTSTAMP	= _IOR('5', 6, struct pmc_tstamp),
	/** @PMIOGET: what PMIOSETUP took; PMCF_EN tells whether it runs. */
	PMIOGET		= _IOWR('5', 7, struct pmc),
	/**
	 * @PMIOREADCPU: as PMIOREAD, for each CPU; EOPNOTSUPP if one of them is
	 * online and not counted on, for it has fewer counters than the others.
	 */
	PMIOREADCPU	= _IOWR('5', 8, struct pmc_cpu_data),
	/** @PMIOSETUP2: as PMIOSETUP. */
	PMIOSETUP2	= _IOW('5', 9, struct pmc2),
	/** @PMIOGET2: as PMIOGET, which gives bits 31:0 of the same. */
	PMIOGET2	= _IOWR('5', 10, struct pmc2),
};

#define PMIOSETUP	PMIOSETUP
#define PMIOSTART	PMIOSTART
#define PMIOSTOP	PMIOSTOP
#define PMIOREAD	PMIOREAD
#define PMIORESET	PMIORESET
#define PMIOTSTAMP	PMIOTSTAMP
#define PMIOGET		PMIOGET
#define PMIOREADCPU	PMIOREADCPU
#define PMIOSETUP2	PMIOSETUP2
#define PMIOGET2	PMIOGET2

/*
 * Tracing: the interface of Fuchsia's perfmon, API version 3.
 *
 * A trace goes from Idle by IOCTL_PERFMON_ALLOC_TRACE to Allocated, by
 * IOCTL_PERFMON_STAGE_CONFIG to Staged, by IOCTL_PERFMON_START to Running, and
 * by IOCTL_PERFMON_STOP back to Staged. IOCTL_PERFMON_FREE_TRACE makes it Idle
 * again. The typedefs are the reference's names.
 */

#define PERFMON_API_VERSION	3

/* &struct perfmon_properties.flags: last branch records can be taken */
#define PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH	(1U << 0)

/**
 * struct perfmon_properties - what the CPUs of this machine have in common
 * @api_version: PERFMON_API_VERSION
 * @pm_version: version of architectural performance monitoring (CPUID.0AH:
 *	EAX[7:0]); on AMD 1, or 2 with PerfMonV2
 * @max_num_events: counters in all
 * @reserved: 0
 * @max_num_fixed_events: fixed-function counters
 * @max_fixed_counter_width: their width in bits
 * @max_num_programmable_events: general counters
 * @max_programmable_counter_width: their width in bits
 * @max_num_misc_events: events that are no counters of the PMU
 * @max_misc_counter_width: their width in bits
 * @flags: PERFMON_PROPERTY_FLAG_*
 *
 * A CPU on which a trace takes more samples, or spends more time with them, than
 * the module's parameters allow is throttled, whatever rate these widths admit:
 * see PERFMON_BUFFER_FLAG_THROTTLED.
 */
struct perfmon_properties {
	__u16 api_version;
	__u16 pm_version;
	__u16 max_num_events;
	__u16 reserved;
	__u16 max_num_fixed_events;
	__u16 max_fixed_counter_width;
	__u16 max_num_programmable_events;
	__u16 max_programmable_counter_width;
	__u16 max_num_misc_events;
	__u16 max_misc_counter_width;
	__u32 flags;
};
typedef struct perfmon_properties perfmon_ioctl_properties_t;

/* &struct perfmon_info.features: a rate may be as large as the counter */
#define PERFMON_FEATURE_FULL_WIDTH_WRITES	(1ULL << 0)

/**
 * struct perfmon_info - what struct perfmon_properties has no room for
 * @nr_cpu_ids: highest possible CPU number + 1: how many buffers a trace has
 * @flags: 0
 * @features: PERFMON_FEATURE_*
 * @reserved: 0
 */
struct perfmon_info {
	__u32 nr_cpu_ids;
	__u32 flags;
	__u64 features;
	__u64 reserved[6];
};

/*
 * Event ids: a group of 6 bits, and an event of 10 bits within that.
 */
typedef __u16 perfmon_event_id_t;

#define PERFMON_MAKE_EVENT_ID(group, event)	(((group) << 10) | (event))
#define PERFMON_EVENT_ID_GROUP(id)		(((id) >> 10) & 0x3f)
#define PERFMON_EVENT_ID_EVENT(id)		((id) & 0x3ff)
#define PERFMON_MAX_GROUP			0x3f
#define PERFMON_MAX_EVENT			0x3ff
#define PERFMON_EVENT_ID_NONE			0

/**
 * enum perfmon_group_type - the groups of event ids
 * @PERFMON_GROUP_RESERVED: PERFMON_EVENT_ID_NONE is in it, and no event
 * @PERFMON_GROUP_ARCH: PERFMON_ARCH_EVENT_*
 * @PERFMON_GROUP_FIXED: PERFMON_FIXED_EVENT_*
 * @PERFMON_GROUP_MODEL: made by PERFMON_DEFINE_EVENT
 * @PERFMON_GROUP_MISC: no counters: values of other registers
 */
enum perfmon_group_type {
	PERFMON_GROUP_RESERVED	= 0,
	PERFMON_GROUP_ARCH	= 1,
	PERFMON_GROUP_FIXED	= 2,
	PERFMON_GROUP_MODEL	= 3,
	PERFMON_GROUP_MISC	= 4,
};
typedef enum perfmon_group_type perfmon_group_type_t;

/*
 * The architectural events, in general counters (Intel SDM, volume 3B, section
 * 21.2.1.2). On AMD the same numbers stand for AMD's own events that count the
 * same; one that this CPU does not have is refused with EINVAL.
 */
#define PERFMON_ARCH_EVENT_UNHALTED_CORE_CYCLES		0
#define PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED		1
#define PERFMON_ARCH_EVENT_UNHALTED_REFERENCE_CYCLES	2
#define PERFMON_ARCH_EVENT_LLC_REFERENCES		3
#define PERFMON_ARCH_EVENT_LLC_MISSES			4
#define PERFMON_ARCH_EVENT_BRANCHES_RETIRED		5
#define PERFMON_ARCH_EVENT_BRANCH_MISSES_RETIRED	6
#define PERFMON_ARCH_EVENT_TOPDOWN_SLOTS		7

/* What the fixed-function counters count: event n is counter n - 1. */
#define PERFMON_FIXED_EVENT_INSTRUCTIONS_RETIRED	1
#define PERFMON_FIXED_EVENT_UNHALTED_CORE_CYCLES	2
#define PERFMON_FIXED_EVENT_UNHALTED_REFERENCE_CYCLES	3
#define PERFMON_FIXED_EVENT_TOPDOWN_SLOTS		4

/**
 * struct perfmon_event_definition - what an event of PERFMON_GROUP_MODEL counts
 * @id: the id that gets this meaning, for this descriptor
 * @reserved: must be 0
 * @select: the event, with the layout of IA32_PERFEVTSELx or AMD's PERF_CTL:
 *	event, unit mask, edge, invert, counter mask. The modes are those of the
 *	config: PMCF_USR and PMCF_OS are ignored, as PMCF_INT and PMCF_EN are.
 * @extra: must be 0
 * @reserved2: must be 0
 */
struct perfmon_event_definition {
	__u16 id;
	__u16 reserved[3];
	__u64 select;
	__u64 extra;
	__u64 reserved2[2];
};

/* The most pages of one buffer. */
#define PERFMON_MAX_BUFFER_PAGES	65536

/**
 * struct perfmon_alloc - the memory of a trace
 * @num_buffers: one for each CPU number: &struct perfmon_info.nr_cpu_ids
 * @buffer_size_in_pages: of each, 1 to PERFMON_MAX_BUFFER_PAGES
 */
struct perfmon_alloc {
	__u32 num_buffers;
	__u32 buffer_size_in_pages;
};
typedef struct perfmon_alloc ioctl_perfmon_alloc_t;

/* The most events of one trace. */
#define PERFMON_MAX_EVENTS	32

typedef __u32 perfmon_rate_t;

/* &struct perfmon_config.flags */
#define PERFMON_CONFIG_FLAG_OS		(1U << 0)	/* count in kernel mode */
#define PERFMON_CONFIG_FLAG_USER	(1U << 1)	/* count in user mode */
#define PERFMON_CONFIG_FLAG_PC		(1U << 2)	/* PC records instead of TICK */
#define PERFMON_CONFIG_FLAG_TIMEBASE0	(1U << 3)	/* COUNT whenever events[0] ticks */
#define PERFMON_CONFIG_FLAG_LAST_BRANCH	(1U << 4)	/* LAST_BRANCH at each tick */
#define PERFMON_CONFIG_FLAG_MASK	0x1f

/**
 * struct perfmon_config - what a trace records
 * @events: event ids, each at most once, from the front;
 *	PERFMON_EVENT_ID_NONE marks the end
 * @rate: a record is written each time that so many events have been counted;
 *	0 to count only. At most 2^width - 1, and 2^31 without
 *	PERFMON_FEATURE_FULL_WIDTH_WRITES. That of an event with
 *	PERFMON_CONFIG_FLAG_TIMEBASE0 is ignored, but for the first one's.
 * @flags: PERFMON_CONFIG_FLAG_*
 */
struct perfmon_config {
	__u16 events[PERFMON_MAX_EVENTS];
	__u32 rate[PERFMON_MAX_EVENTS];
	__u32 flags[PERFMON_MAX_EVENTS];
};
typedef struct perfmon_config perfmon_ioctl_config_t;

/**
 * struct perfmon_buffer_handle_req - which buffer
 * @descriptor: the number of the CPU, below &struct perfmon_alloc.num_buffers
 */
struct perfmon_buffer_handle_req {
	__u32 descriptor;
};
typedef struct perfmon_buffer_handle_req ioctl_perfmon_buffer_handle_req_t;

/*
 * The buffer of a CPU: a header, and records up to @capture_end.
 */

#define PERFMON_BUFFER_VERSION		0

#define PERFMON_BUFFER_ARCH_UNKNOWN	0U
#define PERFMON_BUFFER_ARCH_X86_64	1U
#define PERFMON_BUFFER_ARCH_ARM64	2U

/* &struct perfmon_buffer_header.flags */
/* Full: nothing was recorded from here to the records of IOCTL_PERFMON_STOP. */
#define PERFMON_BUFFER_FLAG_FULL	(1U << 0)
/* Too many interrupts: some events were not sampled but only counted. */
#define PERFMON_BUFFER_FLAG_THROTTLED	(1U << 1)
/* The CPU went offline, or the system slept: the trace ended here before STOP. */
#define PERFMON_BUFFER_FLAG_OFFLINE	(1U << 2)
/*
 * The CPU was not traced: at IOCTL_PERFMON_ALLOC_TRACE it was offline, or had
 * fewer counters or events than the others. The buffer is one page; access to
 * the rest of its mapping raises SIGBUS.
 */
#define PERFMON_BUFFER_FLAG_NOT_TRACED	(1U << 3)
/*
 * Somebody else changed what the trace depends on (registers of the PMU, the
 * delivery of its interrupt): events, samples or branches may be missing.
 */
#define PERFMON_BUFFER_FLAG_LOST	(1U << 4)

/**
 * struct perfmon_buffer_header - the beginning of a buffer
 * @version: PERFMON_BUFFER_VERSION
 * @arch: PERFMON_BUFFER_ARCH_X86_64
 * @flags: PERFMON_BUFFER_FLAG_*
 * @ticks_per_second: of the times in the records: the frequency of the
 *	time-stamp counter, 0 if it is not known
 * @capture_end: offset of the end of the data. It is stored with release
 *	order after whole sets of records: who loads it with acquire order sees
 *	whole records, also while the trace runs.
 */
struct perfmon_buffer_header {
	__u16 version;
	__u16 arch;
	__u32 flags;
	__s64 ticks_per_second;
	__u64 capture_end;
};
typedef struct perfmon_buffer_header perfmon_buffer_header_t;

/**
 * enum perfmon_record_type - &struct perfmon_record_header.type
 * @PERFMON_RECORD_RESERVED: no record has it
 * @PERFMON_RECORD_TIME: &struct perfmon_time_record
 * @PERFMON_RECORD_TICK: &struct perfmon_tick_record
 * @PERFMON_RECORD_COUNT: &struct perfmon_count_record
 * @PERFMON_RECORD_VALUE: &struct perfmon_value_record
 * @PERFMON_RECORD_PC: &struct perfmon_pc_record
 * @PERFMON_RECORD_LAST_BRANCH: &struct perfmon_last_branch_record
 */
enum perfmon_record_type {
	PERFMON_RECORD_RESERVED		= 0,
	PERFMON_RECORD_TIME		= 1,
	PERFMON_RECORD_TICK		= 2,
	PERFMON_RECORD_COUNT		= 3,
	PERFMON_RECORD_VALUE		= 4,
	PERFMON_RECORD_PC		= 5,
	PERFMON_RECORD_LAST_BRANCH	= 6,
};
typedef enum perfmon_record_type perfmon_record_type_t;

/* Rust can't have an aligned structure in a packed one: there the header is neither. */
#define PERFMON_ALIGN_RECORD	__attribute__((packed, aligned(4)))
#ifndef __BINDGEN__
#define PERFMON_ALIGN_HEADER	PERFMON_ALIGN_RECORD
#else
#define PERFMON_ALIGN_HEADER
#endif

/**
 * struct perfmon_record_header - the beginning of every record
 * @type: PERFMON_RECORD_*
 * @reserved_flags: 0
 * @event: the event that the record is for, or PERFMON_EVENT_ID_NONE
 */
struct perfmon_record_header {
	__u8 type;
	__u8 reserved_flags;
	__u16 event;
} PERFMON_ALIGN_HEADER;
typedef struct perfmon_record_header perfmon_record_header_t;

/**
 * struct perfmon_time_record - the time of the records up to the next TIME
 * @header: its event is PERFMON_EVENT_ID_NONE
 * @time: the time-stamp counter
 */
struct perfmon_time_record {
	struct perfmon_record_header header;
	__s64 time;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_time_record perfmon_time_record_t;

/**
 * struct perfmon_tick_record - an event was counted as often as its rate says
 * @header: names the event
 */
struct perfmon_tick_record {
	struct perfmon_record_header header;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_tick_record perfmon_tick_record_t;

/**
 * struct perfmon_count_record - what was counted since the event's last record
 * @header: names the event
 * @count: how often it happened
 */
struct perfmon_count_record {
	struct perfmon_record_header header;
	__u64 count;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_count_record perfmon_count_record_t;

/**
 * struct perfmon_value_record - the value of something that is no counter
 * @header: names the event
 * @value: the value
 */
struct perfmon_value_record {
	struct perfmon_record_header header;
	__u64 value;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_value_record perfmon_value_record_t;

/**
 * struct perfmon_pc_record - as a TICK, and where the CPU was
 * @header: names the event
 * @aspace: the address space: the address bits of CR3; 0 for a caller who may
 *	not see the kernel (Linux's policy for perf events)
 * @pc: the address of the instruction that the interrupt came before; 0 for
 *	such a caller if that is in the kernel, where an interrupt that is late
 *	may come also for an event of user mode
 */
struct perfmon_pc_record {
	struct perfmon_record_header header;
	__u64 aspace;
	__u64 pc;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_pc_record perfmon_pc_record_t;

/* &struct perfmon_last_branch.info: cycles since the branch before, if known */
#define PERFMON_LAST_BRANCH_INFO_CYCLES_SHIFT	0U
#define PERFMON_LAST_BRANCH_INFO_CYCLES_LEN	16U
#define PERFMON_LAST_BRANCH_INFO_CYCLES_MASK	0xffffULL
/* It was mispredicted. */
#define PERFMON_LAST_BRANCH_INFO_MISPRED_SHIFT	16U
#define PERFMON_LAST_BRANCH_INFO_MISPRED_LEN	1U
#define PERFMON_LAST_BRANCH_INFO_MISPRED_MASK	0x10000ULL

/**
 * struct perfmon_last_branch - a branch that was taken
 * @from: the address of the branch
 * @to: that of its target
 * @info: PERFMON_LAST_BRANCH_INFO_*
 */
struct perfmon_last_branch {
	__u64 from;
	__u64 to;
	__u64 info;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_last_branch perfmon_last_branch_t;

#define PERFMON_MAX_NUM_LAST_BRANCH	32U

/**
 * struct perfmon_last_branch_record - the branches before an overflow
 * @header: names the event
 * @num_branches: how many follow
 * @aspace: as &struct perfmon_pc_record.aspace
 * @branches: the newest first; the record ends after @num_branches
 */
struct perfmon_last_branch_record {
	struct perfmon_record_header header;
	__u32 num_branches;
	__u64 aspace;
	struct perfmon_last_branch branches[PERFMON_MAX_NUM_LAST_BRANCH];
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_last_branch_record perfmon_last_branch_record_t;

/* The size in bytes of a struct perfmon_last_branch_record. */
#define PERFMON_LAST_BRANCH_RECORD_SIZE(lbr)				\
	(sizeof(struct perfmon_last_branch_record) -			\
	 (PERFMON_MAX_NUM_LAST_BRANCH - (lbr)->num_branches) *		\
	 sizeof((lbr)->branches[0]))

/**
 * enum perfmon_command - the calls that sample
 */
enum perfmon_command {
	/** @IOCTL_PERFMON_GET_PROPERTIES: needs no write access. */
	IOCTL_PERFMON_GET_PROPERTIES	= _IOR('6', 0, struct perfmon_properties),
	/** @IOCTL_PERFMON_ALLOC_TRACE: allocate the buffers; in state Idle. */
	IOCTL_PERFMON_ALLOC_TRACE	= _IOW('6', 1, struct perfmon_alloc),
	/**
	 * @IOCTL_PERFMON_FREE_TRACE: let go of the buffers; in state Allocated
	 * or Staged. Their handles and mappings stay.
	 */
	IOCTL_PERFMON_FREE_TRACE	= _IO('6', 2),
	/** @IOCTL_PERFMON_GET_ALLOC: what was allocated; not in state Idle. */
	IOCTL_PERFMON_GET_ALLOC		= _IOR('6', 3, struct perfmon_alloc),
	/**
	 * @IOCTL_PERFMON_STAGE_CONFIG: say what to record; in state Allocated or
	 * Staged. What is refused changes nothing.
	 */
	IOCTL_PERFMON_STAGE_CONFIG	= _IOW('6', 4, struct perfmon_config),
	/** @IOCTL_PERFMON_GET_CONFIG: what was staged; in state Staged. */
	IOCTL_PERFMON_GET_CONFIG	= _IOR('6', 5, struct perfmon_config),
	/**
	 * @IOCTL_PERFMON_GET_BUFFER_HANDLE: returns a new file descriptor of a
	 * buffer, closed on exec, to be mapped with PROT_READ and MAP_SHARED; in
	 * state Allocated or Staged.
	 */
	IOCTL_PERFMON_GET_BUFFER_HANDLE	= _IOW('6', 6, struct perfmon_buffer_handle_req),
	/**
	 * @IOCTL_PERFMON_START: empty the buffers and begin to record; in state
	 * Staged.
	 */
	IOCTL_PERFMON_START		= _IO('6', 7),
	/**
	 * @IOCTL_PERFMON_STOP: write the last counts and end; no effect if it
	 * does not run; not in state Idle. With EIO it has ended, too, but what
	 * was counted can't be relied on.
	 */
	IOCTL_PERFMON_STOP		= _IO('6', 8),
	/**
	 * @PERFMON_DEFINE_EVENT: give an id of PERFMON_GROUP_MODEL a meaning; in
	 * state Idle or Allocated. A later definition replaces an earlier one;
	 * all last until close(2).
	 */
	PERFMON_DEFINE_EVENT		= _IOW('6', 0x20, struct perfmon_event_definition),
	/** @PERFMON_GET_INFO: needs no write access. */
	PERFMON_GET_INFO		= _IOR('6', 0x21, struct perfmon_info),
};

#define IOCTL_PERFMON_GET_PROPERTIES	IOCTL_PERFMON_GET_PROPERTIES
#define IOCTL_PERFMON_ALLOC_TRACE	IOCTL_PERFMON_ALLOC_TRACE
#define IOCTL_PERFMON_FREE_TRACE	IOCTL_PERFMON_FREE_TRACE
#define IOCTL_PERFMON_GET_ALLOC		IOCTL_PERFMON_GET_ALLOC
#define IOCTL_PERFMON_STAGE_CONFIG	IOCTL_PERFMON_STAGE_CONFIG
#define IOCTL_PERFMON_GET_CONFIG	IOCTL_PERFMON_GET_CONFIG
#define IOCTL_PERFMON_GET_BUFFER_HANDLE	IOCTL_PERFMON_GET_BUFFER_HANDLE
#define IOCTL_PERFMON_START		IOCTL_PERFMON_START
#define IOCTL_PERFMON_STOP		IOCTL_PERFMON_STOP
#define PERFMON_DEFINE_EVENT		PERFMON_DEFINE_EVENT
#define PERFMON_GET_INFO		PERFMON_GET_INFO

#endif /* _UAPI_LINUX_PERFMON_H */
