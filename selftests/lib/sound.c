// SPDX-License-Identifier: GPL-2.0-only
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "kmsg.h"
#include "quiet.h"
#include "sound.h"

#define N	100000UL
#define RATE	1009
#define PAGES	16

int sound_begin(struct sound *s)
{
	int cpu, err, fd = device_open(O_RDONLY);
	cpu_set_t cpus;

	if (fd < 0)
		return fd;
	err = device_ioctl(fd, IOCTL_PERFMON_GET_PROPERTIES, &s->properties);
	close(fd);
	if (!err)
		err = cpus_online(&cpus);
	if (err)
		return err;
	s->kmsg = kmsg_open_end();
	if (s->kmsg < 0)
		return s->kmsg;
	for_each_cpu_in(cpu, &cpus) {
		err = snapshot_read(&s->properties, cpu, &s->before[cpu]);
		if (err)
			break;
	}
	/* Reading has pinned us. */
	sched_setaffinity(0, sizeof(cpus), &cpus);
	return err;
}

const char *sound_registers(const struct sound *s)
{
	const char *difference;
	struct snapshot after;
	cpu_set_t cpus;
	int cpu;

	if (cpus_online(&cpus))
		return "the CPUs can't be told";
	for_each_cpu_in(cpu, &cpus) {
		if (snapshot_read(&s->properties, cpu, &after))
			return "the registers can't be read";
		difference = snapshot_difference(&s->before[cpu], &after);
		if (*difference)
			return difference;
	}
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
	    count > (__s64)(LOOP_INSNS * N + CALL_OVERHEAD))
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
