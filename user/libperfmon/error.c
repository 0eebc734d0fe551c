// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What happened, why, and what to do.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/perfmon.h>

#include "internal.h"

/* The bytes of a text. */
#define TEXT_SIZE	1024

/* The calling thread's text. The key frees it at the thread's end. */
static __thread char *text;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t ends_with_thread;

static void free_text(void *of_thread)
{
	text = NULL;
	free(of_thread);
}

static void prepare_process(void)
{
	pthread_key_create(&ends_with_thread, free_text);
}

EXPORT const char *perfmon_error(void)
{
	return text ? text : "no call of this thread has failed, or there is no memory to say why";
}

/* Writes at @place of the text; not at all without memory. */
__attribute__((format(printf, 2, 0)))
static void write_at(size_t place, const char *format, va_list arguments)
{
	if (!text) {
		pthread_once(&once, prepare_process);
		text = calloc(1, TEXT_SIZE);
		pthread_setspecific(ends_with_thread, text);
	}
	if (text)
		vsnprintf(text + place, TEXT_SIZE - place, format, arguments);
}

static const char *const attempts[] = {
	[TO_OPEN_DEVICE] = "can't open",
	[TO_OPEN_EVENT] = "can't count",
	[TO_CONTROL] = "can't enable, disable or zero",
	[TO_READ] = "can't read",
	[TO_MAP] = "can't map the page of",
};

/* Of an attempt and an errno the cause, and advice or "". The words are those of the library in Rust. */
static const struct {
	enum attempt attempt;
	int error;
	const char *cause;
	const char *advice;
} causes[] = {
	{ TO_OPEN_DEVICE, ENOENT, "there is no such device",
	  "Load the module: `modprobe perfmon`, or `insmod perfmon.ko` where it was built. On a machine that has no PMU for it, `pmctl vm` counts in a virtual one." },
	{ TO_OPEN_DEVICE, EACCES, "the mode of the device node does not let this user open it",
	  "Run it as root, or be a member of the group that has the device: `usermod -aG perfmon USER` after `make install`, then log in again." },
	{ TO_OPEN_EVENT, ENOTTY, "the device doesn't know this command",
	  "Use the module and the programs of the same release." },
	{ TO_OPEN_EVENT, EACCES, "the kernel's policy for performance events does not permit this process to do so",
	  "Count user mode alone, as in `instructions:u`; or run it as root or with CAP_PERFMON, or allow it to everybody with `sysctl kernel.perf_event_paranoid=0`." },
	{ TO_OPEN_EVENT, EPERM, "the kernel is locked down",
	  "/sys/kernel/security/lockdown shows the mode; `confidentiality` forbids counting." },
	{ TO_OPEN_EVENT, EINVAL, "the CPUs do not have such an event, or can't count it together with its group",
	  "`pmctl info` lists the events that the CPUs have." },
	{ TO_OPEN_EVENT, EOPNOTSUPP, "the driver does not support such an event",
	  "Count it with Linux's perf: `pmctl wrap -- perf stat` leaves such events to it." },
	{ TO_OPEN_EVENT, ENODEV, "there is no such task", "The thread that the leader of the group counts has ended." },
	{ TO_OPEN_EVENT, ENOMEM, "the kernel has not enough memory", "" },
	{ TO_OPEN_EVENT, EMFILE, "no file descriptor is free", "Raise the limit with `ulimit -n`: each event takes one." },
	{ TO_READ, EIO, "events were missed, so the count would be too low",
	  "There was no memory to follow a new task, or something else changed the registers: the kernel log says which. Count again." },
};

/* The errnos of an attempt that have the words of another one. */
static const struct {
	enum attempt attempt;
	int error;
	int like;
} alike[] = {
	{ TO_OPEN_DEVICE, ENODEV, ENOENT },
	{ TO_OPEN_DEVICE, ENXIO, ENOENT },
	{ TO_OPEN_DEVICE, EPERM, EACCES },
	{ TO_OPEN_EVENT, ENOENT, EINVAL },
	{ TO_OPEN_EVENT, ENFILE, EMFILE },
};

/* Returns the row of `causes` for a failure, or that behind the last one. */
static unsigned int cause_of(enum attempt attempt, int error)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(alike); i++)
		if (alike[i].attempt == attempt && alike[i].error == error)
			return cause_of(attempt, alike[i].like);
	for (i = 0; i < ARRAY_SIZE(causes); i++)
		if (causes[i].attempt == attempt && causes[i].error == error)
			break;
	return i;
}

int fail_with(int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_at(0, format, arguments);
	va_end(arguments);
	errno = error;
	return -1;
}

/* Adds to the text, as far as there is room. */
__attribute__((format(printf, 1, 2)))
static void add(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_at(text ? strlen(text) : 0, format, arguments);
	va_end(arguments);
}

/* Replaces what a terminal might take for a command: a program may be called anything. */
static void make_printable(char *name, size_t size)
{
	size_t i;

	for (i = 0; i < size && name[i]; i++)
		if (iscntrl((unsigned char)name[i]))
			name[i] = '?';
}

/* The owner of a counter; false if the counter is free, or there is none. */
static bool owner_of(int device, int number, struct perfmon_counter_owner *owner)
{
	*owner = (struct perfmon_counter_owner) { .num = number };
	if (ioctl(device, PERFMON_GET_OWNER, owner) || owner->kind == PERFMON_OWNER_NONE)
		return false;
	make_printable(owner->comm, sizeof(owner->comm));
	return true;
}

/* Adds the owners of the counters, each program once, with its number of counters. */
static void add_owners(int device)
{
	struct perfmon_counter_owner owners[2 * NPMC], owner;
	unsigned int counters[2 * NPMC], n = 0, i, number;
	bool is_perf = false;

	for (number = 0; number < 2 * NPMC; number++) {
		if (!owner_of(device, number < NPMC ? (int)number : (int)PMC_FIXED(number - NPMC), &owner))
			continue;
		for (i = 0; i < n && (owners[i].pid != owner.pid || owners[i].kind != owner.kind); i++)
			;
		owners[i] = owner;
		counters[i] = i < n ? counters[i] + 1 : 1;
		n += i == n;
	}
	for (i = 0; i < n; i++) {
		add(i ? ", " : " ");
		if (owners[i].kind == PERFMON_OWNER_PERF) {
			add("Linux's perf or the NMI watchdog");
			is_perf = true;
		} else {
			add("%.16s (pid %d)", owners[i].comm, owners[i].pid);
		}
		add(" has %u counter%s", counters[i], counters[i] == 1 ? "" : "s");
	}
	add(". %s", is_perf ?
	    "End what uses them: a running `perf`, or the NMI watchdog (`sysctl kernel.nmi_watchdog=0`). `pmctl doctor` looks for it." :
	    "Count fewer events at once, or end what has the other counters: each event has a counter of its own all the time.");
}

int fail_at(enum attempt attempt, int error, const char *what, int device)
{
	unsigned int i = cause_of(attempt, error);

	fail_with(error, "%s %s: ", attempts[attempt], what);
	if (attempt == TO_OPEN_EVENT && error == EBUSY) {
		add("no counter is free for it:");
		add_owners(device);
		errno = error;
		return -1;
	}
	if (i < ARRAY_SIZE(causes))
		add("%s%s%s", causes[i].cause, causes[i].advice[0] ? ". " : "", causes[i].advice);
	else
		add("%s", strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error");
	errno = error;
	return -1;
}
