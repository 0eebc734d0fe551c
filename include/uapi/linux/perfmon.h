/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * /dev/perfmon: the x86 performance-monitoring counters.
 *
 * This file is the source of the interface: the module, the Rust library and the
 * C tests use it, rust/perfmon/abi/ is generated from it, and the text of
 * Documentation/abi.rst is taken from its comments.
 */
#ifndef _UAPI_LINUX_PERFMON_H
#define _UAPI_LINUX_PERFMON_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define _PATH_PERFMON	"/dev/perfmon"

/**
 * DOC: Errors
 *
 * A call makes its checks in this order. A call that fails has changed nothing,
 * unless the table says otherwise.
 *
 * ==========  ================================================================
 * ENOTTY      The command is unknown. PMIOTSTAMP: the kernel does not know the
 *             frequency of the time-stamp counter.
 * EPERM       The descriptor is not open for writing. PMIOREAD, PMIOREADCPU,
 *             PMIOGET, PMIOGET2, PMIOTSTAMP, IOCTL_PERFMON_GET_PROPERTIES and
 *             PERFMON_GET_INFO do not need a writable descriptor.
 * EFAULT      The argument can't be read.
 * EINVAL      A member that must be 0 is not 0; PMCF_PC or PMCF_ANY is set; the
 *             event select has a bit that this CPU lacks; or no kind of core has
 *             this type.
 * EINVAL      There is no such counter or no such buffer. PMIOSETUP: some CPUs lack
 *             the counter (the kernel log says so, once).
 *             PERFMON_DEFINE_EVENT: the id is not in PERFMON_GROUP_MODEL.
 * EPERM       The kernel is locked down (kernel_lockdown(7), reason *perf*).
 * EACCES      Linux's policy for perf does not let the caller count all that
 *             runs on a CPU (kernel.perf_event_paranoid above 0 and no
 *             CAP_PERFMON), or count the kernel (above 1). PMIOGET, PMIOGET2,
 *             PMIOTSTAMP, IOCTL_PERFMON_GET_PROPERTIES and PERFMON_GET_INFO do
 *             not check this.
 * EBUSY       Counting calls except PMIOSETUP and PMIOSETUP2: the counter is not
 *             set up.
 * EBADFD      The call is not allowed in this state of the trace.
 * EACCES      IOCTL_PERFMON_START: the config counts the kernel, and the caller
 *             has lost that permission since IOCTL_PERFMON_STAGE_CONFIG.
 * EINVAL      A value is out of its range; a fixed-function counter is given an
 *             event; the config breaks a rule of struct perfmon_config; or the
 *             event is an architectural one and CPUID says that a CPU lacks it
 *             (leaf 0AH or 23H; the kernel log names the CPU, once). With a type: the
 *             counter can't count the event on these cores, or no counter can.
 * EOPNOTSUPP  PMIOSETUP, PERFMON_DEFINE_EVENT: the processor is a hybrid, and the
 *             event is not an architectural one, so that each kind of core would
 *             count a different event: name a kind by its type. Or the event needs
 *             two counters or merges two counters: AMD's events 003H and FFFH from
 *             Zen on. With a type: the event needs an extra register, which these
 *             calls don't write.
 * EBUSY       PMIOSETUP: a running trace or events have this counter, or there is
 *             an exclusive event. IOCTL_PERFMON_START: the counters that PMIOSETUP
 *             and events have leave too few for the config, there is an exclusive
 *             event, or an event and the config both record branches.
 * EBUSY       PMIOSETUP, IOCTL_PERFMON_START: Linux perf or the NMI watchdog has
 *             the counters. The kernel log says so, once. Or a real-time program of
 *             the highest priority keeps a CPU busy, so that the counters that
 *             Linux perf has used there can't be zeroed. The kernel log names the CPU.
 * EOPNOTSUPP  PMIOREADCPU: one of the CPUs is online, but is not used for
 *             counting, and the kernel log says why. Or one of the CPUs is not
 *             of the kind on which the counter counts.
 * EPERM       IOCTL_PERFMON_ALLOC_TRACE: the caller may not pin so much memory
 *             (perf_event_mlock_kb, RLIMIT_MEMLOCK, CAP_IPC_LOCK).
 * ENOMEM      There is not enough memory. If the caller's cgroup has reached its
 *             limit, the kernel may kill a process of the cgroup first.
 * EMFILE      IOCTL_PERFMON_GET_BUFFER_HANDLE: the process has too many open
 *             files. ENFILE: the system has too many.
 * EIO         A register does not hold what was written to it: a hypervisor or
 *             another driver changed it. The kernel log names the register. Or
 *             the counter was disabled for a while, or holds a value that
 *             can't have been counted. After this error of PMIOSTOP the counter
 *             is stopped. After this error of PMIOSETUP the counter is released.
 *             It has no value until it is set up again. After this error of
 *             IOCTL_PERFMON_START or IOCTL_PERFMON_STOP the trace is stopped:
 *             the records are whole, but their numbers can't be relied on.
 * EFAULT      The result can't be written.
 * ==========  ================================================================
 *
 * The lines about PMIOSETUP hold for PMIOSETUP2, too. open(2) for writing fails with
 * EBUSY while another descriptor is open for writing. PERFMON_EVENT_OPEN and
 * PERFMON_GET_OWNER do not need a descriptor that is open for writing; their errors
 * are in Documentation/events.rst.
 */

/*
 * Counting: the interface of FreeBSD's perfmon(4).
 */

/**
 * define NPMC - one more than the highest general counter number of any CPU
 *
 * The architectural limit: bits 31:0 of IA32_PERF_GLOBAL_CTRL (Intel SDM,
 * volume 3B, section 21.2.2). The number of general counters of this CPU is
 * &perfmon_properties.max_num_programmable_events. The number of a counter below
 * NPMC that this CPU lacks gives EINVAL.
 */
#define NPMC		32

/* FreeBSD's number for all counters. Neither driver implements it: EINVAL. */
#define PMC_ALL		(-1)

#define PMC_FIXED_BASE	0x40000000

/**
 * define PMC_FIXED - the number of fixed-function counter @n
 * @n: the counter's number among the fixed-function counters, from 0
 *
 * An extension. The encoding is that of the RDPMC instruction (Intel SDM,
 * volume 2B, "RDPMC"). A fixed-function counter takes PMCF_USR and PMCF_OS; its
 * event, unit, mask, PMCF_E and PMCF_INV must be 0.
 */
#define PMC_FIXED(n)	(PMC_FIXED_BASE + (n))

/**
 * DOC: Flags of a counter
 *
 * Bits 23:16 of IA32_PERFEVTSELx, in &pmc.pmc_flags:
 *
 * ========  ==================================================================
 * PMCF_USR  Counts in user mode (CPL 1 to 3). With neither this nor PMCF_OS the
 *           counter counts nothing, as in FreeBSD.
 * PMCF_OS   Counts in kernel mode (CPL 0).
 * PMCF_E    Counts how often the condition begins, not how long it lasts.
 * PMCF_PC   Refused with EINVAL: it drives a pin of the processor.
 * PMCF_INT  Ignored: the driver sets it.
 * PMCF_ANY  Refused with EINVAL: AnyThread counts the sibling hyperthread.
 * PMCF_EN   Ignored: the driver sets it. PMIOGET sets it if the counter runs.
 * PMCF_INV  Counts cycles with fewer events than the counter mask, instead of
 *           cycles with at least that number.
 * ========  ==================================================================
 */
#define PMCF_USR	0x01
#define PMCF_OS		0x02
#define PMCF_E		0x04
#define PMCF_PC		0x08
#define PMCF_INT	0x10
#define PMCF_ANY	0x20
#define PMCF_EN		0x40
#define PMCF_INV	0x80
#define PMCF_SYS_FLAGS	(PMCF_INT | PMCF_EN)

#ifdef __BINDGEN__
/* struct pmc - what a counter counts. Rust's unions are unsafe, so Rust has one member. */
struct pmc {
	int pmc_num;
	__u32 pmc_val;
};
#else
/**
 * struct pmc - what a counter counts
 * @pmc_num: 0 to &perfmon_properties.max_num_programmable_events - 1, or
 *	PMC_FIXED(n)
 * @pmc_event: event select
 * @pmc_unit: unit mask
 * @pmc_flags: PMCF_*
 * @pmc_mask: counter mask
 * @pmc_val: the four members above as one word, laid out as bits 31:0 of
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
		/* private: FreeBSD's members; FreeBSD's names above are macros for these */
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
 * @pmcd_value: events since the last PMIOSETUP or PMIORESET, summed over all
 *	CPUs, including those that went offline
 */
struct pmc_data {
	int pmcd_num;
	__u32 reserved;
	__s64 pmcd_value;
};

/**
 * struct pmc_tstamp - the time-stamp counter
 * @pmct_rate: the frequency of the time-stamp counter in MHz, rounded down
 * @reserved: 0
 * @pmct_value: the value of the time-stamp counter on the CPU that executed the
 *	call
 */
struct pmc_tstamp {
	int pmct_rate;
	__u32 reserved;
	__s64 pmct_value;
};

/* The most values that one PMIOREADCPU returns. */
#define PMC_CPU_MAX	64

/**
 * struct pmc_cpu_data - the values of a counter on several CPUs
 * @pmcc_num: the counter's number
 * @pmcc_first_cpu: the number of the first CPU, below
 *	&perfmon_info.nr_cpu_ids
 * @pmcc_count: in: the number of CPUs, 1 to PMC_CPU_MAX; out: the number of values,
 *	which is less if @pmcc_first_cpu is close to the highest CPU number
 * @reserved: must be 0
 * @pmcc_value: events since the last PMIOSETUP or PMIORESET on CPU
 *	@pmcc_first_cpu and the following CPUs; the last total of an offline
 *	CPU, 0 for a CPU that was never online
 */
struct pmc_cpu_data {
	int pmcc_num;
	__u32 pmcc_first_cpu;
	__u32 pmcc_count;
	__u32 reserved;
	__s64 pmcc_value[PMC_CPU_MAX];
};

/**
 * struct pmc2 - what a counter counts, for event selects wider than 32 bits
 * @pmc2_num: as &pmc.pmc_num
 * @pmc2_flags: must be 0
 * @pmc2_select: as &pmc.pmc_val, laid out as all 64 bits of IA32_PERFEVTSELx or
 *	of AMD's PERF_CTL, where bits 35:32 are bits 11:8 of the event
 * @pmc2_extra: must be 0
 * @pmc2_type: the CPUs on which the counter counts: 0 for all CPUs, or the type of a
 *	kind of core (of perf's PMU for these cores) for the CPUs of this kind
 * @reserved: must be 0
 *
 * With the type of a kind of core, other kinds may lack the counter, and may have the
 * event under another select or not at all.
 * PMIOREAD sums over the CPUs of the kind. PMIOREADCPU fails with EOPNOTSUPP for CPUs of
 * other kinds. A possible CPU that was never online is of no kind yet, and has a value of 0.
 *
 * With a type, also on a machine with one kind of core, the call fails with EINVAL if the
 * counter can't count the event on these cores: only some of the general counters can count
 * some events, and no general counter can count Intel's event 0. Without a type this is not
 * checked: a counter that can't count the event stays 0. PMIOGET2 stores the type that
 * PMIOSETUP2 got.
 */
struct pmc2 {
	int pmc2_num;
	__u32 pmc2_flags;
	__u64 pmc2_select;
	__u64 pmc2_extra;
	__u32 pmc2_type;
	__u32 reserved;
};

/*
 * The commands are enumerators, because bindgen can't evaluate _IOW(). Each is a
 * macro, too, so that programs can test for it with #ifdef.
 */

/**
 * enum pmc_command - the calls that count
 *
 * The argument of each call is a pointer to the type in parentheses.
 */
enum pmc_command {
	/**
	 * @PMIOSETUP: (&struct pmc) Sets a counter up on every CPU, stopped and
	 * at 0; stops it first if it runs. The counter belongs to this
	 * descriptor until close(2).
	 */
	PMIOSETUP	= _IOW('5', 1, struct pmc),
	/**
	 * @PMIOSTART: (int, a counter's number) Starts the counter; it goes on
	 * from its value. No effect if it runs.
	 */
	PMIOSTART	= _IOW('5', 2, int),
	/**
	 * @PMIOSTOP: (int) Stops the counter, which keeps its value. No effect if
	 * it is stopped.
	 */
	PMIOSTOP	= _IOW('5', 3, int),
	/**
	 * @PMIOREAD: (&struct pmc_data) Gives the value: the current value if
	 * the counter runs, else its value at the last stop.
	 */
	PMIOREAD	= _IOWR('5', 4, struct pmc_data),
	/**
	 * @PMIORESET: (int) Sets the value to 0; a running counter goes on from
	 * there.
	 */
	PMIORESET	= _IOW('5', 5, int),
	/**
	 * @PMIOTSTAMP: (&struct pmc_tstamp) Gives the time-stamp counter and its
	 * frequency.
	 */
	PMIOTSTAMP	= _IOR('5', 6, struct pmc_tstamp),
	/**
	 * @PMIOGET: (&struct pmc) Gives the values that PMIOSETUP took, without
	 * PMCF_INT, and with PMCF_EN set if the counter runs. After PMIOSETUP2,
	 * gives bits 31:0 of its select.
	 */
	PMIOGET		= _IOWR('5', 7, struct pmc),
	/**
	 * @PMIOREADCPU: (&struct pmc_cpu_data) An extension: PMIOREAD for each of
	 * up to PMC_CPU_MAX CPUs.
	 */
	PMIOREADCPU	= _IOWR('5', 8, struct pmc_cpu_data),
	/**
	 * @PMIOSETUP2: (&struct pmc2) An extension: PMIOSETUP with all bits of the
	 * event select.
	 */
	PMIOSETUP2	= _IOW('5', 9, struct pmc2),
	/** @PMIOGET2: (&struct pmc2) An extension: PMIOGET of all bits. */
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
 * Sampling: the interface of Fuchsia's perfmon, API version 3. The typedefs are
 * the reference's names.
 */

#define PERFMON_API_VERSION	3

/* In perfmon_properties.flags: the CPUs can record branches. */
#define PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH	(1U << 0)

/**
 * struct perfmon_properties - what the CPUs of this machine have in common
 * @api_version: PERFMON_API_VERSION
 * @pm_version: version of architectural performance monitoring (CPUID.0AH:
 *	EAX[7:0]); on AMD 1, or 2 with PerfMonV2
 * @max_num_events: counters and values in all
 * @reserved: 0
 * @max_num_fixed_events: fixed-function counters
 * @max_fixed_counter_width: the width of fixed-function counters in bits
 * @max_num_programmable_events: general counters
 * @max_programmable_counter_width: the width of general counters in bits
 * @max_num_misc_events: values, the events of PERFMON_GROUP_MISC
 * @max_misc_counter_width: the width of values in bits: 64; 0 if there are no values
 * @flags: PERFMON_PROPERTY_FLAG_*
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

/*
 * In perfmon_info.features: a rate may be up to 2^width - 1, where width is that of
 * the counter. Without this flag, a rate may be up to 2^31.
 */
#define PERFMON_FEATURE_FULL_WIDTH_WRITES	(1ULL << 0)
/*
 * In perfmon_info.features: while counters are in use, Linux perf is kept off them by an
 * event of its own on each CPU, the place-holder. perf's other events are not
 * refused, but wait.
 */
#define PERFMON_FEATURE_PLACE_HOLDER		(1ULL << 1)
/* In perfmon_info.features: events can record the mappings of programs. */
#define PERFMON_FEATURE_MAPPINGS		(1ULL << 2)

/**
 * struct perfmon_info - more properties, an extension
 * @nr_cpu_ids: the number of buffers of a trace: the highest possible CPU number + 1
 * @flags: 0
 * @features: PERFMON_FEATURE_*
 * @misc_events: bit n is set if the CPUs have event n of PERFMON_GROUP_MISC
 * @reserved: 0
 */
struct perfmon_info {
	__u32 nr_cpu_ids;
	__u32 flags;
	__u64 features;
	__u64 misc_events;
	__u64 reserved[5];
};

/*
 * Event ids: a group of 6 bits, and an event of 10 bits within the group.
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
 * @PERFMON_GROUP_RESERVED: has no events; PERFMON_EVENT_ID_NONE is in it
 * @PERFMON_GROUP_ARCH: 0 to 7, PERFMON_ARCH_EVENT_*: Intel's architectural
 *	events (Intel SDM, volume 3B, section 21.2.1.2), in any general counter.
 *	On AMD they are AMD's events that count the same; LLC references and
 *	misses are those of level 2, as in Linux perf; AMD has no event for
 *	reference cycles and top-down slots
 * @PERFMON_GROUP_FIXED: 1 to 7, PERFMON_FIXED_EVENT_*: event n is fixed-function
 *	counter n - 1, which counts nothing else. Fuchsia has 1 to 4
 * @PERFMON_GROUP_MODEL: 0 to 1023, each defined by PERFMON_DEFINE_EVENT
 * @PERFMON_GROUP_MISC: 32 to 41, PERFMON_MISC_EVENT_*: values that no counter of the
 *	PMU counts. Fuchsia's own events are below 32, and do not exist here
 */
enum perfmon_group_type {
	PERFMON_GROUP_RESERVED	= 0,
	PERFMON_GROUP_ARCH	= 1,
	PERFMON_GROUP_FIXED	= 2,
	PERFMON_GROUP_MODEL	= 3,
	PERFMON_GROUP_MISC	= 4,
};
typedef enum perfmon_group_type perfmon_group_type_t;

/* In PERFMON_GROUP_ARCH. */
#define PERFMON_ARCH_EVENT_UNHALTED_CORE_CYCLES		0
#define PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED		1
#define PERFMON_ARCH_EVENT_UNHALTED_REFERENCE_CYCLES	2
#define PERFMON_ARCH_EVENT_LLC_REFERENCES		3
#define PERFMON_ARCH_EVENT_LLC_MISSES			4
#define PERFMON_ARCH_EVENT_BRANCHES_RETIRED		5
#define PERFMON_ARCH_EVENT_BRANCH_MISSES_RETIRED	6
#define PERFMON_ARCH_EVENT_TOPDOWN_SLOTS		7

/* In PERFMON_GROUP_FIXED. */
#define PERFMON_FIXED_EVENT_INSTRUCTIONS_RETIRED	1
#define PERFMON_FIXED_EVENT_UNHALTED_CORE_CYCLES	2
#define PERFMON_FIXED_EVENT_UNHALTED_REFERENCE_CYCLES	3
#define PERFMON_FIXED_EVENT_TOPDOWN_SLOTS		4
/* Slots of wrong paths; slots that the front end left empty; slots that retired. */
#define PERFMON_FIXED_EVENT_TOPDOWN_BAD_SPECULATION	5
#define PERFMON_FIXED_EVENT_TOPDOWN_FE_BOUND		6
#define PERFMON_FIXED_EVENT_TOPDOWN_RETIRING		7

/**
 * DOC: Values
 *
 * The events of PERFMON_GROUP_MISC need no counter. Their ids are an extension, from 32
 * on: lower ids are those of Fuchsia's events, which count the traffic of
 * Skylake's memory controller, and are refused with EINVAL.
 * &perfmon_info.misc_events shows which values the CPUs have. The values in
 * records are
 *
 * =======================================  =======  ============================
 * event                                    scope    value
 * =======================================  =======  ============================
 * PERFMON_MISC_EVENT_ENERGY_PACKAGE        package  Joules * 2^32 since
 *                                                   IOCTL_PERFMON_START
 * PERFMON_MISC_EVENT_ENERGY_CORES          package  Joules * 2^32 of all cores of
 *                                                   the package since
 *                                                   IOCTL_PERFMON_START (Intel)
 * PERFMON_MISC_EVENT_ENERGY_CORE           core     Joules * 2^32 of one core since
 *                                                   IOCTL_PERFMON_START (AMD)
 * PERFMON_MISC_EVENT_ENERGY_MEMORY         package  Joules * 2^32 of the memory
 *                                                   since IOCTL_PERFMON_START
 *                                                   (Intel)
 * PERFMON_MISC_EVENT_TEMPERATURE_PACKAGE   package  degrees Celsius, signed
 *                                                   (Intel)
 * PERFMON_MISC_EVENT_TEMPERATURE_CORE      core     degrees Celsius, signed
 *                                                   (Intel)
 * PERFMON_MISC_EVENT_MARGIN_PACKAGE        package  degrees to the temperature at
 *                                                   which the CPU throttles
 *                                                   (Intel)
 * PERFMON_MISC_EVENT_MARGIN_CORE           core     degrees to the temperature at
 *                                                   which the CPU throttles
 *                                                   (Intel)
 * PERFMON_MISC_EVENT_APERF                 CPU      core cycles since
 *                                                   IOCTL_PERFMON_START in which
 *                                                   the CPU was not halted
 * PERFMON_MISC_EVENT_MPERF                 CPU      cycles of the time-stamp
 *                                                   counter's clock since
 *                                                   IOCTL_PERFMON_START in which
 *                                                   the CPU was not halted
 * =======================================  =======  ============================
 *
 * A value is recorded on the first CPU of its scope that is traced and online at
 * IOCTL_PERFMON_START, and on no other. When that CPU goes offline, its records end.
 * While a sensor has no valid temperature, its value is in no record.
 */
#define PERFMON_MISC_EVENT_ENERGY_PACKAGE	32
#define PERFMON_MISC_EVENT_ENERGY_CORES		33
#define PERFMON_MISC_EVENT_ENERGY_CORE		34
#define PERFMON_MISC_EVENT_ENERGY_MEMORY	35
#define PERFMON_MISC_EVENT_TEMPERATURE_PACKAGE	36
#define PERFMON_MISC_EVENT_TEMPERATURE_CORE	37
#define PERFMON_MISC_EVENT_MARGIN_PACKAGE	38
#define PERFMON_MISC_EVENT_MARGIN_CORE		39
#define PERFMON_MISC_EVENT_APERF		40
#define PERFMON_MISC_EVENT_MPERF		41

/**
 * struct perfmon_event_definition - what an event of PERFMON_GROUP_MODEL counts
 * @id: the id of the event, in PERFMON_GROUP_MODEL
 * @reserved: must be 0
 * @type: the CPUs on which the event counts, as &pmc2.pmc2_type
 * @select: as &pmc2.pmc2_select: event, unit mask, edge, invert, counter mask.
 *	PMCF_USR and PMCF_OS are ignored, because the config has the modes.
 *	PMCF_INT and PMCF_EN are ignored, too.
 * @extra: must be 0
 * @reserved2: must be 0
 *
 * With a type, also on a machine with one kind of core, the event takes one of the general
 * counters that can count it on these cores. For some events these are not all general
 * counters. An event that no counter can count is refused (EINVAL). The @select may also be
 * that of a fixed-function counter: event 0 with a unit mask of n for fixed-function
 * counter n - 1.
 * Only the buffers of CPUs of the kind have records of the event.
 */
struct perfmon_event_definition {
	__u16 id;
	__u16 reserved;
	__u32 type;
	__u64 select;
	__u64 extra;
	__u64 reserved2[2];
};

/* The most pages of one buffer. */
#define PERFMON_MAX_BUFFER_PAGES	65536

/**
 * struct perfmon_alloc - the buffers of a trace
 * @num_buffers: must be &perfmon_info.nr_cpu_ids
 * @buffer_size_in_pages: the size of each buffer, 1 to PERFMON_MAX_BUFFER_PAGES;
 *	one page holds any set of records
 */
struct perfmon_alloc {
	__u32 num_buffers;
	__u32 buffer_size_in_pages;
};
typedef struct perfmon_alloc ioctl_perfmon_alloc_t;

/* The most events of one trace. */
#define PERFMON_MAX_EVENTS	32

typedef __u32 perfmon_rate_t;

/**
 * DOC: Flags of an event
 *
 * In &perfmon_config.flags. An event with a rate ticks each time that it has been
 * counted rate more times:
 *
 * ===============================  ===========================================
 * PERFMON_CONFIG_FLAG_OS           Counts in kernel mode.
 * PERFMON_CONFIG_FLAG_USER         Counts in user mode. With neither this nor
 *                                  PERFMON_CONFIG_FLAG_OS nothing is counted.
 * PERFMON_CONFIG_FLAG_PC           Writes PC records instead of TICK. Ignored
 *                                  if the event does not tick.
 * PERFMON_CONFIG_FLAG_TIMEBASE0    Writes a COUNT or a VALUE whenever events[0]
 *                                  ticks. Has no effect on events[0], which must tick.
 * PERFMON_CONFIG_FLAG_LAST_BRANCH  Writes a LAST_BRANCH record at each tick, of
 *                                  branches in the event's modes.
 * ===============================  ===========================================
 */
#define PERFMON_CONFIG_FLAG_OS		(1U << 0)
#define PERFMON_CONFIG_FLAG_USER	(1U << 1)
#define PERFMON_CONFIG_FLAG_PC		(1U << 2)
#define PERFMON_CONFIG_FLAG_TIMEBASE0	(1U << 3)
#define PERFMON_CONFIG_FLAG_LAST_BRANCH	(1U << 4)
#define PERFMON_CONFIG_FLAG_MASK	0x1f

/**
 * struct perfmon_config - what a trace records
 * @events: event ids, each at most once, from the front;
 *	PERFMON_EVENT_ID_NONE ends the list
 * @rate: the number of events from one record to the next
 * @flags: PERFMON_CONFIG_FLAG_*
 *
 * =======  =========  =========================================================
 * rate     TIMEBASE0  records
 * =======  =========  =========================================================
 * not 0    no         TICK or PC each time that rate events have been counted;
 *                     COUNT of the rest at IOCTL_PERFMON_STOP
 * 0        no         COUNT at IOCTL_PERFMON_STOP
 * ignored  yes        COUNT whenever events[0] ticks, and at IOCTL_PERFMON_STOP
 * =======  =========  =========================================================
 *
 * An event of PERFMON_GROUP_MISC has VALUE instead of COUNT. It has no modes:
 * PERFMON_CONFIG_FLAG_OS and PERFMON_CONFIG_FLAG_USER have no effect on it.
 *
 * A config is refused with EINVAL, and the previous config stays, if
 *
 * - there is no event, or anything but 0 follows the first
 *   PERFMON_EVENT_ID_NONE;
 * - a flag is not in PERFMON_CONFIG_FLAG_MASK;
 * - an event is in the config twice, is not defined, or is missing on these CPUs;
 * - the config needs more general counters than the CPUs that count the events have, or two
 *   events need the same counter;
 * - an event of PERFMON_GROUP_MISC has a rate and no PERFMON_CONFIG_FLAG_TIMEBASE0, or
 *   is events[0] and has a rate;
 * - a rate is above 2^width - 1 (the counter's width), or above 2^31 without
 *   PERFMON_FEATURE_FULL_WIDTH_WRITES;
 * - an event has PERFMON_CONFIG_FLAG_TIMEBASE0 and the rate of events[0] is 0;
 * - an event has PERFMON_CONFIG_FLAG_TIMEBASE0, and events[0] counts on one kind of core
 *   only and the event does not;
 * - an event has PERFMON_CONFIG_FLAG_LAST_BRANCH and does not tick, or the CPUs
 *   lack PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH, or it has PERFMON_CONFIG_FLAG_OS
 *   and the CPUs (some of AMD's) can't freeze the records;
 * - events with PERFMON_CONFIG_FLAG_LAST_BRANCH differ in modes: a CPU has one
 *   filter for branches.
 */
struct perfmon_config {
	__u16 events[PERFMON_MAX_EVENTS];
	__u32 rate[PERFMON_MAX_EVENTS];
	__u32 flags[PERFMON_MAX_EVENTS];
};
typedef struct perfmon_config perfmon_ioctl_config_t;

/**
 * struct perfmon_buffer_handle_req - the buffer of a new handle
 * @descriptor: the number of the CPU, below &perfmon_alloc.num_buffers
 */
struct perfmon_buffer_handle_req {
	__u32 descriptor;
};
typedef struct perfmon_buffer_handle_req ioctl_perfmon_buffer_handle_req_t;

#define PERFMON_BUFFER_VERSION		0

#define PERFMON_BUFFER_ARCH_UNKNOWN	0U
#define PERFMON_BUFFER_ARCH_X86_64	1U
#define PERFMON_BUFFER_ARCH_ARM64	2U

/**
 * DOC: Flags of a buffer
 *
 * In &perfmon_buffer_header.flags:
 *
 * PERFMON_BUFFER_FLAG_FULL
 *   The buffer was full. The CPU recorded and counted nothing more until
 *   IOCTL_PERFMON_STOP wrote the last counts, for which room is kept. The sums
 *   are exact up to that moment.
 *
 * PERFMON_BUFFER_FLAG_THROTTLED
 *   An extension. There were more samples, or they took more of the CPU's time,
 *   than the module's parameters perf_event_max_sample_rate and
 *   perf_cpu_time_max_percent allow, or the CPU did nothing but handle
 *   overflows. Until the next tick of its timer the CPU counted and did not
 *   sample; at the tick it wrote TIME and a COUNT of each event with a rate. The
 *   sums are exact.
 *
 * PERFMON_BUFFER_FLAG_OFFLINE
 *   An extension. The CPU went offline, or the system slept. Before that, the
 *   CPU wrote the records of IOCTL_PERFMON_STOP. The CPU records again from the
 *   next IOCTL_PERFMON_START on. A CPU that is offline at IOCTL_PERFMON_START has
 *   this flag and no records.
 *
 * PERFMON_BUFFER_FLAG_NOT_TRACED
 *   An extension. At IOCTL_PERFMON_ALLOC_TRACE the CPU was offline, or not used
 *   for counting (the kernel log says why). It is not recorded, even if it comes
 *   online later. The buffer is one page, which has the header; access to the
 *   rest of its mapping raises SIGBUS.
 *
 * PERFMON_BUFFER_FLAG_LOST
 *   An extension. Another driver, perf or a hypervisor changed what the trace
 *   depends on: the register that enables all counters, the local APIC's entry
 *   for their interrupt, or the registers that record branches. The module
 *   repaired it; events, samples or branches before the repair may be missing.
 *   If an overflow's interrupt never came, the CPU wrote TIME and a COUNT of each
 *   event with a rate. Branches from before a repair are in no later record.
 */
#define PERFMON_BUFFER_FLAG_FULL	(1U << 0)
#define PERFMON_BUFFER_FLAG_THROTTLED	(1U << 1)
#define PERFMON_BUFFER_FLAG_OFFLINE	(1U << 2)
#define PERFMON_BUFFER_FLAG_NOT_TRACED	(1U << 3)
#define PERFMON_BUFFER_FLAG_LOST	(1U << 4)

/**
 * struct perfmon_buffer_header - the beginning of a buffer
 * @version: PERFMON_BUFFER_VERSION
 * @arch: PERFMON_BUFFER_ARCH_X86_64
 * @flags: PERFMON_BUFFER_FLAG_*
 * @ticks_per_second: the frequency of the time-stamp counter, 0 if the kernel
 *	does not know it
 * @capture_end: the offset of the end of the records. It is stored with release
 *	order after a whole set of records: a reader that loads it with acquire
 *	order sees whole sets, also while the trace runs.
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
 * @PERFMON_RECORD_RESERVED: no record has this type
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

/*
 * Rust allows no aligned structure in a packed one, so for bindgen the header is
 * neither aligned nor packed.
 */
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
 * @time: the CPU's time-stamp counter
 */
struct perfmon_time_record {
	struct perfmon_record_header header;
	__s64 time;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_time_record perfmon_time_record_t;

/**
 * struct perfmon_tick_record - the event was counted as many times as its rate says
 * @header: names the event
 *
 * The rate is in &perfmon_config.rate, not in the record.
 */
struct perfmon_tick_record {
	struct perfmon_record_header header;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_tick_record perfmon_tick_record_t;

/**
 * struct perfmon_count_record - what was counted since the event's last record
 * @header: names the event
 * @count: the number of events
 */
struct perfmon_count_record {
	struct perfmon_record_header header;
	__u64 count;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_count_record perfmon_count_record_t;

/**
 * struct perfmon_value_record - the value of an event of PERFMON_GROUP_MISC
 * @header: names the event
 * @value: the value; its unit depends on the event
 */
struct perfmon_value_record {
	struct perfmon_record_header header;
	__u64 value;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_value_record perfmon_value_record_t;

/**
 * struct perfmon_pc_record - a tick, with the place where the CPU was
 * @header: names the event
 * @aspace: the address space: the address bits of CR3; 0 if the caller of
 *	IOCTL_PERFMON_STAGE_CONFIG had no permission to count the kernel. A
 *	kernel thread has the address space of the program before it.
 * @pc: the address of the next instruction. The hardware takes some
 *	instructions to raise the interrupt, and the kernel sometimes delays it.
 *	For a caller without permission to count the kernel, an address in the
 *	kernel is 0. Even an event of user mode may have an address in the kernel,
 *	if its interrupt is late.
 *
 * Written instead of a TICK if the event has PERFMON_CONFIG_FLAG_PC.
 */
struct perfmon_pc_record {
	struct perfmon_record_header header;
	__u64 aspace;
	__u64 pc;
} PERFMON_ALIGN_RECORD;
typedef struct perfmon_pc_record perfmon_pc_record_t;

/* In perfmon_last_branch.info: core cycles since the previous branch; 0 if unknown. */
#define PERFMON_LAST_BRANCH_INFO_CYCLES_SHIFT	0U
#define PERFMON_LAST_BRANCH_INFO_CYCLES_LEN	16U
#define PERFMON_LAST_BRANCH_INFO_CYCLES_MASK	0xffffULL
/* The branch was mispredicted. */
#define PERFMON_LAST_BRANCH_INFO_MISPRED_SHIFT	16U
#define PERFMON_LAST_BRANCH_INFO_MISPRED_LEN	1U
#define PERFMON_LAST_BRANCH_INFO_MISPRED_MASK	0x10000ULL

/**
 * struct perfmon_last_branch - a branch that was taken
 * @from: the address of the branch; on AMD that of the instruction before it if
 *	the two were fused (a comparison and a jump)
 * @to: the address of its target
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
 * @num_branches: the number of branches in the record
 * @aspace: as &perfmon_pc_record.aspace; earlier branches may be of another
 *	address space
 * @branches: the newest first; the record ends after @num_branches. Branches
 *	from or to the kernel are left out for a caller without permission to
 *	count the kernel. On AMD, branches of a path that turned out to be the
 *	wrong one are left out, too.
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
 * DOC: States of a trace
 *
 * ::
 *
 *           ALLOC_TRACE               STAGE_CONFIG             START
 *     Idle ------------> Allocated ----------------> Staged ---------> Running
 *      ^                     |                        |  ^              |
 *      |      FREE_TRACE     |                        |  '--------------'
 *      '---------------------+------------------------'       STOP
 */

/**
 * enum perfmon_command - the calls that sample
 *
 * The argument of each call is a pointer to the type in parentheses. A call is
 * allowed in the states that are named.
 */
enum perfmon_command {
	/**
	 * @IOCTL_PERFMON_GET_PROPERTIES: (&struct perfmon_properties) Gives what
	 * all CPUs of the machine have in common. In any state.
	 */
	IOCTL_PERFMON_GET_PROPERTIES	= _IOR('6', 0, struct perfmon_properties),
	/**
	 * @IOCTL_PERFMON_ALLOC_TRACE: (&struct perfmon_alloc) Allocates a buffer
	 * for each CPU number. In state Idle.
	 */
	IOCTL_PERFMON_ALLOC_TRACE	= _IOW('6', 1, struct perfmon_alloc),
	/**
	 * @IOCTL_PERFMON_FREE_TRACE: Releases the buffers and the config. Handles
	 * and mappings of the buffers stay valid; so do events that were defined.
	 * In state Allocated or Staged.
	 */
	IOCTL_PERFMON_FREE_TRACE	= _IO('6', 2),
	/**
	 * @IOCTL_PERFMON_GET_ALLOC: (&struct perfmon_alloc) Gives what
	 * IOCTL_PERFMON_ALLOC_TRACE took. In any state but Idle.
	 */
	IOCTL_PERFMON_GET_ALLOC		= _IOR('6', 3, struct perfmon_alloc),
	/**
	 * @IOCTL_PERFMON_STAGE_CONFIG: (&struct perfmon_config) Checks and stores
	 * what to record. A config that is refused leaves the previous one. In
	 * state Allocated or Staged.
	 */
	IOCTL_PERFMON_STAGE_CONFIG	= _IOW('6', 4, struct perfmon_config),
	/**
	 * @IOCTL_PERFMON_GET_CONFIG: (&struct perfmon_config) Gives what
	 * IOCTL_PERFMON_STAGE_CONFIG took. In state Staged.
	 */
	IOCTL_PERFMON_GET_CONFIG	= _IOR('6', 5, struct perfmon_config),
	/**
	 * @IOCTL_PERFMON_GET_BUFFER_HANDLE: (&struct perfmon_buffer_handle_req)
	 * Returns a new file descriptor of a buffer, closed on exec, for mmap(2)
	 * with PROT_READ and MAP_SHARED. In state Allocated or Staged.
	 */
	IOCTL_PERFMON_GET_BUFFER_HANDLE	= _IOW('6', 6, struct perfmon_buffer_handle_req),
	/**
	 * @IOCTL_PERFMON_START: Takes the lowest free counters, empties the
	 * buffers and begins to record, on every CPU that is online and has a
	 * buffer. In state Staged.
	 */
	IOCTL_PERFMON_START		= _IO('6', 7),
	/**
	 * @IOCTL_PERFMON_STOP: Ends the recording: each CPU writes its last
	 * counts, the counters are free again, the config stays. No effect if
	 * the trace does not run. In any state but Idle.
	 */
	IOCTL_PERFMON_STOP		= _IO('6', 8),
	/**
	 * @PERFMON_DEFINE_EVENT: (&struct perfmon_event_definition) An extension:
	 * defines an event of PERFMON_GROUP_MODEL, in place of an earlier
	 * definition, until close(2). In state Idle or Allocated.
	 */
	PERFMON_DEFINE_EVENT		= _IOW('6', 0x20, struct perfmon_event_definition),
	/**
	 * @PERFMON_GET_INFO: (&struct perfmon_info) An extension: gives more
	 * properties. In any state.
	 */
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

/*
 * Events: the ideas of Linux perf_event, on the counters of this module.
 */

/**
 * DOC: Events
 *
 * PERFMON_EVENT_OPEN returns a descriptor that counts one event: of a task, of a
 * task and all tasks that it creates, of all that runs on a CPU, or of a cgroup. Any
 * number of programs can have events at once. struct perf_event_attr, read(2) and the
 * ioctls are those of perf_event_open(2), with these differences:
 *
 * - Types are PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE (the events in the table
 *   of the CPU) and PERF_TYPE_RAW. The only event of PERF_TYPE_SOFTWARE is
 *   PERF_COUNT_SW_DUMMY. On a hybrid processor the first two types count on all
 *   kinds of cores. PERF_TYPE_RAW is the type of one kind of core, and the other
 *   kinds have the types that they have in perf.
 * - Nothing is multiplexed, unless PERFMON_EVENT_ROTATE asks for it. Any number of
 *   events that count the same share a counter. An event for which no counter is
 *   left is refused with EBUSY. So time_running is time_enabled, unless the event
 *   takes turns or the processor is a hybrid.
 *   PERFMON_GET_OWNER gives the owner of a counter.
 * - time_enabled is the time during which the task ran, on the CPU that the event is
 *   for, and the event and its group were enabled.
 * - PERF_EVENT_IOC_RESET zeroes the whole sum, including the counts of tasks that
 *   have exited.
 * - read(2) gives EIO if events were missed, for example because a register was found
 *   changed, or there was no memory to follow a new task. It never gives a part of the
 *   count.
 * - poll(2) gives POLLHUP when no task is left that the event counts, and waits
 *   until then.
 * - An event leaves a task that executes a program with more rights (setuid, setgid,
 *   capabilities) or a program that its user may not read. The count is that of the
 *   time before execve(2), and "left" in the descriptor's fdinfo is the number of
 *   tasks that the event has left.
 * - With a sample_period there is a sample for each period. A sample is missing if
 *   its overflow came too late, sampling took too much of the CPU's time, or the
 *   ring was full: PERF_RECORD_LOST has the number of missing samples. The count has
 *   all events.
 * - mmap(2) maps the first page of struct perf_event_mmap_page, and a ring after
 *   it. cap_user_rdpmc is set for the program whose thread is counted.
 *
 * An event outlives the descriptor of the device that it was opened with.
 */

/**
 * struct perfmon_event_open - the arguments of perf_event_open(2)
 * @attr: the address of a struct perf_event_attr (<linux/perf_event.h>). Its
 *	member size is 64 to 4096, or 0, which means 64, the size of the first
 *	version. The call fails with E2BIG if size is anything else, or if the
 *	structure is larger than the module's and the rest is not 0. It then sets
 *	size to the size of the module's structure
 * @pid: 0 the calling thread; > 0 the thread with this ID; -1 all tasks, on CPU
 *	@cpu. With PERF_FLAG_PID_CGROUP a descriptor of the directory of a cgroup of
 *	version 2, or of version 1 in perf's hierarchy: its tasks, and the tasks of
 *	the cgroups in it
 * @cpu: the only CPU on which the event counts; -1 for any CPU
 * @group_fd: the descriptor of the group's leader; -1 makes a new group
 * @flags: PERF_FLAG_FD_CLOEXEC, PERF_FLAG_FD_NO_GROUP, PERF_FLAG_FD_OUTPUT,
 *	PERF_FLAG_PID_CGROUP, PERFMON_EVENT_ROTATE
 * @reserved: must be 0
 */
struct perfmon_event_open {
	__u64 attr;
	__s32 pid;
	__s32 cpu;
	__s32 group_fd;
	__u32 flags;
	__u64 reserved[2];
};

/*
 * In &perfmon_event_open.flags: if no counter is free for the event, it takes turns with
 * other events of the same task or CPU that have this flag, as events of perf do.
 * The event counts only during its turns: time_running is the time of these turns.
 * read_format must have both times, unless the event is a sibling.
 */
#define PERFMON_EVENT_ROTATE	(1U << 4)

/**
 * enum perfmon_owner - the owner of a counter
 * @PERFMON_OWNER_NONE: no owner
 * @PERFMON_OWNER_PERF: Linux perf or the NMI watchdog
 * @PERFMON_OWNER_SESSION: the program that called PMIOSETUP
 * @PERFMON_OWNER_TRACE: the program whose trace runs
 * @PERFMON_OWNER_TASKS: events of tasks; the counter counts for each task while it runs
 * @PERFMON_OWNER_CPUS: events of CPUs; each CPU may count a different event
 * @PERFMON_OWNER_EVENTS: events of tasks, CPUs or cgroups, which all count the same
 */
enum perfmon_owner {
	PERFMON_OWNER_NONE	= 0,
	PERFMON_OWNER_PERF	= 1,
	PERFMON_OWNER_SESSION	= 2,
	PERFMON_OWNER_TRACE	= 3,
	PERFMON_OWNER_TASKS	= 4,
	PERFMON_OWNER_CPUS	= 5,
	PERFMON_OWNER_EVENTS	= 6,
};

/**
 * struct perfmon_counter_owner - the owner of a counter
 * @num: in: the counter's number, as &pmc.pmc_num; also of a counter that only some
 *	kinds of cores have
 * @kind: out: PERFMON_OWNER_*
 * @pid: out: the process that was the first to ask for the counter; 0 if there is no
 *	such process, it has exited, or it is outside of the caller's PID namespace
 * @users: out: the number of events that share the counter; 1 for perf, a session or a trace,
 *	0 for no owner
 * @comm: out: the name of that process when it asked
 * @reserved: must be 0
 */
struct perfmon_counter_owner {
	__s32 num;
	__u32 kind;
	__s32 pid;
	__u32 users;
	char comm[16];
	__u64 reserved[2];
};

/**
 * enum perfmon_event_command - the calls for events
 *
 * The argument of each call is a pointer to the type in parentheses. Any descriptor
 * of the device may be used, even one that is open for reading only.
 */
enum perfmon_event_command {
	/**
	 * @PERFMON_EVENT_OPEN: (&struct perfmon_event_open) Returns a new file
	 * descriptor, which counts an event.
	 */
	PERFMON_EVENT_OPEN		= _IOW('6', 0x22, struct perfmon_event_open),
	/**
	 * @PERFMON_GET_OWNER: (&struct perfmon_counter_owner) Gives the owner of
	 * a counter.
	 */
	PERFMON_GET_OWNER		= _IOWR('6', 0x23, struct perfmon_counter_owner),
};

#define PERFMON_EVENT_OPEN		PERFMON_EVENT_OPEN
#define PERFMON_GET_OWNER		PERFMON_GET_OWNER

#endif /* _UAPI_LINUX_PERFMON_H */
