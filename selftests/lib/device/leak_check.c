// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "kmsg.h"
#include "leak_check.h"
#include "memory.h"
#include "msr.h"

#define N	100000UL
#define RATE	1009
#define PAGES	16

#define TOLERATED_KB		32768
#define TOLERATED_SLAB_KB	1024

/* The limit of a wait, at least a minute. The wait reaches it only if memory is lost. */
#define TRIES			600
#define TRY_US			100000

static int set_affinity(const cpu_set_t *cpus)
{
	return sched_setaffinity(0, sizeof(*cpus), cpus) ? -errno : 0;
}

int leak_check_begin(struct leak_check *l)
{
	int cpu, err = machine_properties(&l->properties);

	if (!err)
		err = cpus_online(&l->cpus);
	if (err)
		return err;
	l->free_kb = memory_kb("MemFree");
	l->slab_kb = memory_slab_kb();
	l->kmsg = kmsg_open_end();
	if (l->kmsg < 0)
		return l->kmsg;
	for_each_cpu_in(cpu, &l->cpus) {
		err = snapshot_read(&l->properties, cpu, &l->before[cpu]);
		if (err)
			return err;
	}
	/* snapshot_read() has pinned the thread. */
	return set_affinity(&l->cpus);
}

/*
 * Calls snapshot_disturb(), and clears the event select of the running counter, because the module
 * does not restore that select.
 */
static int disturb(struct leak_check *l, int cpu)
{
	struct snapshot *before = &l->before[cpu];
	int err = snapshot_disturb(&l->properties, cpu, before), i;

	if (!err)
		err = snapshot_read(&l->properties, cpu, before);
	if (err)
		return err;
	for (i = 0; i < SNAPSHOT_MAX_COUNTERS; i++) {
		if (before->select[i] & PERFEVTSEL_EN)
			before->select[i] = 0;
	}
	return snapshot_write(&l->properties, cpu, before);
}

int leak_check_disturb(struct leak_check *l)
{
	int err, cpu;

	for_each_cpu_in(cpu, &l->cpus) {
		l->undisturbed[cpu] = l->before[cpu];
		err = disturb(l, cpu);
		if (err)
			return err;
	}
	return set_affinity(&l->cpus);
}

void leak_check_undisturb(const struct leak_check *l)
{
	int cpu;

	for_each_cpu_in(cpu, &l->cpus)
		snapshot_write(&l->properties, cpu, &l->undisturbed[cpu]);
}

const char *leak_check_registers(const struct leak_check *l)
{
	const char *difference = snapshot_difference_now(&l->properties,
							 &l->cpus, l->before);

	return set_affinity(&l->cpus) ? "sched_setaffinity() failed" : difference;
}

/* Returns the present result of leak_check_memory(), without waiting. */
static const char *lost_memory(const struct leak_check *l)
{
	if (memory_buffers())
		return "a buffer";
	if (memory_kb("MemFree") < l->free_kb - TOLERATED_KB)
		return "the free memory";
	if (memory_slab_kb() > l->slab_kb + TOLERATED_SLAB_KB)
		return "the memory in slabs";
	return "";
}

const char *leak_check_memory(const struct leak_check *l)
{
	const char *lost = lost_memory(l);
	int i;

	/* The kernel frees memory of exited tasks later, on a busy host much later. */
	for (i = 0; i < TRIES && *lost; i++) {
		usleep(TRY_US);
		lost = lost_memory(l);
	}
	return lost;
}

/*
 * Returns whether the module may log this line at each load: that a CPU lacks an architectural
 * event, or that place-holders keep perf off.
 */
static bool is_expected(const char *line)
{
	return strstr(line, "lacks") || strstr(line, "keeps Linux perf off");
}

const char *leak_check_log(const struct leak_check *l)
{
	static struct kmsg_lines lines;
	int i;

	if (kmsg_read_module(l->kmsg, &lines))
		return "the log can't be read";
	for (i = 0; i < lines.count && i < KMSG_MAX_LINES; i++) {
		if (!is_expected(lines.line[i]))
			return lines.line[i];
	}
	return lines.count > KMSG_MAX_LINES ? "too many lines" : "";
}

static const char *check_counting(int fd)
{
	__s64 count;

	if (pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR))
		return "PMIOSETUP";
	count = pmc_loop_count(fd, 0, N);
	if (count < (__s64)(LOOP_INSNS * N) ||
	    count >= (__s64)(LOOP_INSNS * N + CALL_OVERHEAD))
		return "the count";
	return "";
}

static const char *check_tracing(int fd)
{
	const struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						       FLAG_USER | FLAG_PC);
	struct trace_sums sums;
	struct trace trace;
	const char *problem;
	__u64 total = 0;
	unsigned int cpu;

	if (trace_alloc(&trace, fd, PAGES) || trace_stage(&trace, &config) ||
	    trace_loop(&trace, N))
		return "the calls of a trace";
	for (cpu = 0; cpu < trace.cpus; cpu++) {
		problem = trace_sum(&trace, cpu, &sums);
		if (*problem)
			return problem;
		total += sums.event[0].total;
	}
	if (total != TRACE_LOOP_INSNS(N))
		return "the sum of a trace";
	return trace_free(&trace) ? "the end of a trace" : "";
}

const char *leak_check_counts(void)
{
	int fd = device_open(O_RDWR);
	const char *problem;

	if (fd < 0)
		return "open";
	if (wait_until_idle())
		return "some process never sleeps";
	problem = check_counting(fd);
	if (!*problem)
		problem = check_tracing(fd);
	close(fd);
	return problem;
}
