// SPDX-License-Identifier: GPL-2.0-only
/*
 * NMIs of other sources: a second after the last close, the module claims none of them, whatever
 * trace has run. Such an NMI may request a crash dump, which would not be made if the module
 * claimed the NMI.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "file.h"
#include "msr.h"
#include "trace.h"
#include "trace_fixture.h"

#define TRACING		"/sys/kernel/tracing/"
#define EVENT		TRACING "events/nmi/nmi_handler/"
#define UNKNOWN_PANICS	"/proc/sys/kernel/unknown_nmi_panic"

/* The number of traces while NMIs arrive. */
#define ROUNDS	60
#define N	20000UL

/* The number of NMIs of another source. */
#define FOREIGN	200

FIXTURE(late)
{
	struct perfmon_properties p;
	int cpu;
};

FIXTURE_VARIANT(late)
{
	__u32 flags;
	__u32 pages;	/* 1: the buffer is soon full */
};

FIXTURE_VARIANT_ADD(late, user) { FLAG_USER, 1024 };
FIXTURE_VARIANT_ADD(late, user_full) { FLAG_USER, 1 };
FIXTURE_VARIANT_ADD(late, kernel) { FLAG_OS, 1024 };
FIXTURE_VARIANT_ADD(late, kernel_full) { FLAG_OS, 1 };
FIXTURE_VARIANT_ADD(late, both) { FLAG_USER | FLAG_OS, 1024 };
FIXTURE_VARIANT_ADD(late, both_full) { FLAG_USER | FLAG_OS, 1 };

FIXTURE_SETUP(late)
{
	int fd;

	SKIP_WITHOUT_PMU();
	fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, device_properties(fd, &self->p));
	close(fd);
	self->cpu = pin_to_first_cpu();
	ASSERT_LE(0, self->cpu);
}

FIXTURE_TEARDOWN(late)
{
	write_file(EVENT "enable", "0");
	write_file(UNKNOWN_PANICS, "1");
}

/* A config with most counters, at rates whose overflows coincide now and then. */
static struct perfmon_config storm_config(int counters, __u32 flags)
{
	struct perfmon_config c = { .events = { 0 } };
	int i;

	for (i = 0; i < counters; i++) {
		c.events[i] = MODEL_EVENT(i);
		c.rate[i] = flags & FLAG_OS ? 3001 + i : 997 + i;
		c.flags[i] = flags | (i % 2 ? FLAG_PC : 0);
	}
	return c;
}

static int trace_storm(const struct perfmon_properties *p, __u32 flags, __u32 pages)
{
	struct perfmon_config config =
		storm_config(p->max_num_programmable_events > 3 ? 3 : 2, flags);
	int fd = device_open(O_RDWR), i, err = 0;
	struct trace t;

	for (i = 0; i < 3 && !err; i++)
		err = trace_define(fd, i, EVENT_INSTRUCTIONS);
	err = err ?: trace_alloc(&t, fd, pages);
	for (i = 0; i < ROUNDS && !err; i++) {
		/*
		 * Changes the rate, so that the last overflow comes at another place in each round.
		 */
		config.rate[0] += 7;
		err = trace_stage(&t, &config) ?: trace_loop(&t, N + i);
	}
	close(fd);
	return err;
}

/* Returns the number of NMIs that were claimed since the tracepoint was enabled. */
static int count_claimed_nmis(void)
{
	FILE *f = fopen(TRACING "trace", "re");
	char line[512];
	int n = 0;

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "nmi_handler: ") && !strstr(line, "handled: 0");
	fclose(f);
	return n;
}

TEST_F(late, foreign_nmis_are_not_claimed)
{
	int i;

	ASSERT_EQ(0, trace_storm(&self->p, variant->flags, variant->pages));
	sleep(1);
	ASSERT_EQ(0, write_file(UNKNOWN_PANICS, "0"));
	ASSERT_EQ(0, write_file(TRACING "trace", ""));
	ASSERT_EQ(0, write_file(EVENT "filter", "handled != 0"));
	ASSERT_EQ(0, write_file(EVENT "enable", "1"));
	for (i = 0; i < FOREIGN; i++)
		ASSERT_EQ(0, nmi_send(self->cpu));
	EXPECT_EQ(0, count_claimed_nmis());

	/* Checks the test's method first: it must find the module's own NMIs. */
	ASSERT_EQ(0, write_file(UNKNOWN_PANICS, "1"));
	ASSERT_EQ(0, trace_storm(&self->p, FLAG_USER, 1024));
	EXPECT_LT(0, count_claimed_nmis());
}

TEST_HARNESS_MAIN
