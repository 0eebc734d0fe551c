// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples of a task contain nothing of the task that it switches to or from, nor of a program
 * that it is about to execute.
 *
 * PERIOD in the environment is the period of the samples, in instructions of the kernel. It
 * must be longer than the kernel's part of a sample, or the kernel does nothing but take samples.
 * The debug kernel needs a longer period.
 */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fixture.h"
#include "kallsyms.h"
#include "options.h"
#include "samples.h"

#define SECRET		0x5ec2e7c0ffee1234ULL
#define YIELDS		20000
#define PERIOD		10007
#define REGISTER_R12	(1ULL << 20)
#define EXECS		60

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

static __u64 period(void)
{
	return env_number("PERIOD", PERIOD);
}

/* Yields forever, with a secret in a register. */
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
	attr.sample_period = period();
	attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_REGS_USER;
	attr.sample_regs_user = REGISTER_R12;
	self->fd = variant->maker->open(&attr, 0, -1, -1, 0);
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
	TH_LOG("%s: %lu samples", variant->maker->name, samples);
	EXPECT_LT(100UL, samples);
	EXPECT_EQ(0UL, of_others);
	EXPECT_EQ(0UL, secrets);
}

static _Noreturn void sleep_for_moments(void)
{
	for (;;)
		usleep(100);
}

/* Numbers of samples, and of samples with foreign data. */
struct foreign_findings {
	struct kernel_function function;
	unsigned long samples, in_function, of_others, registers;
};

/* Looks for a function that only the other task calls. */
static void find_other_function(const struct sample *sample, void *data)
{
	struct foreign_findings *findings = data;
	unsigned int i;

	findings->samples++;
	for (i = 0; i < sample->chain_length; i++)
		findings->of_others += kernel_function_has(&findings->function, sample->chain[i]);
}

TEST_F(event, samples_in_the_context_switch_have_no_callers_of_another_task)
{
	struct perf_event_attr attr = event_instructions();
	struct sampler sampler = { .fd = -1 };
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	struct foreign_findings findings = { };
	int i;

	ASSERT_EQ(0, find_kernel_function("hrtimer_nanosleep", &findings.function));
	self->other = fork();
	ASSERT_LE(0, self->other);
	if (!self->other)
		sleep_for_moments();
	attr.exclude_kernel = 0;
	attr.exclude_user = 1;
	attr.sample_period = period() / 5;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN;
	/*
	 * Leaves out perf's call chains in the kernel: perf also walks the stack in the middle of a
	 * context switch, where the kernel may print "WARNING: can't access registers".
	 */
	attr.exclude_callchain_kernel = variant->maker == &event_maker_perf;
	ASSERT_EQ(0, sampler_open(&sampler, variant->maker, &attr, 0, -1, 8));
	ASSERT_EQ(0, event_enable(sampler.fd));
	for (i = 0; i < 2 * YIELDS; i++) {
		sched_yield();
		if (!(i % 100))
			sampler_read(&sampler, &sums, find_other_function, &findings);
	}
	ASSERT_EQ(0, event_disable(sampler.fd));
	sampler_close(&sampler);
	EXPECT_LT(0UL, findings.samples);
	EXPECT_EQ(0UL, findings.of_others);
}

static void find_other_registers(const struct sample *sample, void *data)
{
	struct foreign_findings *findings = data;

	findings->samples++;
	if (kernel_function_has(&findings->function, sample->ip)) {
		findings->in_function++;
		findings->registers += sample->abi != PERF_SAMPLE_REGS_ABI_NONE;
	}
}

/*
 * During an exec, the kernel has secrets of the new program in its registers, such as the seed
 * of its stack canaries, before it is decided which tasks may examine the program.
 */
TEST_F(event, samples_of_an_exec_have_no_registers)
{
	const bool is_perf = variant->maker == &event_maker_perf;
	struct perf_event_attr attr = event_instructions();
	struct foreign_findings findings = { };
	int i, start_pipe[2];
	char byte;

	ASSERT_EQ(0, find_kernel_function("load_elf_binary", &findings.function));
	attr.exclude_kernel = 0;
	attr.exclude_user = 1;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = REGISTER_R12;
	for (i = 0; i < EXECS; i++) {
		struct sampler sampler = { .fd = -1 };
		struct sample_sums sums = SAMPLE_SUMS_INIT;

		attr.sample_period = period() / 2 + i;
		ASSERT_EQ(0, pipe(start_pipe));
		self->other = fork();
		ASSERT_LE(0, self->other);
		if (!self->other) {
			close(start_pipe[1]);
			/* Hides the usage message of this program. */
			close(STDOUT_FILENO);
			close(STDERR_FILENO);
			if (read(start_pipe[0], &byte, 1) == 1)
				execl("/proc/self/exe", "event_other", "-h", NULL);
			_exit(1);
		}
		ASSERT_EQ(0, sampler_open(&sampler, variant->maker, &attr, self->other, -1, 8));
		ASSERT_EQ(0, event_enable(sampler.fd));
		ASSERT_EQ(1, write(start_pipe[1], "", 1));
		close(start_pipe[0]);
		close(start_pipe[1]);
		ASSERT_EQ(self->other, waitpid(self->other, NULL, 0));
		self->other = 0;
		sampler_read(&sampler, &sums, find_other_registers, &findings);
		sampler_close(&sampler);
	}
	TH_LOG("%s: %lu samples, %lu in load_elf_binary()", variant->maker->name, findings.samples,
	       findings.in_function);
	if (!is_perf)
		EXPECT_EQ(0UL, findings.registers);
	/*
	 * This is checked only for the usual period: with longer periods, perf may have no sample
	 * that shows registers.
	 */
	if (period() == PERIOD) {
		EXPECT_LT(0UL, findings.in_function);
		EXPECT_EQ(is_perf, findings.registers != 0);
	}
}

TEST_HARNESS_MAIN
