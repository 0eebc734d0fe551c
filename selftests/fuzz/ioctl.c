// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several threads make random sequences of calls of both interfaces, valid and invalid calls, while
 * descriptors are opened, closed, duplicated and forked, and buffers are mapped. No call fails with
 * an impossible errno, and no memory, counter or register is lost.
 *
 *     fuzz_ioctl [--seed S] [--calls N] [--seconds N] [--threads T] [--blind]
 *
 * On a kernel with CONFIG_KCOV, sequences that have reached new code are kept, and most later
 * sequences are variants of kept sequences. The choice of kept sequences depends a little on time;
 * with one thread and --blind a run is repeatable.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "cpu.h"
#include "device.h"
#include "fuzz_report.h"
#include "kcov.h"
#include "kselftest.h"
#include "leak_check.h"
#include "loop.h"
#include "options.h"
#include "places.h"
#include "random_call.h"
#include "slots.h"

#define SEQUENCE	16
#define KEPT		1024	/* sequences that each thread keeps */

/* The slots that the threads share. */
#define DEVICES		4
#define HANDLES		4
#define MAPPINGS	4

#define MAX_ERRNO	134

enum fuzz_action { CALL, OPEN, CLOSE, DUP, MAP, MAP_DEVICE, UNMAP, TOUCH, FORK, MOVE, WORK };

struct fuzz_step {
	enum fuzz_action action;
	unsigned int slot;
	unsigned int other;	/* slot, flags, CPU, iterations */
	struct call call;
};

struct sequence {
	int n;
	struct fuzz_step steps[SEQUENCE];
};

static struct options options = {
	.seed = 1,
	.calls = 40000,
	.threads = 2,
};
static struct machine machine;
static int devices[DEVICES], handles[HANDLES];	/* descriptors, or -1 */
static struct mapping *mappings[MAPPINGS];

struct fuzzer {
	pthread_t thread;
	struct rng rng;
	struct argument_pages places;
	struct kcov kcov;
	struct sequence current;
	struct sequence *kept;
	unsigned int kept_count;
	unsigned long long calls;
	unsigned long long answers[COMMANDS][MAX_ERRNO];
	char wrong[128];	/* the first impossible result */
};

/* The first thread prints the progress. */
static struct fuzzer *fuzzers;

/* --- Steps --------------------------------------------------------------- */

static void note_wrong(struct fuzzer *f, const char *call_name, unsigned int cmd, int err)
{
	if (!*f->wrong)
		snprintf(f->wrong, sizeof(f->wrong), "call %llu: %s 0x%08x: %s",
			 f->calls, call_name, cmd, strerror(err));
}

/*
 * Returns true if a call by root can fail with this errno in some state, with any argument. No
 * other process has the counters or forbids a call, so EIO and EACCES are impossible. Another
 * thread may have closed the descriptor, and opened another file with the same number.
 */
static bool is_possible(unsigned int cmd, int err)
{
	const struct command *c = command_find(cmd);

	switch (err) {
	case EFAULT:
	case EINVAL:
	case ENOTTY:
	case EBADF:
		return true;
	case ENOMEM:
		return c && command_is_of_trace(c);
	case EOPNOTSUPP:
		/* AMD has events that need two counters. */
		return cmd == PMIOSETUP2 || cmd == PERFMON_DEFINE_EVENT;
	}
	return c ? command_may_fail(c, err) : !err;
}

/* Returns the descriptor in a slot, or in the next slot that is not empty; -1 if all are empty. */
static int any_device(unsigned int slot)
{
	int i, fd = -1;

	for (i = 0; i < DEVICES && fd < 0; i++)
		fd = fd_get(&devices[(slot + i) % DEVICES]);
	return fd;
}

static void call(struct fuzzer *f, const struct fuzz_step *s)
{
	const struct call *c = &s->call;
	struct placed_argument placed = call_place(&f->places, c);
	int fd = any_device(s->slot), ret, err;

	if (placed.alias)
		memcpy(placed.alias, &c->arg, c->size);
	ret = ioctl(fd, c->cmd, placed.p);
	err = ret < 0 ? errno : 0;
	if (ret >= 0 && c->cmd == IOCTL_PERFMON_GET_BUFFER_HANDLE)
		fd_put(&handles[s->other], ret);
	f->calls++;
	f->answers[c->command][err < MAX_ERRNO ? err : 0]++;
	if (!is_possible(c->cmd, err))
		note_wrong(f, commands[c->command].name, c->cmd, err);
}

static void open_device(struct fuzzer *f, const struct fuzz_step *s)
{
	int fd = device_open(s->other);

	if (fd >= 0)
		fd_put(&devices[s->slot], fd);
	else if (fd != -EBUSY)
		note_wrong(f, "open", s->other, -fd);
}

static void duplicate(const struct fuzz_step *s)
{
	int fd = fcntl(fd_get(&devices[s->slot]), F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		fd_put(&devices[s->other], fd);
}

static void map(struct fuzzer *f, const struct fuzz_step *s)
{
	struct mapping *m = mapping_make(fd_get(&handles[s->slot]), s->other,
					 f->places.page_size);

	if (m)
		mapping_put(&mappings[s->slot], m);
}

static void read_mapping(struct fuzzer *f, const struct fuzz_step *s)
{
	struct mapping *m = mapping_take(&mappings[s->slot]);

	if (!m)
		return;
	__atomic_load_n((char *)m->p, __ATOMIC_RELAXED);
	if (!mprotect(m->p, m->size, PROT_READ | PROT_WRITE))
		note_wrong(f, "mprotect of a buffer", 0, 0);
	mapping_put(&mappings[s->slot], m);
}

/* The device itself can't be mapped. */
static void map_device(struct fuzzer *f, const struct fuzz_step *s)
{
	const long page = f->places.page_size;
	void *p = mmap(NULL, page, PROT_READ, MAP_SHARED, any_device(s->slot), 0);

	/* With several threads, the descriptor may now be that of a buffer. */
	if (p == MAP_FAILED)
		return;
	munmap(p, page);
	if (options.threads == 1)
		note_wrong(f, "mmap", 0, 0);
}

/* Forks a child that makes a call, and closes its descriptors by its exit. */
static void fork_child(const struct fuzzer *f, const struct fuzz_step *s)
{
	struct placed_argument placed = call_place(&f->places, &s->call);
	pid_t pid = fork();

	if (!pid) {
		ioctl(any_device(s->slot), s->call.cmd, placed.p);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void perform(struct fuzzer *f, const struct fuzz_step *s)
{
	switch (s->action) {
	case CALL:
		call(f, s);
		break;
	case OPEN:
		open_device(f, s);
		break;
	case CLOSE:
		fd_put(&devices[s->slot], -1);
		break;
	case DUP:
		duplicate(s);
		break;
	case MAP:
		map(f, s);
		break;
	case MAP_DEVICE:
		map_device(f, s);
		break;
	case UNMAP:
		mapping_put(&mappings[s->slot], NULL);
		break;
	case TOUCH:
		read_mapping(f, s);
		break;
	case FORK:
		fork_child(f, s);
		break;
	case MOVE:
		/* Ignores the error: a CPU number that does not exist has no effect. */
		pin_to_cpu(s->other);
		break;
	case WORK:
		loop(s->other);
		break;
	}
}

/* --- Sequences ----------------------------------------------------------- */

static enum fuzz_action random_action(struct rng *rng)
{
	static const enum fuzz_action others[] = {
		OPEN, OPEN, OPEN, CLOSE, DUP, DUP, MAP, MAP, MAP_DEVICE, UNMAP,
		TOUCH, TOUCH, MOVE, WORK, WORK,
	};

	if (rng_below(rng, 10))
		return CALL;
	/* Forks are rare, because a fork takes much longer than a call. */
	if (rng_once_in(rng, 200))
		return FORK;
	return others[rng_below(rng, ARRAY_SIZE(others))];
}

static void random_step(struct fuzzer *f, struct fuzz_step *s)
{
	/* Most opens are for writing. Only one descriptor at a time can be open for writing. */
	static const int modes[] = {
		O_RDWR, O_RDWR, O_RDWR, O_RDWR, O_RDWR, O_WRONLY, O_WRONLY,
		O_RDONLY,
	};
	struct rng *rng = &f->rng;

	s->action = random_action(rng);
	s->slot = rng_below(rng, DEVICES);
	switch (s->action) {
	case OPEN:
		s->other = modes[rng_below(rng, ARRAY_SIZE(modes))];
		break;
	case MAP:
		s->other = rng_below(rng, 1 << 17);
		break;
	case MOVE:
		s->other = rng_below(rng, machine.info.nr_cpu_ids);
		break;
	case WORK:
		s->other = 1 + rng_below(rng, 10000);
		break;
	default:
		s->other = rng_below(rng, DEVICES);
	}
	if (s->action == CALL || s->action == FORK)
		call_random(&s->call, rng, &machine);
}

/* Changes a sequence in one place. */
static void change_sequence(struct fuzzer *f, struct sequence *q)
{
	const struct sequence *other;
	int step = rng_below(&f->rng, q->n);

	switch (rng_below(&f->rng, 4)) {
	case 0:
		random_step(f, &q->steps[step]);
		break;
	case 1:
		/* From this place on, takes the end of another sequence. */
		other = &f->kept[rng_below(&f->rng, f->kept_count)];
		if (step < other->n) {
			memcpy(&q->steps[step], &other->steps[step],
			       (other->n - step) * sizeof(*q->steps));
			q->n = other->n;
		}
		break;
	case 2:
		if (q->n < SEQUENCE) {
			memmove(&q->steps[step + 1], &q->steps[step],
				(q->n - step) * sizeof(*q->steps));
			random_step(f, &q->steps[step]);
			q->n++;
		}
		break;
	default:
		if (q->steps[step].action == CALL)
			call_mutate(&q->steps[step].call, &f->rng, &machine);
	}
}

static void next_sequence(struct fuzzer *f, struct sequence *q)
{
	int i;

	if (!f->kept_count || rng_once_in(&f->rng, 4)) {
		q->n = SEQUENCE / 2 + rng_below(&f->rng, SEQUENCE / 2 + 1);
		for (i = 0; i < q->n; i++)
			random_step(f, &q->steps[i]);
		return;
	}
	*q = f->kept[rng_below(&f->rng, f->kept_count)];
	for (i = 1 + rng_below(&f->rng, 3); i; i--)
		change_sequence(f, q);
}

static void keep_sequence(struct fuzzer *f, const struct sequence *q)
{
	unsigned int index = f->kept_count < KEPT ? f->kept_count++ :
						    rng_below(&f->rng, KEPT);

	f->kept[index] = *q;
}

static unsigned long long answers(int command, int err)
{
	unsigned long long sum = 0;
	unsigned int t;

	for (t = 0; t < options.threads; t++)
		sum += fuzzers[t].answers[command][err];
	return sum;
}

/* Returns whether each command has succeeded once. */
static bool all_succeeded(void)
{
	int command;

	/* PMIOTSTAMP does not exist if the TSC frequency is unknown. */
	for (command = 0; command < COMMANDS && machine.tsc_freq_known; command++)
		if (!answers(command, 0))
			return false;
	return true;
}

/*
 * Makes its part of the calls, and continues until each command has succeeded once. With several
 * threads, the timing decides which calls succeed.
 */
static void *run_fuzzer(void *data)
{
	const unsigned long long calls = options.calls / options.threads;
	struct fuzzer *f = data;
	struct sequence *q = &f->current;
	unsigned int progress_printed = 0;
	int i;

	if (!options.blind)
		kcov_begin(&f->kcov);
	while ((f->calls < calls || (f->calls < 10 * calls && !all_succeeded())) &&
	       !options_time_is_over(&options)) {
		next_sequence(f, q);
		kcov_reset(&f->kcov);
		for (i = 0; i < q->n; i++)
			perform(f, &q->steps[i]);
		if (kcov_new_places(&f->kcov))
			keep_sequence(f, q);
		if (f == fuzzers && f->calls * 10 / calls > progress_printed) {
			progress_printed = f->calls * 10 / calls;
			ksft_print_msg("%u%% after %u s, %u places reached\n",
				       10 * progress_printed, options_elapsed(), kcov_places());
		}
	}
	kcov_end(&f->kcov);
	return NULL;
}

/* --- Results -------------------------------------------------------------- */

/* Prints the number of each result of each command. */
static void print_answers(void)
{
	unsigned long long n;
	int command, err;

	for (command = 0; command < COMMANDS; command++) {
		ksft_print_msg("%-18s", commands[command].name);
		for (err = 0; err < MAX_ERRNO; err++) {
			n = answers(command, err);
			if (n)
				printf(" %s %llu", err ? strerrorname_np(err) :
							 "succeeded", n);
		}
		printf("\n");
	}
}

static void close_all(void)
{
	int i;

	for (i = 0; i < DEVICES; i++)
		fd_put(&devices[i], -1);
	for (i = 0; i < HANDLES; i++)
		fd_put(&handles[i], -1);
	for (i = 0; i < MAPPINGS; i++)
		mapping_put(&mappings[i], NULL);
}

static bool begin_fuzzer(struct fuzzer *f, unsigned int i)
{
	f->rng = rng_seed(options.seed + i);
	f->kcov.fd = -1;
	f->kept = calloc(KEPT, sizeof(*f->kept));
	return f->kept && !places_map(&f->places);
}

int main(int argc, char **argv)
{
	unsigned long long calls = 0;
	static struct leak_check leaks;
	const char *problem = "";
	bool ready = true;
	unsigned int i;

	ksft_print_header();
	if (!pmu_expected())
		ksft_exit_skip("this CPU has no PMU\n");
	options_parse(&options, argc, argv);
	ksft_set_plan(2 + FUZZ_LEAK_CASES);
	memset(devices, -1, sizeof(devices));
	memset(handles, -1, sizeof(handles));
	fuzzers = calloc(options.threads, sizeof(*fuzzers));
	for (i = 0; i < options.threads && fuzzers; i++)
		ready &= begin_fuzzer(&fuzzers[i], i);
	if (!fuzzers || !ready || machine_read(&machine) || leak_check_begin(&leaks))
		ksft_exit_fail_msg("can't allocate memory or open the device\n");

	for (i = 1; i < options.threads; i++) {
		if (pthread_create(&fuzzers[i].thread, NULL, run_fuzzer, &fuzzers[i]))
			ksft_exit_fail_msg("can't start a thread\n");
	}
	run_fuzzer(&fuzzers[0]);
	for (i = 1; i < options.threads; i++)
		pthread_join(fuzzers[i].thread, NULL);
	close_all();

	for (i = 0; i < options.threads; i++) {
		calls += fuzzers[i].calls;
		if (*fuzzers[i].wrong)
			problem = fuzzers[i].wrong;
	}
	ksft_print_msg("%llu calls in %u s, %u places reached\n", calls,
		       options_elapsed(), kcov_places());
	print_answers();
	ksft_test_result(all_succeeded(), "every command succeeded\n");
	ksft_test_result(!*problem, "no impossible answer %s\n", problem);
	fuzz_report_leaks(&leaks);
	ksft_finished();
}
