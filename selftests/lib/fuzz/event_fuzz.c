// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <linux/perfmon.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "event_fuzz.h"
#include "event_fuzz_parts.h"
#include "loop.h"

/* An upper bound of the instructions in user mode around a measured loop. */
#define LOOP_OVERHEAD_INSNS	100000

/* A descriptor that is not open. */
#define NO_FD		9999

/* A thread id that does not exist, and that no thread will get. */
#define NO_THREAD	0x3fffff

bool fuzz_compare(struct event_fuzz *f, enum fuzz_action action, const char *what, int want,
		  int got)
{
	int err = got < 0 ? -got : 0;

	f->counts->calls[f->process]++;
	__atomic_add_fetch(&f->counts->answers[action][err < MAX_ERRNO ? err : 0], 1,
			   __ATOMIC_RELAXED);
	if (got == want)
		return true;
	snprintf(f->difference, sizeof(f->difference), "%s: the device says %d (%s), the model %d (%s)",
		 what, got, got < 0 ? strerror(-got) : "", want, want < 0 ? strerror(-want) : "");
	return false;
}

/* Removes an event that no longer exists from the counts that all processes share. */
void fuzz_uncount_if_gone(struct event_fuzz *f, int i)
{
	if (!f->counted[i] || model_event_exists(&f->model.event[i]))
		return;
	f->counted[i] = false;
	__atomic_sub_fetch(&f->counts->events_open, 1, __ATOMIC_SEQ_CST);
	if (f->exclusive[i])
		__atomic_sub_fetch(&f->counts->exclusive_open, 1, __ATOMIC_SEQ_CST);
}

/* --- Opening and closing ---------------------------------------------------- */

static int bad_descriptor(const struct event_fuzz *f, unsigned int n)
{
	const int fds[] = { NO_FD, f->device, -2, 1 };

	return fds[n % 4];
}

/* Takes a random number below @n out of @value, the random part of a step. */
static unsigned int take_random(__u64 *value, unsigned int n)
{
	unsigned int taken = *value % n;

	*value /= n;
	return taken;
}

/* Rarely chooses a cgroup in place of the thread. */
static void choose_cgroup(const struct event_fuzz *f, __u64 *value, struct model_open *o,
			  union model_attr *attr, struct perfmon_event_open *arguments)
{
	struct perf_event_attr *const a = &attr->fields;

	if (take_random(value, 8))
		return;
	o->cgroup = 1 + take_random(value, FUZZ_CGROUPS);
	o->thread_exited = false;
	arguments->pid = f->cgroup[o->cgroup - 1];
	arguments->flags |= PERF_FLAG_PID_CGROUP;
	/* An event of a cgroup on all CPUs can't have samples or records. */
	if (o->cpu == -1 && take_random(value, 4)) {
		a->sample_period = 0;
		a->comm = a->task = a->context_switch = 0;
		o->attr = *attr;
	}
}

static bool open_event(struct event_fuzz *f, const struct fuzz_step *s)
{
	static const int no_cpus[] = { -2, 4095, 1 << 20 };
	struct model_open o = { .attr = s->attr, .group = NO_EVENT, .cpu = -1, .pid = f->self };
	union model_attr attr = s->attr;
	struct perfmon_event_open arguments = { .group_fd = -1, .flags = PERF_FLAG_FD_CLOEXEC };
	unsigned int opens_begun, events_open, exclusive_open;
	__u64 value = s->value;
	int want, got, i = s->slot;
	bool busy;

	if (model_event_exists(&f->model.event[i]))
		return true;
	o.unreadable = !take_random(&value, 64);
	arguments.attr = o.unreadable ? (uintptr_t)f->unmapped : (uintptr_t)&attr;
	switch (take_random(&value, 10)) {
	case 0:
		o.thread_exited = !f->helper_lives;
		arguments.pid = o.pid = o.thread_exited ? NO_THREAD : f->helper;
		break;
	case 1:
		arguments.pid = o.pid = -1;
		break;
	case 2:
		arguments.pid = f->self;
	}
	switch (take_random(&value, 8)) {
	case 0 ... 2:
		o.cpu = take_random(&value, f->model.cpus);
		break;
	case 3:
		o.cpu = no_cpus[take_random(&value, 3)];
	}
	arguments.cpu = o.cpu;
	choose_cgroup(f, &value, &o, &attr, &arguments);
	switch (take_random(&value, 8)) {
	case 0 ... 2:
		if (f->fd[s->other] >= 0) {
			arguments.group_fd = f->fd[s->other];
			o.group = s->other;
		}
		break;
	case 3:
		if (!take_random(&value, 4)) {
			arguments.group_fd = bad_descriptor(f, take_random(&value, 4));
			o.bad_group = true;
		}
	}
	switch (take_random(&value, 8)) {
	case 0:
		arguments.flags |= PERF_FLAG_FD_OUTPUT;
		break;
	case 1:
		arguments.flags |= PERF_FLAG_FD_NO_GROUP | (take_random(&value, 2) ? PERF_FLAG_FD_OUTPUT : 0);
		break;
	case 2:
		if (!take_random(&value, 4))
			arguments.flags |= 1U << take_random(&value, 32);
		break;
	case 3:
		arguments.flags |= PERFMON_EVENT_ROTATE;
	}
	o.flags = arguments.flags;

	opens_begun = __atomic_add_fetch(&f->counts->opens_begun, 1, __ATOMIC_SEQ_CST);
	events_open = __atomic_fetch_add(&f->counts->events_open, 1, __ATOMIC_SEQ_CST);
	exclusive_open = __atomic_fetch_add(&f->counts->exclusive_open, o.attr.fields.exclusive,
				       __ATOMIC_SEQ_CST);
	want = model_open(&f->model, i, &o);
	got = ioctl(f->device, PERFMON_EVENT_OPEN, &arguments);
	if (got < 0)
		got = -errno;
	/* Another process may have opened an event since the model has predicted the result. */
	busy = model_may_be_busy(&o, events_open, exclusive_open) ||
	       opens_begun != __atomic_load_n(&f->counts->opens_begun, __ATOMIC_SEQ_CST);
	if (got >= 0) {
		f->fd[i] = got;
		f->counted[i] = true;
		f->exclusive[i] = o.attr.fields.exclusive;
		got = 0;
	} else {
		__atomic_sub_fetch(&f->counts->events_open, 1, __ATOMIC_SEQ_CST);
		__atomic_sub_fetch(&f->counts->exclusive_open, o.attr.fields.exclusive, __ATOMIC_SEQ_CST);
	}
	if (got != want) {
		bool is_correct_too = got == -EBUSY ? busy && (!want || o.flags & PERF_FLAG_FD_OUTPUT) :
			    want == model_attr(&f->model, &o.attr) &&
			    model_attr_may_be(&f->model, &o.attr, got);

		if (is_correct_too) {
			model_close(&f->model, i);
			want = got;
		}
	}
	return fuzz_compare(f, OPEN, "open", want, got);
}

static bool close_event(struct event_fuzz *f, int i)
{
	if (f->dup[i] >= 0) {
		close(f->dup[i]);
		f->dup[i] = -1;
		return fuzz_compare(f, CLOSE, "close", 0, 0);
	}
	if (f->fd[i] < 0)
		return true;
	close(f->fd[i]);
	f->fd[i] = -1;
	model_close(&f->model, i);
	fuzz_uncount_if_gone(f, i);
	return fuzz_compare(f, CLOSE, "close", 0, 0);
}

static bool duplicate(struct event_fuzz *f, int i)
{
	if (f->dup[i] >= 0)
		return true;
	f->dup[i] = fcntl(f->fd[i], F_DUPFD_CLOEXEC, 0);
	return fuzz_compare(f, DUP, "dup", 0, f->dup[i] < 0 ? -errno : 0);
}

/* --- Calls of the descriptor ------------------------------------------------ */

static bool enable(struct event_fuzz *f, const struct fuzz_step *s, bool enabled)
{
	model_enable(&f->model, s->slot, s->value & PERF_IOC_FLAG_GROUP, enabled);
	return fuzz_compare(f, s->action, enabled ? "ENABLE" : "DISABLE", 0,
			 event_ioctl(f->fd[s->slot], enabled ? PERF_EVENT_IOC_ENABLE :
							       PERF_EVENT_IOC_DISABLE, s->value));
}

static bool read_id(struct event_fuzz *f, const struct fuzz_step *s)
{
	bool bad = !(s->value % 16);
	__u64 id = 0;
	int got = event_ioctl(f->fd[s->slot], PERF_EVENT_IOC_ID,
			      bad ? (uintptr_t)f->unmapped : (uintptr_t)&id);

	return fuzz_compare(f, ID, "ID", bad ? -EFAULT : 0, got);
}

static bool set_period(struct event_fuzz *f, const struct fuzz_step *s)
{
	bool bad = !(s->value % 16);
	__u64 period = s->attr.words[0];
	int want = bad ? -EFAULT : model_period(&f->model, s->slot, period);
	int got = event_ioctl(f->fd[s->slot], PERF_EVENT_IOC_PERIOD,
			      bad ? (uintptr_t)f->unmapped : (uintptr_t)&period);

	return fuzz_compare(f, PERIOD, "PERIOD", want, got);
}

static bool set_output(struct event_fuzz *f, const struct fuzz_step *s)
{
	int i = s->slot, want, got, fd = f->fd[s->other];
	__u64 value = s->value;

	switch (take_random(&value, 12)) {
	case 0 ... 1:
		fd = -1;
		want = model_set_output(&f->model, i, NO_EVENT);
		break;
	case 2:
		fd = bad_descriptor(f, take_random(&value, 4));
		want = -EBADF;
		break;
	default:
		if (fd < 0)
			return true;
		if (f->dup[s->other] >= 0 && take_random(&value, 2))
			fd = f->dup[s->other];
		want = model_set_output(&f->model, i, s->other);
	}
	got = event_ioctl(f->fd[i], PERF_EVENT_IOC_SET_OUTPUT, fd);
	return fuzz_compare(f, OUTPUT, "SET_OUTPUT", want, got);
}

/* Tries REFRESH, and ioctl commands that don't exist. */
static bool make_other_call(struct event_fuzz *f, const struct fuzz_step *s)
{
	unsigned int number = 12 + s->value % 200, size = s->value / 200 % 64;
	unsigned long cmd = _IOC(s->value / 12800 % 4, '$', number, size);
	int want = -ENOTTY;

	switch (s->value / 51200 % 8) {
	case 0:
		want = model_refresh(&f->model, s->slot);
		return fuzz_compare(f, OTHER, "REFRESH", want,
				 event_ioctl(f->fd[s->slot], PERF_EVENT_IOC_REFRESH, s->value % 50));
	case 1:
		cmd = PERF_EVENT_IOC_MODIFY_ATTRIBUTES;
		want = -EOPNOTSUPP;
		break;
	case 2:
		cmd = PERF_EVENT_IOC_SET_FILTER;
		break;
	case 3:
		cmd = PERF_EVENT_IOC_SET_BPF;
		break;
	case 4:
		cmd = PERF_EVENT_IOC_QUERY_BPF;
	}
	return fuzz_compare(f, OTHER, "another ioctl", want,
			 event_ioctl(f->fd[s->slot], cmd, (uintptr_t)f->unmapped));
}

static bool read_event(struct event_fuzz *f, const struct fuzz_step *s)
{
	static __u64 words[128];
	size_t needed = model_read_size(&f->model, s->slot), size = needed;
	bool bad = !(s->value % 16);
	int want = needed, got;

	if (!(s->value / 16 % 8))
		size = s->value / 128 % (needed + 16);
	if (size < needed)
		want = -ENOSPC;
	else if (bad)
		want = -EFAULT;
	got = read(f->fd[s->slot], bad ? (void *)f->unmapped : (void *)words, size);
	return fuzz_compare(f, READ, "read", want, got < 0 ? -errno : got);
}

static bool write_event(struct event_fuzz *f, const struct fuzz_step *s)
{
	int got = s->value & 1 ? write(f->fd[s->slot], f, s->value / 2 % 64) :
				 lseek(f->fd[s->slot], s->value, SEEK_SET);

	return fuzz_compare(f, WRITE, "write, lseek", s->value & 1 ? -EINVAL : -ESPIPE,
			 got < 0 ? -errno : got);
}

static bool poll_event(struct event_fuzz *f, int i)
{
	struct pollfd p = { .fd = f->fd[i], .events = POLLIN };
	const struct model_event *e = &f->model.event[i];
	int got = poll(&p, 1, 0), want = e->tasks_exited ? POLLHUP : 0;

	if (got < 0)
		return fuzz_compare(f, POLL, "poll", 0, -errno);
	/* The model does not know whether the ring has data. */
	if (e->ring_pages)
		p.revents &= ~POLLIN;
	return fuzz_compare(f, POLL, "poll", want, p.revents);
}

static bool set_async(struct event_fuzz *f, const struct fuzz_step *s)
{
	int fd = f->fd[s->slot];
	int got = fcntl(fd, F_SETOWN, getpid()) || fcntl(fd, F_SETFL, s->value & 1 ? O_ASYNC : 0);

	return fuzz_compare(f, ASYNC, "F_SETFL", 0, got ? -errno : 0);
}

/* --- Work ------------------------------------------------------------------- */

/*
 * Returns whether read(2) starts with a count of this thread's instructions in user mode. The event
 * counts the thread, or a cgroup of the thread in which no other task runs.
 */
static bool counts_loops(const struct event_fuzz *f, int i)
{
	const struct model_event *e = &f->model.event[i];
	const struct perf_event_attr *a = &e->attr.fields;

	return f->fd[i] >= 0 && model_count_is_known(&f->model, i) && !e->takes_turns &&
	       (e->pid == f->self || model_cgroup(e)) && e->cpu == -1 &&
	       a->type == PERF_TYPE_HARDWARE && (__u32)a->config == PERF_COUNT_HW_INSTRUCTIONS &&
	       !a->exclude_user && a->exclude_kernel && !(a->read_format & PERF_FORMAT_GROUP);
}

static bool count_loop(struct event_fuzz *f, const struct fuzz_step *s)
{
	unsigned long n = 1 + s->value % 4000;
	__s64 before[MODEL_EVENTS], after, exact = LOOP_INSNS * n;
	bool counts;
	int i;

	for (i = 0; i < MODEL_EVENTS; i++)
		before[i] = counts_loops(f, i) ? event_count(f->fd[i]) : 0;
	loop(n);
	for (i = 0; i < MODEL_EVENTS; i++) {
		if (!counts_loops(f, i))
			continue;
		after = event_count(f->fd[i]);
		if (before[i] < 0 || after < 0)
			return fuzz_compare(f, LOOP, "read of a count", 0, after < 0 ? after : before[i]);
		after -= before[i];
		__atomic_add_fetch(&f->counts->loops, 1, __ATOMIC_RELAXED);
		counts = model_counts(&f->model, i) &&
			 model_cgroup(&f->model.event[i]) <= f->cgroup_depth;
		if (!counts ? after : after < exact || after > exact + LOOP_OVERHEAD_INSNS) {
			snprintf(f->difference, sizeof(f->difference),
				 "event %d counts %lld for %lu loops, and is %s", i, after, n,
				 !model_counts(&f->model, i) ? "disabled" :
				 counts ? "enabled" : "of another cgroup");
			return false;
		}
		fuzz_compare(f, LOOP, "loop", 0, 0);
	}
	return true;
}

/* Forks a child that uses the descriptors, and then exits or is killed. */
static bool fork_child(struct event_fuzz *f, const struct fuzz_step *s)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		bool same = true;

		if (f->fd[s->slot] >= 0) {
			same = read_event(f, s) && read_id(f, s) && poll_event(f, s->slot) &&
			       fuzz_map_once(f, s->slot);
		}
		loop(1 + s->value % 10000);
		if (!same) {
			fprintf(stderr, "# a child: %s\n", f->difference);
			_exit(1);
		}
		if (s->value & 1)
			kill(getpid(), SIGKILL);
		if (s->value & 2)
			execlp("pmctl_loop", "pmctl_loop", "1000", NULL);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return fuzz_compare(f, FORK, "fork", 0, -errno);
	return fuzz_compare(f, FORK, "a child", 0, WIFSIGNALED(status) || !status ? 0 : -status);
}

static void on_sigusr1(int signal)
{
	(void)signal;
	loop(100000);
}

/* Starts a process that sleeps and has no event. Returns when it has closed its descriptors. */
static pid_t start_helper(void)
{
	int ready[2];
	pid_t pid;
	char byte;

	signal(SIGUSR1, on_sigusr1);
	if (pipe2(ready, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ready[1], 3);
		close_range(4, ~0U, 0);
		if (write(3, "", 1) != 1)
			_exit(1);
		close(3);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		pid = -1;
	close(ready[0]);
	return pid;
}

/* Moves process @pid, or this one if that is 0, into the first @depth of the cgroups. */
static int enter_cgroup(const struct event_fuzz *f, int depth, pid_t pid)
{
	char number[16];
	int length = snprintf(number, sizeof(number), "%d", pid);

	return pwrite(f->procs[depth], number, length, 0) == length ? 0 : -errno;
}

static bool enter(struct event_fuzz *f, const struct fuzz_step *s)
{
	int depth = s->value % (1 + FUZZ_CGROUPS);

	f->cgroup_depth = depth;
	return fuzz_compare(f, ENTER, "cgroup.procs", 0, enter_cgroup(f, depth, 0));
}

static bool change_helper(struct event_fuzz *f, const struct fuzz_step *s)
{
	if (f->helper_lives && s->value & 1) {
		kill(f->helper, SIGUSR1);
	} else if (f->helper_lives) {
		kill(f->helper, SIGKILL);
		waitpid(f->helper, NULL, 0);
		f->helper_lives = false;
		model_task_ends(&f->model, f->helper);
	} else {
		f->helper = start_helper();
		f->helper_lives = f->helper > 0;
		/*
		 * Moves the helper out of the cgroups of this process, so that it is not counted
		 * there.
		 */
		if (f->helper_lives && f->cgroup_depth && enter_cgroup(f, 0, f->helper))
			return fuzz_compare(f, HELPER, "cgroup.procs", 0, -errno);
	}
	return fuzz_compare(f, HELPER, "helper", 0, f->helper < 0 ? -errno : 0);
}

/* --- All of it -------------------------------------------------------------- */

bool event_fuzz_step(struct event_fuzz *f, const struct fuzz_step *s)
{
	switch (s->action) {
	case OPEN:
		return open_event(f, s);
	case LOOP:
		return count_loop(f, s);
	case FORK:
		return fork_child(f, s);
	case HELPER:
		return change_helper(f, s);
	case MOVE:
		return fuzz_compare(f, MOVE, "affinity", 0, pin_to_cpu(s->value % f->model.cpus));
	case ENTER:
		return enter(f, s);
	case UNMAP:
	case REMAP:
	case PROTECT:
	case JUNK:
	case TAIL:
	case DRAIN:
		return fuzz_use_mapping(f, s);
	default:
		break;
	}
	if (f->fd[s->slot] < 0)
		return true;
	switch (s->action) {
	case CLOSE:
		return close_event(f, s->slot);
	case DUP:
		return duplicate(f, s->slot);
	case ENABLE:
	case DISABLE:
		return enable(f, s, s->action == ENABLE);
	case RESET:
		return fuzz_compare(f, RESET, "RESET", 0,
				 event_ioctl(f->fd[s->slot], PERF_EVENT_IOC_RESET, s->value));
	case ID:
		return read_id(f, s);
	case PERIOD:
		return set_period(f, s);
	case OUTPUT:
		return set_output(f, s);
	case PAUSE:
		return fuzz_compare(f, PAUSE, "PAUSE_OUTPUT", model_pause(&f->model, s->slot),
				 event_ioctl(f->fd[s->slot], PERF_EVENT_IOC_PAUSE_OUTPUT, s->value % 3));
	case READ:
		return read_event(f, s);
	case WRITE:
		return write_event(f, s);
	case POLL:
		return poll_event(f, s->slot);
	case ASYNC:
		return set_async(f, s);
	case MAP:
		return fuzz_map(f, s);
	default:
		return make_other_call(f, s);
	}
}

void event_fuzz_close_all(struct event_fuzz *f)
{
	int i;

	for (i = 0; i < MODEL_EVENTS; i++) {
		close_event(f, i);
		close_event(f, i);
	}
	fuzz_unmap_all(f);
	if (f->cgroup_depth)
		enter_cgroup(f, 0, 0);
	f->cgroup_depth = 0;
}

/* Writes the path of a process's cgroup @number to @path. Number 0 is the root. */
static void cgroup_path(char *path, size_t size, unsigned int process, int number)
{
	const char *const formats[] = {
		FUZZ_CGROUPS_AT, FUZZ_CGROUPS_AT "/%u", FUZZ_CGROUPS_AT "/%u/in",
	};

	snprintf(path, size, formats[number], process);
}

static int make_cgroups(struct event_fuzz *f)
{
	char path[64], procs[96];
	int i;

	for (i = 0; i <= FUZZ_CGROUPS; i++) {
		cgroup_path(path, sizeof(path), f->process, i);
		if (i) {
			mkdir(path, 0755);
			f->cgroup[i - 1] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (f->cgroup[i - 1] < 0)
				return -errno;
		}
		snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
		f->procs[i] = open(procs, O_WRONLY | O_CLOEXEC);
		if (f->procs[i] < 0)
			return -errno;
	}
	return 0;
}

static void remove_cgroups(struct event_fuzz *f)
{
	char path[64];
	int i;

	for (i = FUZZ_CGROUPS; i; i--) {
		cgroup_path(path, sizeof(path), f->process, i);
		rmdir(path);
		close(f->cgroup[i - 1]);
		close(f->procs[i]);
	}
	close(f->procs[0]);
}

int event_fuzz_begin(struct event_fuzz *f, struct event_fuzz_counts *counts,
		     unsigned int process, __u64 max_rate)
{
	const struct fuzz_step helper = { .action = HELPER };
	cpu_set_t cpus;
	int i, err;

	memset(f, 0, sizeof(*f));
	f->counts = counts;
	f->process = process;
	f->self = getpid();
	for (i = 0; i < MODEL_EVENTS; i++) {
		f->fd[i] = f->dup[i] = -1;
		f->model.event[i].leader = NO_EVENT;
	}
	signal(SIGIO, SIG_IGN);
	err = cpus_online(&cpus);
	f->model.cpus = CPU_COUNT(&cpus);
	f->model.max_rate = max_rate;
	f->unmapped = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	f->device = device_open(O_RDONLY);
	if (err || f->unmapped == MAP_FAILED || f->device < 0 || make_cgroups(f))
		return -ENODEV;
	change_helper(f, &helper);
	return 0;
}

void event_fuzz_end(struct event_fuzz *f)
{
	const struct fuzz_step end = { .action = HELPER };

	event_fuzz_close_all(f);
	if (f->helper_lives)
		change_helper(f, &end);
	remove_cgroups(f);
	close(f->device);
}
