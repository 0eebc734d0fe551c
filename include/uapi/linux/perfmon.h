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
 *            down (kernel_lockdown(7))
 * EFAULT     the argument can't be read or written
 * EINVAL     a counter number, a flag or a value is out of its range
 * EACCES     Linux's own policy for perf events forbids it to this process
 *            (/proc/sys/kernel/perf_event_paranoid, CAP_PERFMON)
 * EBUSY      open(2): there is a writer; PMIOSETUP: somebody else has the
 *            hardware counters (the kernel log says who); the others: nobody
 *            has set the counter up
 * EOPNOTSUPP PMIOREADCPU: this CPU is not counted on
 * ENOMEM     no memory
 * EIO        the hardware does not hold what was written to it, so there is
 *            no count to give (the kernel log says which register)
 * =========  ================================================================
 *
 * Checks are made in this order: command, write access, argument copied in,
 * reserved bits, counter number, policy, state, values, hardware owner,
 * memory. A call that fails changes nothing.
 */
#ifndef _UAPI_LINUX_PERFMON_H
#define _UAPI_LINUX_PERFMON_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define _PATH_PERFMON	"/dev/perfmon"

/*
 * Counting: the interface of FreeBSD's perfmon(4).
 */

/*
 * NPMC - bound of the general counter numbers, on any supported CPU
 *
 * The architectural limit: bits 31:0 of IA32_PERF_GLOBAL_CTRL (Intel SDM,
 * volume 3B, section 21.2.2). The number that this CPU has is in
 * &struct perfmon_properties.max_num_programmable_events.
 */
#define NPMC		32

/* Never implemented, there or here: a call with it is refused with EINVAL. */
#define PMC_ALL		(-1)

/*
 * PMC_FIXED(n) - the number of fixed-function counter n
 *
 * An extension. The encoding is that of the RDPMC instruction (Intel SDM,
 * volume 2B, "RDPMC"). Event, unit and mask of a fixed counter must be 0.
 */
#define PMC_FIXED_BASE	0x40000000
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
#ifndef __BINDGEN__
	__extension__ union {
		__extension__ struct {
			__u8 pmc_event;
			__u8 pmc_unit;
			__u8 pmc_flags;
			__u8 pmc_mask;
		};
		__u32 pmc_val;
	};
#else
	__u32 pmc_val;
#endif
};

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

/*
 * The commands are enumerators because bindgen can't evaluate _IOW(); each is
 * a macro too, so that programs can test for it with #ifdef.
 */
enum {
	/**
	 * @PMIOSETUP: set counter &struct pmc.pmc_num up on every CPU: stopped
	 * and zero. It belongs to this descriptor until close(2).
	 */
	PMIOSETUP	= _IOW('5', 1, struct pmc),
	/** @PMIOSTART: go on counting from the value at the stop. */
	PMIOSTART	= _IOW('5', 2, int),
	/** @PMIOSTOP: stop; the value stays. */
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

/* The reference's name. */
typedef struct perfmon_properties perfmon_ioctl_properties_t;

enum {
	/** @IOCTL_PERFMON_GET_PROPERTIES: needs no write access. */
	IOCTL_PERFMON_GET_PROPERTIES = _IOR('6', 0, struct perfmon_properties),
};

#define IOCTL_PERFMON_GET_PROPERTIES	IOCTL_PERFMON_GET_PROPERTIES

#endif /* _UAPI_LINUX_PERFMON_H */
