/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The last branch records of the current CPU, and their registers: Intel's LBR stack (16
 * entries before Skylake, then 32), Intel's architectural LBR, or AMD's LBR stack.
 */
#ifndef SELFTESTS_BRANCH_RECORDS_H
#define SELFTESTS_BRANCH_RECORDS_H

#include <stdbool.h>

#include <linux/types.h>

/*
 * Branches to leave out, as bits of MSR_LBR_SELECT (Intel SDM, volume 4, table 2-39; AMD
 * APM, volume 2, "Last Branch Stack Registers").
 */
#define LBR_CPL_EQ_0		(1U << 0)	/* branches to CPL 0 */
#define LBR_CPL_NEQ_0		(1U << 1)	/* branches to CPL 1 to 3 */
#define LBR_JCC			(1U << 2)
#define LBR_NEAR_REL_CALL	(1U << 3)
#define LBR_NEAR_IND_CALL	(1U << 4)
#define LBR_NEAR_RET		(1U << 5)
#define LBR_NEAR_IND_JMP	(1U << 6)
#define LBR_NEAR_REL_JMP	(1U << 7)
#define LBR_FAR			(1U << 8)

#define LBR_MAX_DEPTH		32

struct branch_records {
	unsigned int depth;	/* number of records; 0: there are none */
	bool call_stack;	/* call stack mode exists: a return removes its call */
	bool types;		/* a record has the branch type */
	bool can_freeze;	/* a PMI can freeze the records */
	bool spec;		/* a record says whether it was speculative */
	__u32 select;		/* the register that selects branches */
	__u64 select_enable;	/* the enable bit in `select`, or 0 */
	__u32 enable;		/* the register with the enable bit */
	__u64 enable_bit;
	__u32 newest;		/* the register with the index of the newest record; 0: record 0 is the newest */
	__u32 size;		/* the register with the number of records, or 0 */
	__u32 from, to, info;	/* registers of record 0; `info`: 0 if there is none */
	__u32 step;		/* distance to the same register of the next record */
	unsigned int flag_bits;	/* number of flag bits above the address in `from` */
};

const struct branch_records *branch_records(void);

/* Returns the value of the register `select` that leaves out the branches @left_out (LBR_*). */
__u64 branch_selection(unsigned int left_out);

/* A branch. Addresses are sign-extended, without flag bits. */
struct branch_record {
	__u64 from, to, info;
};

/*
 * Clear the records of a CPU; read them, the newest first. Return 0 or a negative errno.
 */
int branch_records_clear(int cpu);
int branch_records_read(int cpu, struct branch_record records[LBR_MAX_DEPTH]);

#endif
