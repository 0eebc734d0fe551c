// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "kmsg.h"
#include "memory.h"
#include "msr.h"
#include "quiet.h"
#include "sound.h"

#define N	100000UL
#define RATE	1009
#define PAGES	16

#define SOME_KB		32768
#define SOME_SLAB_KB	1024

static int run_on(const cpu_set_t *cpus)
{
	return sched_setaffinity(0, sizeof(*cpus), cpus) ? -errno : 0;
}

int sound_begin(struct sound *s)
{
	int cpu, err = machine_properties(&s->properties);

	if (!err)
		err = cpus_online(&s->cpus);
	if (err)
		return err;
	s->free_kb = memory_kb("MemFree");
	s->slab_kb = memory_slab_kb();
	s->kmsg = kmsg_open_end();
	if (s->kmsg < 0)
		return s->kmsg;
	for_each_cpu_in(cpu, &s->cpus) {
		err = snapshot_read(&s->properties, cpu, &s->before[cpu]);
		if (err)
			return err;
	}
	/* Reading has pinned us. */
	return run_on(&s->cpus);
}

/* The same without an event select that counts, which is not put back. */
static int disturb(struct sound *s, int cpu)
{
	struct snapshot *before = &s->before[cpu];
	int err = snapshot_disturb(&s->properties, cpu, before), i;

	if (!err)
		err = snapshot_read(&s->properties, cpu, before);
	if (err)
		return err;
	for (i = 0; i < SNAPSHOT_MAX_COUNTERS; i++) {
		if (before->select[i] & PERFEVTSEL_EN)
			before->select[i] = 0;
	}
	return snapshot_write(&s->properties, cpu, before);
}

int sound_disturb(struct sound *s)
{
	int err, cpu;

	for_each_cpu_in(cpu, &s->cpus) {
		s->found[cpu] = s->before[cpu];
		err = disturb(s, cpu);
		if (err)
			return err;
	}
	return run_on(&s->cpus);
}

void sound_undisturb(const struct sound *s)
{
	int cpu;

	for_each_cpu_in(cpu, &s->cpus)
		snapshot_write(&s->properties, cpu, &s->found[cpu]);
}

const char *sound_registers(const struct sound *s)
{
	const char *difference = snapshot_difference_now(&s->properties,
							 &s->cpus, s->before);

	return run_on(&s->cpus) ? "the CPUs can't be had" : difference;
}

const char *sound_memory(const struct sound *s)
{
	if (memory_buffers())
		return "a buffer";
	if (memory_kb("MemFree") < s->free_kb - SOME_KB)
		return "the free memory";
	if (memory_slab_kb() > s->slab_kb + SOME_SLAB_KB)
		return "the memory in slabs";
	return "";
}

const char *sound_log(const struct sound *s)
{
	static struct kmsg_lines lines;

	if (kmsg_read_module(s->kmsg, &lines))
		return "the log can't be read";
	/* It says once that a CPU has not got an architectural event. */
	if (lines.count == 1 && strstr(lines.line[0], "lacks"))
		return "";
	return lines.count ? lines.line[0] : "";
}

static const char *counts(int fd)
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

static const char *traces(int fd)
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

const char *sound_counts(void)
{
	int fd = device_open(O_RDWR);
	const char *problem;

	if (fd < 0)
		return "open";
	if (wait_until_quiet())
		return "some process never sleeps";
	problem = counts(fd);
	if (!*problem)
		problem = traces(fd);
	close(fd);
	return problem;
}
