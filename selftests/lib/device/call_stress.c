// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call_stress.h"
#include "calls.h"
#include "cpu.h"
#include "device.h"
#include "rng.h"
#include "trace.h"

#define MAX_THREADS	8
#define MAX_PAGES	16

/* Microseconds between the signals that interrupt a process. */
#define SIGNAL_US	9973

/* The state of one thread. */
struct calling_thread {
	int fd;			/* shared by the threads; replaced by dup2(2), never closed */
	int reader;		/* another descriptor, for reading, that can replace `fd` */
	int pair[2];		/* connected sockets */
	unsigned int cpus;
	struct perfmon_properties p;
	struct rng random;
};

static int random_counter(struct calling_thread *c)
{
	unsigned int n = rng_below(&c->random,
				   c->p.max_num_programmable_events +
				   c->p.max_num_fixed_events);

	if (n < c->p.max_num_programmable_events)
		return n;
	return PMC_FIXED(n - c->p.max_num_programmable_events);
}

/* Events with a lower number include the architectural ones, which every CPU has. */
#define EVENT_LIMIT	0x80

/* Returns valid values for all fields: instructions at a random rate or none, in random modes. */
static struct field_values random_values(struct calling_thread *c,
				   struct perfmon_config *config)
{
	static const __u32 rates[] = { 0, 10007, 100003, 1000003 };
	const int num = random_counter(c);
	const __u64 event = num < PMC_FIXED(0) ? EVENT_INSTRUCTIONS : 0;

	*config = one_event(INSTRUCTIONS, rates[rng_below(&c->random, 4)],
			    rng_below(&c->random, FLAG_TIMEBASE0));
	return (struct field_values) {
		.num = num,
		.select = event | rng_below(&c->random, 4) << 16,
		.definition = rng_below(&c->random, EVENT_LIMIT),
		.cpu = rng_below(&c->random, c->cpus),
		.cpu_count = 1,
		.buffers = c->cpus,
		.pages = 1 + rng_below(&c->random, MAX_PAGES),
		.model_id = MODEL_EVENT(rng_below(&c->random, 64)),
		.config = config,
	};
}

/* Maps a buffer by its handle and reads it, while other threads free it. */
static int read_buffer(int handle)
{
	const struct perfmon_buffer_header *header;
	size_t size = sysconf(_SC_PAGESIZE);
	int err = 0;

	header = mmap(NULL, size, PROT_READ, MAP_SHARED, handle, 0);
	if (header == MAP_FAILED)
		err = -errno;
	close(handle);
	if (err)
		return err;
	if (header->version != PERFMON_BUFFER_VERSION ||
	    header->capture_end < sizeof(*header) ||
	    header->capture_end > MAX_PAGES * size)
		err = -EBADMSG;
	munmap((void *)header, size);
	return err;
}

static int make_command(struct calling_thread *c, const struct command *command)
{
	struct perfmon_config config;
	struct field_values values = random_values(c, &config);
	union argument arg = command_argument(command, &values);
	int ret = call_ioctl(c->fd, command->cmd, &arg);

	if (ret < 0)
		return ret;
	if (command->cmd == IOCTL_PERFMON_GET_BUFFER_HANDLE)
		return read_buffer(ret);
	if (command->cmd == PMIOREADCPU && arg.cpu_data.pmcc_value[0] < 0)
		return -EBADMSG;
	return 0;
}

/* Closes the descriptor while other threads use it, and opens the device again. */
static int call_close_and_open(struct calling_thread *c)
{
	int fd;

	if (dup3(c->reader, c->fd, O_CLOEXEC) < 0)
		return -errno;
	fd = device_open(O_RDWR);
	if (fd < 0)
		return fd;
	if (dup3(fd, c->fd, O_CLOEXEC) < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Duplicates the descriptor: the copy may be the last to be closed. */
static int call_dup(struct calling_thread *c)
{
	int fd = dup(c->fd), err;
	__s64 value;

	if (fd < 0)
		return -errno;
	err = pmc_read(fd, random_counter(c), &value);
	close(fd);
	return err;
}

/* Sends the descriptor through a socket, and closes the received copy. */
static int call_send(struct calling_thread *c)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	struct perfmon_info info;
	int fd, err;

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &c->fd, sizeof(int));
	if (TEMP_FAILURE_RETRY(sendmsg(c->pair[0], &message, 0)) != 1 ||
	    TEMP_FAILURE_RETRY(recvmsg(c->pair[1], &message, 0)) != 1)
		return -errno;
	header = CMSG_FIRSTHDR(&message);
	if (!header)
		return -EMFILE;
	memcpy(&fd, CMSG_DATA(header), sizeof(int));
	err = device_ioctl(fd, PERFMON_GET_INFO, &info);
	close(fd);
	return err;
}

/* Forks a child that uses the descriptor, and waits for its end. */
static int call_fork(struct calling_thread *c)
{
	pid_t pid = fork();
	int i, status;

	if (pid < 0)
		return -errno;
	if (!pid) {
		for (i = 0; i < 4; i++) {
			make_command(c, command_find(PMIOREAD));
			make_command(c, command_find(IOCTL_PERFMON_STOP));
		}
		_exit(0);
	}
	if (TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)) != pid)
		return -errno;
	return status ? -ECHILD : 0;
}

/*
 * Operations on the descriptor besides the commands. EBUSY is allowed where another
 * process may be the writer, or the counter is not set up.
 */
static const struct extra_call {
	const char *name;
	int (*make)(struct calling_thread *c);
	int weight;
	int allowed;	/* errno */
} extras[] = {
	{ "close and open", call_close_and_open, 2, EBUSY },
	{ "dup", call_dup, 5, EBUSY },
	{ "SCM_RIGHTS", call_send, 5, 0 },
	{ "fork", call_fork, 1, 0 },
};

/* Numbers of calls: first the commands, then the operations of `extras`. */
#define CALLS	(COMMANDS + (int)(sizeof(extras) / sizeof(*extras)))

static const char *call_name(int i)
{
	return i < COMMANDS ? commands[i].name : extras[i - COMMANDS].name;
}

/*
 * Returns the frequency of a call, relative to the others. FREE_TRACE is rare, so that the
 * other calls find a trace.
 */
static int call_weight(int i)
{
	if (i >= COMMANDS)
		return extras[i - COMMANDS].weight;
	switch (commands[i].cmd) {
	case IOCTL_PERFMON_FREE_TRACE:
		return 5;
	case IOCTL_PERFMON_STAGE_CONFIG:
	case IOCTL_PERFMON_START:
		return 20;
	}
	return 10;
}

static bool is_allowed(int i, int err)
{
	if (i < COMMANDS)
		return command_may_fail(&commands[i], err);
	return !err || err == extras[i - COMMANDS].allowed;
}

static int make_call(int i, struct calling_thread *c)
{
	return i < COMMANDS ? make_command(c, &commands[i]) :
			      extras[i - COMMANDS].make(c);
}

/* The results that all threads share. */
struct call_stress_shared {
	int stop;
	int wrong;		/* the number of a call + 1 */
	int wrong_errno;
	__u64 made[CALLS];
	__u64 succeeded[CALLS];
};

/* Returns the number of a random call. */
static int random_call(struct rng *r)
{
	int total_weight = 0, i, weight;

	for (i = 0; i < CALLS; i++)
		total_weight += call_weight(i);
	weight = rng_below(r, total_weight);
	for (i = 0; weight >= call_weight(i); i++)
		weight -= call_weight(i);
	return i;
}

static void count_up(__u64 *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

struct thread {
	struct call_stress_shared *shared;
	struct calling_thread caller;
};

/* Makes calls until the stress ends. */
static void *thread_run(void *data)
{
	struct thread *thread = data;
	struct call_stress_shared *s = thread->shared;
	int i, err;

	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		i = random_call(&thread->caller.random);
		err = make_call(i, &thread->caller);
		count_up(&s->made[i]);
		if (!err) {
			count_up(&s->succeeded[i]);
		} else if (!is_allowed(i, -err)) {
			__atomic_store_n(&s->wrong_errno, -err,
					 __ATOMIC_RELAXED);
			__atomic_store_n(&s->wrong, i + 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

static void on_signal(int signal)
{
	(void)signal;
}

/* Starts a timer whose signals interrupt calls. No call may fail with EINTR. */
static void ask_for_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct itimerval interval = {
		.it_interval.tv_usec = SIGNAL_US,
		.it_value.tv_usec = SIGNAL_US,
	};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &interval, NULL);
}

static void process_run(struct call_stress_shared *s, int threads, __u64 seed)
{
	struct thread thread[MAX_THREADS] = { 0 };
	pthread_t id[MAX_THREADS];
	int fd, reader, i;

	reader = device_open(O_RDONLY);
	fd = device_open(O_RDWR);
	if (fd == -EBUSY)
		fd = device_open(O_RDONLY);
	if (reader < 0 || fd < 0)
		_exit(1);
	ask_for_signals();
	for (i = 0; i < threads; i++) {
		struct calling_thread *c = &thread[i].caller;

		thread[i].shared = s;
		*c = (struct calling_thread) {
			.fd = fd,
			.reader = reader,
			.cpus = cpu_ids(),
			.random = rng_seed(seed * MAX_THREADS + i),
		};
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
			       c->pair) ||
		    device_properties(reader, &c->p) ||
		    pthread_create(&id[i], NULL, thread_run, &thread[i]))
			_exit(1);
	}
	for (i = 0; i < threads; i++)
		pthread_join(id[i], NULL);
	_exit(0);
}

int call_stress_start(struct call_stress *s, int processes, int threads, __u64 seed)
{
	pid_t pid;

	*s = (struct call_stress) { .processes = 0 };
	if (processes > CALL_STRESS_MAX_PROCESSES || threads > MAX_THREADS)
		return -E2BIG;
	/* Adopts children whose parent was killed, to wait for them. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return -errno;
	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->shared == MAP_FAILED) {
		s->shared = NULL;
		return -errno;
	}
	while (s->processes < processes) {
		pid = fork();
		if (pid < 0)
			return -errno;
		/* Each process has a process group, so that its children can be killed with it. */
		setpgid(pid, 0);
		if (!pid)
			process_run(s->shared, threads,
				    seed * CALL_STRESS_MAX_PROCESSES + s->processes);
		s->pid[s->processes++] = pid;
	}
	return 0;
}

static struct call_stress_result result_of(const struct call_stress_shared *s)
{
	struct call_stress_result r = { .never_succeeded = "", .wrong = "" };
	int i;

	for (i = 0; i < CALLS; i++) {
		r.calls += s->made[i];
		r.refused += s->made[i] - s->succeeded[i];
		if (!s->succeeded[i])
			r.never_succeeded = call_name(i);
	}
	if (s->wrong) {
		r.wrong = call_name(s->wrong - 1);
		r.wrong_errno = s->wrong_errno;
	}
	return r;
}

__u64 call_stress_made(const struct call_stress *s)
{
	return result_of(s->shared).calls;
}

bool call_stress_all_succeeded(const struct call_stress *s)
{
	return !*result_of(s->shared).never_succeeded;
}

/*
 * Waits until all processes have ended, with exit code 0, or by SIGKILL if @killed. Returns 0 or a
 * negative errno.
 */
static int wait_for_processes(struct call_stress *s, bool killed,
			      struct call_stress_result *result)
{
	int err = 0, i, status;

	for (i = 0; i < s->processes; i++) {
		if (waitpid(s->pid[i], &status, 0) != s->pid[i])
			err = -errno;
		else if (killed ? !WIFSIGNALED(status) : status)
			err = -ECHILD;
		while (waitpid(-s->pid[i], NULL, 0) > 0)
			;
	}
	s->processes = 0;
	if (!s->shared)
		return err;
	*result = result_of(s->shared);
	munmap(s->shared, sizeof(*s->shared));
	s->shared = NULL;
	return err;
}

int call_stress_stop(struct call_stress *s, struct call_stress_result *result)
{
	if (s->shared)
		__atomic_store_n(&s->shared->stop, 1, __ATOMIC_RELAXED);
	return wait_for_processes(s, false, result);
}

int call_stress_kill(struct call_stress *s, struct call_stress_result *result)
{
	int i;

	for (i = 0; i < s->processes; i++)
		kill(-s->pid[i], SIGKILL);
	return wait_for_processes(s, true, result);
}
