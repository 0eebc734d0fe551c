// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Error messages: the attempt, the cause, and advice.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/perfmon.h>

#include "internal.h"

/* The size of a message in bytes, with its end. */
#define MESSAGE_SIZE	1024

/* The calling thread's message. The destructor of the key frees it at the thread's end. */
static __thread char *message;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t message_key;
/* Without a key (a process has 1024) there are no messages, because nothing would free them. */
static bool has_key;

static void free_message(void *thread_message)
{
	message = NULL;
	free(thread_message);
}

static void create_message_key(void)
{
	has_key = !pthread_key_create(&message_key, free_message);
}

EXPORT const char *perfmon_error(void)
{
	return message ? message : "no call of this thread has failed, or there was no memory for the message";
}

/* Writes at @offset of the message; does nothing without memory. */
__attribute__((format(printf, 2, 0)))
static void write_at(size_t offset, const char *format, va_list arguments)
{
	if (!message) {
		pthread_once(&once, create_message_key);
		message = has_key ? calloc(1, MESSAGE_SIZE) : NULL;
		if (message && pthread_setspecific(message_key, message)) {
			free(message);
			message = NULL;
		}
	}
	if (message)
		vsnprintf(message + offset, MESSAGE_SIZE - offset, format, arguments);
}

static const char *const attempts[] = {
	[TO_OPEN_DEVICE] = "can't open",
	[TO_OPEN_EVENT] = "can't count",
	[TO_CONTROL] = "can't enable, disable or zero",
	[TO_READ] = "can't read",
	[TO_MAP] = "can't map the page of",
};

/* The cause and the advice (or "") for an attempt and an errno, in the words of the Rust library. */
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
	  "Count user mode alone, as in `instructions:u`; or run it as root or with CAP_PERFMON, or, from Linux 7.3 on, allow it to all users with `sysctl kernel.perf_event_paranoid=0`." },
	{ TO_OPEN_EVENT, EPERM, "the kernel is locked down",
	  "/sys/kernel/security/lockdown shows the mode; `confidentiality` forbids counting." },
	{ TO_OPEN_EVENT, EINVAL, "the CPUs do not have such an event, or can't count it together with its group",
	  "`pmctl info` lists the events that the CPUs have." },
	{ TO_OPEN_EVENT, EOPNOTSUPP, "the driver does not support such an event",
	  "Count it with Linux's perf: `pmctl wrap -- perf stat` leaves such events to it." },
	{ TO_OPEN_EVENT, ENODEV, "there is no such task", "The thread that the leader of the group counts has ended." },
	{ TO_OPEN_EVENT, ENOMEM, "the kernel does not have enough memory", "" },
	{ TO_OPEN_EVENT, EMFILE, "no file descriptor is free", "Raise the limit with `ulimit -n`: each event takes one." },
	{ TO_MAP, EPERM, "this user may not lock so much memory",
	  "Raise the limit (`ulimit -l`, in KiB), or give the program CAP_IPC_LOCK." },
	{ TO_READ, EIO, "events were missed, so the count would be too low",
	  "There was no memory to count a new task, or something else changed the registers (the kernel log names the first such change). Count again." },
};

/* Pairs of an attempt and an errno that have the same cause as the attempt with another errno. */
static const struct {
	enum attempt attempt;
	int error;
	int same_as;
} same_causes[] = {
	{ TO_OPEN_DEVICE, ENODEV, ENOENT },
	{ TO_OPEN_DEVICE, ENXIO, ENOENT },
	{ TO_OPEN_DEVICE, EPERM, EACCES },
	{ TO_OPEN_EVENT, ENOENT, EINVAL },
	{ TO_OPEN_EVENT, ENFILE, EMFILE },
};

/* Returns the index in `causes` for a failure, or the number of rows if there is none. */
static unsigned int cause_of(enum attempt attempt, int error)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(same_causes); i++)
		if (same_causes[i].attempt == attempt && same_causes[i].error == error)
			return cause_of(attempt, same_causes[i].same_as);
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

/* Appends to the message, as far as there is space. */
__attribute__((format(printf, 1, 2)))
static void append(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_at(message ? strlen(message) : 0, format, arguments);
	va_end(arguments);
}

/* Replaces control characters, which a terminal would obey: a program's name may hold any bytes. */
static void make_printable(char *name, size_t size)
{
	size_t i;

	for (i = 0; i < size && name[i]; i++)
		if (iscntrl((unsigned char)name[i]))
			name[i] = '?';
}

/* Reads the owner of a counter. Returns false if the counter is free or does not exist. */
static bool read_owner(int device, int number, struct perfmon_counter_owner *owner)
{
	*owner = (struct perfmon_counter_owner) { .num = number };
	if (ioctl(device, PERFMON_GET_OWNER, owner) || owner->kind == PERFMON_OWNER_NONE)
		return false;
	make_printable(owner->comm, sizeof(owner->comm));
	return true;
}

/*
 * Returns whether two counters have the same owner. A process that has ended, or that this process
 * can't see, has the PID 0.
 */
static bool is_same_owner(const struct perfmon_counter_owner *a, const struct perfmon_counter_owner *b)
{
	return a->pid == b->pid && a->kind == b->kind && !strncmp(a->comm, b->comm, sizeof(a->comm));
}

/* Appends the name and the PID of a program that has counters. */
static void append_program(const struct perfmon_counter_owner *owner)
{
	append("%.16s", owner->comm[0] ? owner->comm : "another program");
	if (owner->pid)
		append(" (pid %d)", owner->pid);
}

/* Appends the owners of the counters, each program once, with its number of counters. */
static void append_owners(int device)
{
	struct perfmon_counter_owner owners[2 * NPMC], owner;
	unsigned int counters[2 * NPMC], n = 0, i, number;
	bool perf_has_counters = false;

	for (number = 0; number < 2 * NPMC; number++) {
		if (!read_owner(device, number < NPMC ? (int)number : (int)PMC_FIXED(number - NPMC), &owner))
			continue;
		for (i = 0; i < n && !is_same_owner(&owners[i], &owner); i++)
			;
		owners[i] = owner;
		counters[i] = i < n ? counters[i] + 1 : 1;
		n += i == n;
	}
	for (i = 0; i < n; i++) {
		append(i ? ", " : " ");
		if (owners[i].kind == PERFMON_OWNER_PERF) {
			append("Linux's perf or the NMI watchdog");
			perf_has_counters = true;
		} else {
			append_program(&owners[i]);
		}
		append(" has %u counter%s", counters[i], counters[i] == 1 ? "" : "s");
	}
	if (!n)
		append(" no program has one: the events are too many, an event is exclusive, or a real-time program keeps a CPU busy (the kernel log names the CPU)");
	append(". %s", perf_has_counters ?
	    "End what uses them: a running `perf`, or the NMI watchdog (`sysctl kernel.nmi_watchdog=0`). `pmctl doctor` looks for it." :
	    "Count fewer events at once, or end what has the other counters: each event has a counter of its own all the time.");
}

int fail_at(enum attempt attempt, int error, const char *object, int device)
{
	unsigned int i = cause_of(attempt, error);

	fail_with(error, "%s %s: ", attempts[attempt], object);
	if (attempt == TO_OPEN_EVENT && error == EBUSY) {
		append("no counter is free for this event:");
		append_owners(device);
		errno = error;
		return -1;
	}
	if (i < ARRAY_SIZE(causes))
		append("%s%s%s", causes[i].cause, causes[i].advice[0] ? ". " : "", causes[i].advice);
	else
		append("%s", strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error");
	errno = error;
	return -1;
}
