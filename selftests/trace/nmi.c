// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many overflows at the same time, and overflows during START and STOP. No PMI is lost, no PMI is
 * counted without an overflow, and no PMI is unknown: the machine is booted with
 * unknown_nmi_panic=1.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpi.h"
#include "cpu.h"
#include "device.h"
#include "idle.h"
#include "kmsg.h"
#include "trace.h"
#include "trace_fixture.h"
#include "workers.h"

#define PAGES	2048
#define N	100000UL

/* The number of times that the trace is started and stopped. */
#define ROUNDS	250

FIXTURE(nmi)
{
	struct trace trace;
	struct perfmon_properties p;
	int fd;
	int kmsg;
	int home;
	int events;		/* the number of events, one for each counter */
	cpu_set_t cpus;
};

FIXTURE_VARIANT(nmi)
{
	/* The rates of the events, repeated for further events. */
	__u32 rates[8];
};

FIXTURE_VARIANT_ADD(nmi, all_the_same) { { 997, 997, 997, 997, 997, 997, 997, 997 } };
FIXTURE_VARIANT_ADD(nmi, multiples) { { 200, 400, 600, 800, 1000, 1200, 1600, 2000 } };
FIXTURE_VARIANT_ADD(nmi, neighbours) { { 997, 998, 999, 1000, 1001, 1002, 1003, 1004 } };
FIXTURE_VARIANT_ADD(nmi, primes) { { 307, 311, 313, 317, 331, 337, 347, 349 } };

FIXTURE_SETUP(nmi)
{
	SKIP_WITHOUT_PMU();
	self->kmsg = kmsg_open_end();
	ASSERT_LE(0, self->kmsg);
	self->fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(self->fd, &self->p));
	self->events = self->p.max_num_programmable_events +
		       self->p.max_num_fixed_events;
	define_instructions(_metadata, self->fd,
			    self->p.max_num_programmable_events);
	ASSERT_EQ(0, cpus_online(&self->cpus));
	self->home = trace_on_first_cpu(_metadata, &self->trace, self->fd,
					PAGES);
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(nmi)
{
	trace_free(&self->trace);
	close(self->fd);
	close(self->kmsg);
}

/* A config with all counters: instructions, except on fixed counters for cycles. */
static struct perfmon_config config_of_all_counters(const struct perfmon_properties *p,
					const __u32 *rates)
{
	struct perfmon_config c = { .events = { 0 } };
	int i, n = trace_all_counters(&c, p);

	for (i = 0; i < n; i++) {
		c.rate[i] = rates[i % 8];
		c.flags[i] = FLAG_USER | (i % 2 ? FLAG_PC : 0);
	}
	return c;
}

/* Returns the number of events of a CPU with a wrong count or number of samples. */
static int wrong_events(const struct trace *t, const struct trace_sums *sums)
{
	int i, wrong = 0;

	for (i = 0; i < PERFMON_MAX_EVENTS && t->config.events[i]; i++) {
		if (sums->event[i].ticks !=
		    sums->event[i].total / t->config.rate[i] ||
		    sums->event[i].total !=
		    cpi_count(t->config.events[i], sums->event[0].total))
			wrong++;
	}
	return wrong;
}

TEST_F(nmi, overflows_of_all_counters_are_sampled)
{
	const struct perfmon_config config = config_of_all_counters(&self->p,
							variant->rates);
	struct kmsg_lines lines;
	struct trace_sums sums;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, trace_loop(&self->trace, N));
	ASSERT_STREQ("", trace_sum(&self->trace, self->home, &sums));
	EXPECT_EQ(0U, self->trace.buffer[self->home]->flags);
	EXPECT_EQ(TRACE_LOOP_INSNS(N), sums.event[0].total);
	EXPECT_EQ(0, wrong_events(&self->trace, &sums));
	ASSERT_EQ(0, kmsg_read_module(self->kmsg, &lines));
	EXPECT_EQ(0, lines.count) {
		TH_LOG("the log says: %s", lines.line[0]);
	}
}

TEST_F(nmi, overflows_on_all_cpus_are_sampled)
{
	const struct perfmon_config config = config_of_all_counters(&self->p,
							variant->rates);
	struct workers workers;
	struct trace_sums sums;
	int cpu;

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	ASSERT_EQ(0, workers_start(&workers, &self->cpus, N));
	ASSERT_EQ(0, trace_start(&self->trace));
	EXPECT_EQ(0, workers_run(&workers));
	ASSERT_EQ(0, trace_stop(&self->trace));
	workers_end(&workers);
	for_each_cpu_in(cpu, &self->cpus) {
		ASSERT_STREQ("", trace_sum(&self->trace, cpu, &sums));
		EXPECT_EQ(0U, self->trace.buffer[cpu]->flags);
		EXPECT_LE(LOOP_INSNS * N, sums.event[0].total);
		EXPECT_EQ(0, wrong_events(&self->trace, &sums));
	}
}

/*
 * If a CPU is in the middle of its loop at START or STOP, the instruction at which counting begins
 * or ends is unknown. It is the same for all events of the CPU.
 */
TEST_F(nmi, overflows_during_start_and_stop_are_handled)
{
	const struct perfmon_config config = config_of_all_counters(&self->p,
							variant->rates);
	int cpu, i, wrong = 0, full = 0, status;
	struct kmsg_lines lines;
	struct trace_sums sums;
	pid_t pids[TRACE_MAX_CPUS];

	ASSERT_EQ(0, trace_stage(&self->trace, &config));
	for_each_cpu_in(cpu, &self->cpus) {
		pids[cpu] = fork();
		ASSERT_LE(0, pids[cpu]);
		if (!pids[cpu]) {
			if (pin_to_cpu(cpu))
				_exit(1);
			for (;;)
				loop(1000);
		}
	}
	for (i = 0; i < ROUNDS && !wrong; i++) {
		wrong += trace_loop(&self->trace, 1 + i) != 0;
		for_each_cpu_in(cpu, &self->cpus) {
			wrong += *trace_sum(&self->trace, cpu, &sums) != '\0';
			/* On a busy host a trace may last until a buffer is full, some seconds. */
			if (self->trace.buffer[cpu]->flags == PERFMON_BUFFER_FLAG_FULL) {
				full++;
				continue;
			}
			wrong += wrong_events(&self->trace, &sums);
			wrong += self->trace.buffer[cpu]->flags != 0;
		}
	}
	EXPECT_GT(ROUNDS / 2, full);
	EXPECT_EQ(0, wrong) {
		TH_LOG("in round %d", i);
	}
	for_each_cpu_in(cpu, &self->cpus) {
		EXPECT_EQ(0, kill(pids[cpu], SIGKILL));
		EXPECT_EQ(pids[cpu], waitpid(pids[cpu], &status, 0));
	}
	ASSERT_EQ(0, kmsg_read_module(self->kmsg, &lines));
	EXPECT_EQ(0, lines.count) {
		TH_LOG("the log says: %s", lines.line[0]);
	}
}

TEST_HARNESS_MAIN
