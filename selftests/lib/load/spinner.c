// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "file.h"
#include "spinner.h"

/*
 * Files with the kernel's settings of the time that real-time programs must leave to other tasks.
 */
#define RT_RUNTIME	"/proc/sys/kernel/sched_rt_runtime_us"
#define FAIR_RUNTIME	"/sys/kernel/debug/sched/fair_server/cpu%d/runtime"

/*
 * The limit is much longer than any test spins, since a vCPU may stand still while its host is
 * busy.
 */
#define LIMIT_SECONDS	300

struct spinner_state {
	bool stop, is_spinning, has_given_up;
};

/* Reads a line of a file. Returns an empty line on failure. */
static void read_line(const char *path, char *line, size_t size)
{
	FILE *f = fopen(path, "re");

	if (!f || !fgets(line, size, f))
		line[0] = '\0';
	if (f)
		fclose(f);
}

static void read_settings(struct spinner *s, int cpu)
{
	snprintf(s->fair_file, sizeof(s->fair_file), FAIR_RUNTIME, cpu);
	read_line(RT_RUNTIME, s->saved_rt, sizeof(s->saved_rt));
	read_line(s->fair_file, s->saved_fair, sizeof(s->saved_fair));
}

bool spinner_can_take_all(int cpu)
{
	struct spinner s;

	read_settings(&s, cpu);
	return s.saved_fair[0];
}

static void spin(struct spinner_state *state, int cpu, int priority)
{
	const struct sched_param param = { .sched_priority = priority };
	time_t end = time(NULL) + LIMIT_SECONDS;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pin_to_cpu(cpu) || sched_setscheduler(0, SCHED_FIFO, &param))
		_exit(1);
	__atomic_store_n(&state->is_spinning, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&state->stop, __ATOMIC_RELAXED) && !state->has_given_up)
		state->has_given_up = time(NULL) > end;
	_exit(0);
}

int spinner_start(struct spinner *s, int cpu, int priority, enum spinner_limits limits)
{
	int err = 0;

	s->state = mmap(NULL, sizeof(*s->state), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->state == MAP_FAILED)
		return -errno;
	read_settings(s, cpu);
	if (limits == SPINNER_TAKES_ALL) {
		err = write_file(RT_RUNTIME, "-1");
		if (!err && s->saved_fair[0])
			err = write_file(s->fair_file, "0");
	}
	s->pid = err ? 0 : fork();
	if (s->pid < 0)
		err = -errno;
	if (err) {
		s->pid = 0;
		spinner_stop(s);
		return err;
	}
	if (!s->pid)
		spin(s->state, cpu, priority);
	while (!__atomic_load_n(&s->state->is_spinning, __ATOMIC_ACQUIRE)) {
		if (waitpid(s->pid, NULL, WNOHANG)) {
			s->pid = 0;
			spinner_stop(s);
			return -ECHILD;
		}
		usleep(1000);
	}
	return 0;
}

bool spinner_stop(struct spinner *s)
{
	bool has_run = s->pid && !__atomic_load_n(&s->state->has_given_up, __ATOMIC_RELAXED);

	if (s->pid) {
		__atomic_store_n(&s->state->stop, true, __ATOMIC_RELAXED);
		waitpid(s->pid, NULL, 0);
	}
	s->pid = 0;
	if (s->saved_rt[0])
		write_file(RT_RUNTIME, s->saved_rt);
	if (s->saved_fair[0])
		write_file(s->fair_file, s->saved_fair);
	munmap(s->state, sizeof(*s->state));
	return has_run;
}
