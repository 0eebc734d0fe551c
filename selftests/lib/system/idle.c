// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "idle.h"

/* The limit of a wait. The wait reaches it only if a process never sleeps. */
#define MOST_US		60000000U

/* The longest pause between two checks. */
#define PAUSE_US	100000U

/* Bit of the field "flags" in /proc/PID/stat: a kernel thread */
#define PF_KTHREAD	0x00200000

bool wait_longer(unsigned int *waited_us)
{
	unsigned int pause = *waited_us;

	if (*waited_us >= MOST_US)
		return false;
	if (pause < 1000)
		pause = 1000;
	if (pause > PAUSE_US)
		pause = PAUSE_US;
	usleep(pause);
	*waited_us += pause;
	return true;
}

/* Returns true if a user process exists, and is neither asleep nor dead. */
static bool is_awake(int pid)
{
	char path[32], line[512], state;
	unsigned int flags;
	char *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return false;
	end = fgets(line, sizeof(line), f);
	fclose(f);

	/* pid (name) state ppid pgrp session tty tpgid flags ... */
	if (end)
		end = strrchr(line, ')');
	if (!end || sscanf(end, ") %c %*d %*d %*d %*d %*d %u", &state,
			   &flags) != 2)
		return false;
	return !(flags & PF_KTHREAD) && !strchr("SZTX", state);
}

static bool all_others_sleep(void)
{
	bool idle = true;
	struct dirent *entry;
	DIR *dir = opendir("/proc");

	if (!dir)
		return false;
	while (idle && (entry = readdir(dir))) {
		if (isdigit(*entry->d_name) && atoi(entry->d_name) != getpid())
			idle = !is_awake(atoi(entry->d_name));
	}
	closedir(dir);
	return idle;
}

int wait_until_idle(void)
{
	unsigned int waited_us = 0;

	do {
		/*
		 * A process may sleep when it is checked, and then be woken by a process that
		 * sleeps or ends before it is checked itself. In the second check, the woken
		 * process is awake, or has finished.
		 */
		if (all_others_sleep() && all_others_sleep())
			return 0;
	} while (wait_longer(&waited_us));
	return -ETIMEDOUT;
}

int wait_until_asleep(int tid)
{
	unsigned int waited_us = 0;

	do {
		if (!is_awake(tid))
			return 0;
	} while (wait_longer(&waited_us));
	return -ETIMEDOUT;
}
