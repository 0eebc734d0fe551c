// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>

#include "branch_records.h"
#include "cpu.h"
#include "module.h"
#include "msr.h"
#include "snapshot.h"

/* Values that another driver might leave in registers. */
#define FOREIGN_SELECT		0x000100c5ULL
#define FOREIGN_RUNNING		(FOREIGN_SELECT | PERFEVTSEL_EN)
#define FOREIGN_LVTPC		(LVTPC_MASKED | LVTPC_NMI)
#define GLOBAL_CTRL_PMC0	(1ULL << 0)

/* Reads a register that may not exist. */
static int optional_read(int cpu, __u32 msr, __u64 *value)
{
	*value = 0;
	return msr ? msr_read(cpu, msr, value) : 0;
}

static int optional_write(int cpu, __u32 msr, __u64 value)
{
	return msr ? msr_write(cpu, msr, value) : 0;
}

static __u32 fixed_ctrl(const struct perfmon_properties *p)
{
	return p->max_num_fixed_events ? MSR_IA32_FIXED_CTR_CTRL : 0;
}

int snapshot_read(const struct perfmon_properties *p, int cpu,
		  struct snapshot *s)
{
	const struct pmu_registers *r = pmu_registers();
	int err = 0, i;

	if (p->max_num_programmable_events > SNAPSHOT_MAX_COUNTERS ||
	    p->max_num_fixed_events > SNAPSHOT_MAX_COUNTERS)
		return -E2BIG;
	*s = (struct snapshot) { .lvtpc = 0 };
	for (i = 0; i < p->max_num_programmable_events && !err; i++) {
		err = msr_read(cpu, r->select0 + i * r->step, &s->select[i]);
		if (!err)
			err = msr_read(cpu, r->counter0 + i * r->step,
				       &s->counter[i]);
	}
	for (i = 0; i < p->max_num_fixed_events && !err; i++)
		err = msr_read(cpu, MSR_IA32_FIXED_CTR(i), &s->fixed[i]);
	if (!err)
		err = optional_read(cpu, fixed_ctrl(p), &s->fixed_ctrl);
	if (!err)
		err = optional_read(cpu, r->global_ctrl, &s->global_ctrl);
	if (!err)
		err = optional_read(cpu, r->global_status, &s->global_status);
	if (!err)
		err = optional_read(cpu, branch_records()->select, &s->lbr_select);
	if (!err)
		err = optional_read(cpu, branch_records()->enable, &s->lbr_enable);
	if (!err)
		err = optional_read(cpu, branch_records()->size, &s->lbr_size);
	if (!err)
		err = msr_read(cpu, MSR_IA32_DEBUGCTL, &s->debugctl);
	return err ? err : lvtpc_read(cpu, &s->lvtpc);
}

int snapshot_write(const struct perfmon_properties *p, int cpu,
		   const struct snapshot *s)
{
	const struct pmu_registers *r = pmu_registers();
	int i, err = 0;

	for (i = 0; i < p->max_num_programmable_events && !err; i++)
		err = msr_write(cpu, r->select0 + i * r->step, s->select[i]);
	if (!err)
		err = optional_write(cpu, r->global_ctrl, s->global_ctrl);
	if (!err)
		err = optional_write(cpu, branch_records()->select, s->lbr_select);
	return err ? err : lvtpc_write(cpu, s->lvtpc);
}

int snapshot_disturb(const struct perfmon_properties *p, int cpu,
		     const struct snapshot *before)
{
	struct snapshot s = *before;
	int i;

	for (i = 0; i < p->max_num_programmable_events; i++)
		s.select[i] = i == 1 ? FOREIGN_RUNNING : FOREIGN_SELECT + i;
	s.lbr_select = branch_selection(LBR_CPL_EQ_0 | LBR_CPL_NEQ_0);
	if (module_has_place_holder()) {
		/*
		 * With a place-holder, a running counter belongs to perf, and perf writes the
		 * global control and the LVTPC.
		 */
		s.select[1] = FOREIGN_SELECT + 1;
		return snapshot_write(p, cpu, &s);
	}
	s.global_ctrl &= ~GLOBAL_CTRL_PMC0;
	s.lvtpc = FOREIGN_LVTPC;
	return snapshot_write(p, cpu, &s);
}

const char *snapshot_difference(const struct snapshot *before,
				const struct snapshot *after)
{
	int i;

	for (i = 0; i < SNAPSHOT_MAX_COUNTERS; i++) {
		if (after->select[i] !=
		    (before->select[i] & PERFEVTSEL_EN ? 0 : before->select[i]))
			return "an event select";
		if (after->counter[i] && after->counter[i] != before->counter[i])
			return "a general counter";
		if (after->fixed[i] && after->fixed[i] != before->fixed[i])
			return "a fixed-function counter";
	}
	if (after->fixed_ctrl != before->fixed_ctrl)
		return "the control of the fixed-function counters";
	/* When a place-holder is added or removed, perf writes the whole register. */
	if (after->global_ctrl != before->global_ctrl && !module_has_place_holder())
		return "the global control";
	if (after->global_status != before->global_status)
		return "the global status";
	if (after->debugctl != before->debugctl)
		return "DEBUGCTL";
	if (after->lbr_select != before->lbr_select)
		return "the choice of branches";
	if (after->lbr_enable != before->lbr_enable)
		return "the enable bit of branch records";
	if (after->lbr_size != before->lbr_size)
		return "the number of branch records";
	return after->lvtpc != before->lvtpc ? "LVTPC" : "";
}

const char *snapshot_difference_now(const struct perfmon_properties *p,
				    const cpu_set_t *cpus,
				    const struct snapshot *before)
{
	const char *difference = "";
	struct snapshot now;
	int cpu;

	for_each_cpu_in(cpu, cpus) {
		if (snapshot_read(p, cpu, &now))
			return "the registers can't be read";
		difference = snapshot_difference(&before[cpu], &now);
		if (*difference)
			break;
	}
	return difference;
}
