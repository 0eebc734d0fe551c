// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_events: opens events by perf_event_open(2) and prints a line with the result of
 * each. Under `pmctl wrap` they must be events of the driver, also in a static program, its
 * threads and children.
 *
 *     pmctl_events [storm FILE]
 *
 * With `storm`, children open events in a loop, until the program is killed. FILE is
 * created when each child has opened an event.
 *
 * Each count includes LOOPS iterations of a loop, and the calls before and after the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "event_ring.h"
#include "loop.h"
#include "perf.h"

#define LOOPS	1000000UL
#define CHILDREN	8

static int event_open(struct perf_event_attr *attr, int group, unsigned long flags)
{
	return syscall(SYS_perf_event_open, attr, 0, -1, group, flags);
}

/* Returns the attributes of a disabled event of instructions in user mode. */
static struct perf_event_attr instructions(void)
{
	return (struct perf_event_attr) {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(struct perf_event_attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
}

/*
 * Prints the instructions of LOOPS iterations, computed from counts of loops of different
 * lengths, so that instructions outside of the loops do not matter.
 */
static void print_count(const char *name)
{
	int fd = perf_open_instructions();
	long long first, second, third;

	if (fd < 0) {
		printf("%s: %s\n", name, strerror(-fd));
		return;
	}
	first = perf_count_loop(fd, LOOPS);
	second = perf_count_loop(fd, LOOPS);
	third = perf_count_loop(fd, 2 * LOOPS);
	printf("%s: %lld\n", name, (third - second) - (second - first));
	close(fd);
}

static void *print_thread(void *name)
{
	print_count(name);
	return NULL;
}

static unsigned long long count_of(int fd)
{
	unsigned long long count = 0;

	if (read(fd, &count, sizeof(count)) != sizeof(count))
		perror("read");
	return count;
}

static void *disable_all(void *unused)
{
	prctl(PR_TASK_PERF_EVENTS_DISABLE);
	return unused;
}

/*
 * prctl(2) enables and disables the events that the calling thread has opened: the first event
 * counts LOOPS iterations, the second twice as many. Another thread and a child disable only
 * events of their own, and have none.
 */
static void print_prctl(void)
{
	struct perf_event_attr attr = instructions();
	int disabled = event_open(&attr, -1, 0), enabled;
	unsigned long long first, second;
	pthread_t thread;

	prctl(PR_TASK_PERF_EVENTS_ENABLE);
	loop(LOOPS);
	prctl(PR_TASK_PERF_EVENTS_DISABLE);
	loop(LOOPS);
	attr.disabled = 0;
	enabled = event_open(&attr, -1, 0);
	if (!pthread_create(&thread, NULL, disable_all, NULL))
		pthread_join(thread, NULL);
	if (!fork()) {
		disable_all(NULL);
		_exit(0);
	}
	wait(NULL);
	loop(2 * LOOPS);
	prctl(PR_TASK_PERF_EVENTS_DISABLE);
	loop(LOOPS);
	first = count_of(disabled);
	second = count_of(enabled);
	printf("prctl: %llu %llu\n", first / (LOOP_INSNS * LOOPS), second / (LOOP_INSNS * LOOPS));
	close(disabled);
	close(enabled);
}

/* The driver refuses any BPF program, also descriptor -1. */
static void print_bpf(void)
{
	struct perf_event_attr attr = instructions();
	int fd = event_open(&attr, -1, 0);

	printf("bpf: %s\n", ioctl(fd, PERF_EVENT_IOC_SET_BPF, -1) ? strerror(errno) : "none");
	close(fd);
}

/*
 * Opens and enables a dummy event for records of tasks, and then the first event of instructions.
 * Prints the dummy's file, and the number of forks in its ring.
 */
static void print_early_dummy(void)
{
	struct perf_event_attr attr = instructions();
	struct event_ring ring;
	struct event_record record;
	char path[32], file[64] = "";
	int dummy, event, forks = 0, err;

	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_DUMMY;
	attr.task = 1;
	dummy = event_open(&attr, -1, 0);
	if (ioctl(dummy, PERF_EVENT_IOC_ENABLE, 0))
		perror("early dummy");
	attr = instructions();
	event = event_open(&attr, -1, 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", dummy);
	if (readlink(path, file, sizeof(file) - 1) < 0)
		perror(path);
	err = event_ring_map(&ring, dummy, 0, false);
	if (err) {
		printf("early dummy: %s\n", strerror(-err));
		return;
	}
	if (!fork())
		_exit(0);
	wait(NULL);
	while (event_ring_next(&ring, &record))
		forks += record.header.type == PERF_RECORD_FORK;
	printf("early dummy: %s, %d forks\n", file, forks);
	event_ring_unmap(&ring);
	close(event);
	close(dummy);
}

/* Prints an event's file, whether it is closed on exec, and its descriptor. */
static void print_file(const char *name, struct perf_event_attr *attr, unsigned long flags)
{
	char path[32], file[64] = "";
	int fd = event_open(attr, -1, flags);

	if (fd < 0) {
		printf("%s: %s\n", name, strerror(errno));
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, file, sizeof(file) - 1) < 0)
		perror(path);
	printf("%s: %s cloexec %d number %d\n", name, file, fcntl(fd, F_GETFD) & FD_CLOEXEC, fd);
	close(fd);
}

/* Reads a group of two equal events. Prints the number of counts, and whether they are equal. */
static void print_group(void)
{
	struct perf_event_attr attr = instructions();
	struct { unsigned long long nr, value[2]; } both = { 0 };
	int leader, sibling;

	attr.read_format = PERF_FORMAT_GROUP;
	leader = event_open(&attr, -1, 0);
	attr.disabled = 0;
	sibling = event_open(&attr, leader, 0);
	if (leader < 0 || sibling < 0) {
		printf("group: %s\n", strerror(errno));
		return;
	}
	ioctl(leader, PERF_EVENT_IOC_ENABLE, 0);
	loop(LOOPS);
	ioctl(leader, PERF_EVENT_IOC_DISABLE, 0);
	if (read(leader, &both, sizeof(both)) < 0)
		perror("group");
	printf("group: %llu %s\n", both.nr,
	       both.value[0] == both.value[1] && both.value[0] >= LOOP_INSNS * LOOPS ?
	       "equal" : "unequal");
	close(sibling);
	close(leader);
}

static void print_errors(void)
{
	struct perf_event_attr attr = instructions();
	long bad = event_open((void *)8, -1, 0);

	printf("bad address: %s\n", bad < 0 ? strerror(errno) : "none");
	attr.size = 8;
	bad = event_open(&attr, -1, 0);
	printf("bad size: %s\n", bad < 0 ? strerror(errno) : "none");
	attr = instructions();
	bad = event_open(&attr, 1000, 0);
	printf("bad leader: %s\n", bad < 0 ? strerror(errno) : "none");
}

/* Opens an event of the kernel in a group whose leader is an event of the driver. */
static void print_mixed(void)
{
	struct perf_event_attr ours = instructions(), kernels = instructions();
	int leader, sibling;

	kernels.type = PERF_TYPE_SOFTWARE;
	kernels.config = PERF_COUNT_SW_TASK_CLOCK;
	leader = event_open(&ours, -1, 0);
	sibling = event_open(&kernels, leader, 0);
	printf("software in a group: %s\n", sibling < 0 ? strerror(errno) : "none");
	close(sibling);
	close(leader);
}

/* Opens an event whose attributes, of the first size, end where a mapped page ends. */
static void print_attr_at_page_end(void)
{
	long size = sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	struct perf_event_attr attr = instructions();

	if (pages == MAP_FAILED || mprotect(pages + size, size, PROT_NONE)) {
		perror("mmap");
		return;
	}
	attr.size = PERF_ATTR_SIZE_VER0;
	memcpy(pages + size - PERF_ATTR_SIZE_VER0, &attr, PERF_ATTR_SIZE_VER0);
	print_file("first size", (void *)(pages + size - PERF_ATTR_SIZE_VER0), 0);
}

static int storm(const char *file)
{
	struct perf_event_attr attr = instructions();
	int i, begun[2];
	char byte;

	if (pipe(begun))
		return 1;
	for (i = 0; i < CHILDREN; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(event_open(&attr, -1, 0));
		if (write(begun[1], "", 1) != 1)
			_exit(1);
		for (;;)
			close(event_open(&attr, -1, 0));
	}
	for (i = 0; i < CHILDREN; i++) {
		if (read(begun[0], &byte, 1) != 1)
			return 1;
	}
	if (creat(file, 0600) < 0)
		return 1;
	pause();
	return 0;
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = instructions();
	char thread_name[] = "thread";
	pthread_t thread;

	if (argc > 2 && !strcmp(argv[1], "storm"))
		return storm(argv[2]);
	setvbuf(stdout, NULL, _IONBF, 0);
	print_early_dummy();
	print_file("hardware", &attr, 0);
	print_file("closed on exec", &attr, PERF_FLAG_FD_CLOEXEC);
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	print_file("software", &attr, PERF_FLAG_FD_CLOEXEC);
	print_attr_at_page_end();
	print_count("self");
	if (!pthread_create(&thread, NULL, print_thread, thread_name))
		pthread_join(thread, NULL);
	if (!fork()) {
		print_count("child");
		_exit(0);
	}
	wait(NULL);
	print_prctl();
	print_bpf();
	print_group();
	print_errors();
	print_mixed();
	return 0;
}
