// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "footprint.h"
#include "memory.h"
#include "quiet.h"
#include "trace.h"

#define SOME_KB		32768
#define SOME_SLAB_KB	1024

#define N	100000UL

static int properties(struct perfmon_properties *p)
{
	int fd = device_open(O_RDONLY), err;

	if (fd < 0)
		return fd;
	err = device_ioctl(fd, IOCTL_PERFMON_GET_PROPERTIES, p);
	close(fd);
	return err;
}

static int run_on(const cpu_set_t *cpus)
{
	return sched_setaffinity(0, sizeof(*cpus), cpus) ? -errno : 0;
}

int footprint_take(struct footprint *f)
{
	int err = properties(&f->p), cpu;

	if (!err)
		err = cpus_online(&f->cpus);
	for_each_cpu_in(cpu, &f->cpus) {
		if (!err && cpu >= FOOTPRINT_MAX_CPUS)
			err = -E2BIG;
		if (!err)
			err = snapshot_read(&f->p, cpu, &f->registers[cpu]);
	}
	if (!err)
		err = run_on(&f->cpus);
	f->free_kb = memory_kb("MemFree");
	f->slab_kb = memory_kb("SUnreclaim");
	return err;
}

const char *footprint_check_cpu(const struct footprint *f, int cpu)
{
	struct snapshot now;
	int err = snapshot_read(&f->p, cpu, &now);

	if (run_on(&f->cpus) || err)
		return "the registers can't be read";
	return snapshot_difference(&f->registers[cpu], &now);
}

const char *footprint_check(const struct footprint *f)
{
	const char *difference;
	int cpu;

	for_each_cpu_in(cpu, &f->cpus) {
		difference = footprint_check_cpu(f, cpu);
		if (*difference)
			return difference;
	}
	if (memory_buffers())
		return "a buffer";
	if (memory_kb("MemFree") < f->free_kb - SOME_KB)
		return "the free memory";
	if (memory_kb("SUnreclaim") > f->slab_kb + SOME_SLAB_KB)
		return "the memory in slabs";
	return "";
}

/* On the CPU that the caller is pinned to. */
static const char *counts(int fd)
{
	__s64 once, twice;

	if (pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR))
		return "PMIOSETUP";
	once = pmc_loop_count(fd, 0, N);
	twice = pmc_loop_count(fd, 0, 2 * N);
	if (once < 0 || twice < 0)
		return "a counting call";
	return twice - once == LOOP_INSNS * N ? "" : "a count";
}

static const char *traces(int fd, int cpu)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, 1009,
						 FLAG_USER | FLAG_PC);
	struct trace_sums sums;
	const char *problem;
	struct trace t;

	if (trace_alloc(&t, fd, 16) || trace_stage(&t, &config) ||
	    trace_loop(&t, N))
		return "a trace's call";
	problem = trace_sum(&t, cpu, &sums);
	if (!*problem && sums.event[0].total != TRACE_LOOP_INSNS(N))
		problem = "a trace's sum";
	return trace_free(&t) ? "FREE_TRACE" : problem;
}

const char *footprint_works(void)
{
	const char *problem;
	cpu_set_t cpus;
	int fd, cpu;

	if (cpus_online(&cpus))
		return "the CPUs";
	cpu = cpu_next(&cpus, -1);
	if (pin_to_cpu(cpu) || wait_until_quiet())
		return "a machine on which something else runs";
	fd = device_open(O_RDWR);
	if (fd < 0)
		return "open";
	problem = counts(fd);
	if (!*problem)
		problem = traces(fd, cpu);
	close(fd);
	if (run_on(&cpus))
		return "the CPUs";
	return problem;
}
