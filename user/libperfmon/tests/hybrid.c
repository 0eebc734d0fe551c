// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Reads counters of a thread that runs on a core without the event, and passes markers before and after
 * that. Replaces the functions of libc that the library calls, and RDPMC, so that the test needs neither
 * the driver nor a hybrid processor.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <perfmon.h>

/* The event's times enabled and running in ns. */
static uint64_t enabled, running;

/* The event's page, while the thread runs on a core with the event. */
static struct perf_event_mmap_page event_page = { .index = 1, .capabilities = 1 << 2, .pmc_width = 48 };

int open(const char *path, int flags, ...)
{
	(void)path;
	(void)flags;
	return dup(STDERR_FILENO);
}

int ioctl(int fd, unsigned long call, ...)
{
	/*
	 * An ioctl of an event has perf's type '$'. The only other ioctl is the device's, which
	 * opens an event.
	 */
	return _IOC_TYPE(call) == '$' ? 0 : dup(fd);
}

ssize_t read(int fd, void *words, size_t size)
{
	const uint64_t reading[] = { 1, enabled, running, 5 };

	(void)fd;
	if (size != sizeof(reading))
		return 0;
	memcpy(words, reading, size);
	return size;
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	(void)address;
	(void)size;
	(void)protection;
	(void)flags;
	(void)fd;
	(void)offset;
	return &event_page;
}

int munmap(void *address, size_t size)
{
	(void)address;
	(void)size;
	return 0;
}

/* Executes RDPMC, which the kernel does not allow without an event: the counter is 0. */
static void execute_rdpmc(int number, siginfo_t *info, void *context)
{
	static const unsigned char rdpmc[] = { 0x0f, 0x33 };
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)info;
	if (memcmp((const void *)registers[REG_RIP], rdpmc, sizeof(rdpmc))) {
		signal(number, SIG_DFL);
		return;
	}
	registers[REG_RAX] = registers[REG_RDX] = 0;
	registers[REG_RIP] += sizeof(rdpmc);
}

/* Executes what the kernel writes if the thread ran on a core without the event, and came back. */
static void run_on_other_core(void)
{
	event_page.lock += 2;
	event_page.time_enabled += 20;
	event_page.time_running += 15;
}

static int marks_are_right(void)
{
	struct perfmon_total totals[3];
	size_t i;

	PERFMON_BEGIN("stays");
	PERFMON_END("stays");
	PERFMON_BEGIN("moves");
	PERFMON_BEGIN("inside");
	run_on_other_core();
	PERFMON_END("inside");
	PERFMON_END("moves");
	PERFMON_BEGIN("stays");
	PERFMON_END("stays");
	if (perfmon_totals(totals, 3) != 3)
		return 0;
	for (i = 0; i < 3; i++) {
		int stays = !strcmp(totals[i].name, "stays");

		if (totals[i].passes != (stays ? 2 : 0) || totals[i].failed != (stays ? 0 : 1))
			return 0;
	}
	return perfmon_failure() && strstr(perfmon_failure(), "a core that lacks an event");
}

int main(void)
{
	const struct sigaction action = { .sa_sigaction = execute_rdpmc, .sa_flags = SA_SIGINFO };
	struct perfmon_counters *counters = perfmon_open("r1c0:u", 0);
	uint64_t count = 0;

	if (!counters || perfmon_read(counters, &count) || count != 5) {
		printf("on a core with the event: %s\n", perfmon_error());
		return 1;
	}
	enabled = 20;
	running = 19;
	errno = 0;
	if (!perfmon_read(counters, &count) || errno != EIO || !strstr(perfmon_error(), "a core that lacks the event")) {
		printf("on a core without the event: %s\n", perfmon_error());
		return 1;
	}
	if (perfmon_reset(counters) || perfmon_read(counters, &count)) {
		printf("after a reset: %s\n", perfmon_error());
		return 1;
	}
	enabled = 40;
	running = 38;
	if (!perfmon_read(counters, &count)) {
		puts("again on a core without the event: the count is read");
		return 1;
	}
	perfmon_close(counters);

	enabled = running = 0;
	if (sigaction(SIGSEGV, &action, NULL) || !marks_are_right()) {
		printf("markers around a time on a core without the event: %s\n",
		       perfmon_failure() ? perfmon_failure() : "no pass has failed");
		perfmon_report(stdout);
		return 1;
	}
	return 0;
}
