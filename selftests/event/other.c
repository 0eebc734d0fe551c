// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples of a task show nothing of the task that it changes places with.
 */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "samples.h"

#define SECRET		0x5ec2e7c0ffee1234ULL
#define YIELDS		20000
#define PERIOD		10007	/* more than the kernel's part of a sample */
#define REGISTER_R12	(1ULL << 20)

FIXTURE(event)
{
	struct event_ring ring;
	struct event_record record;
	int fd;
	pid_t other;
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	self->fd = -1;
	ASSERT_EQ(0, pin_to_first_cpu());
}

FIXTURE_TEARDOWN(event)
{
	if (self->other > 0) {
		kill(self->other, SIGKILL);
		waitpid(self->other, NULL, 0);
	}
	event_ring_unmap(&self->ring);
	close(self->fd);
	restore_maker(_metadata, variant);
}

/* Yields for ever, with a secret in a register. */
static _Noreturn void yield_with_secret(void)
{
	for (;;) {
		long result = SYS_sched_yield;

		__asm__ volatile("mov	%1, %%r12\n"
				 "	syscall"
				 : "+a" (result) : "r" (SECRET) : "rcx", "r11", "r12", "memory");
	}
}

TEST_F_TIMEOUT(event, samples_in_the_context_switch_show_no_other_task, 300)
{
	struct perf_event_attr attr = event_instructions();
	unsigned long samples = 0, of_others = 0, secrets = 0;
	int i;

	self->other = fork();
	ASSERT_LE(0, self->other);
	if (!self->other)
		yield_with_secret();
	attr.exclude_kernel = 0;
	attr.exclude_user = 1;
	attr.sample_period = PERIOD;
	attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_REGS_USER;
	attr.sample_regs_user = REGISTER_R12;
	self->fd = variant->by->open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, event_ring_map(&self->ring, self->fd, 6, false));
	ASSERT_EQ(0, event_enable(self->fd));
	for (i = 0; i < YIELDS; i++) {
		sched_yield();
		if (i % 100)
			continue;
		while (event_ring_next(&self->ring, &self->record)) {
			const __u64 *words = self->record.words;

			if (self->record.header.type != PERF_RECORD_SAMPLE)
				continue;
			samples++;
			of_others += words[0] >> 32 != (__u64)gettid();
			secrets += words[1] != PERF_SAMPLE_REGS_ABI_NONE && words[2] == SECRET;
		}
	}
	ASSERT_EQ(0, event_disable(self->fd));
	TH_LOG("%s: %lu samples", variant->by->name, samples);
	EXPECT_LT(100UL, samples);
	EXPECT_EQ(0UL, of_others);
	EXPECT_EQ(0UL, secrets);
}

TEST_HARNESS_MAIN
