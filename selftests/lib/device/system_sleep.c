// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "system_sleep.h"

#define POWER		"/sys/power/"
#define TEST_DELAY	"/sys/module/suspend/parameters/pm_test_delay"

int system_sleep_prepare(const struct system_sleep *how)
{
	int err = write_file(TEST_DELAY, "0");

	return err ? err : write_file(POWER "pm_test", how->level);
}

/* Sleeps, with an alarm of the clock that continues while the system sleeps. */
static int sleep_until_alarm(const char *state, int seconds)
{
	struct itimerspec when = { .it_value.tv_sec = seconds };
	int fd = timerfd_create(CLOCK_BOOTTIME_ALARM, TFD_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = timerfd_settime(fd, 0, &when, NULL) ? -errno : write_file(POWER "state", state);
	close(fd);
	return err;
}

int system_sleep_once(const struct system_sleep *how)
{
	int err = sleep_until_alarm(how->state, how->alarm);

	/*
	 * With an alarm in less than two seconds the kernel refuses to sleep. On a busy host,
	 * suspending the devices may take most of the time until the alarm.
	 */
	if (err == -EBUSY && how->alarm)
		err = sleep_until_alarm(how->state, 10 * how->alarm);
	return err;
}

void system_sleep_end(void)
{
	write_file(POWER "pm_test", "none");
}
