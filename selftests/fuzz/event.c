// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compares events and their rings with a model: the fuzzer makes calls with random attributes,
 * ioctls, mappings, closes, forks, kills and moves between cgroups, and writes random bytes into
 * rings. All results and counts must be as the model predicts.
 *
 *     fuzz_event [--seed S] [--calls N] [--seconds N] [--threads N]
 *
 * Each of the N processes has its own events. At a difference, prints the shortest sequence of
 * steps that leads to it, and both results. PRECISE is the format of the CPU's precise samples.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cpu.h"
#include "device.h"
#include "event_fuzz.h"
#include "fuzz_report.h"
#include "idle.h"
#include "kselftest.h"
#include "leak_check.h"
#include "module.h"
#include "options.h"
#include "steps.h"

/*
 * The module is loaded with the default limits. Without limits the machine would do nothing but
 * take samples.
 */
#define LIMITS	"perf_event_max_sample_rate=100000 perf_cpu_time_max_percent=25"
#define MAX_RATE	100000

/* The number of steps of a sequence, which starts with all events closed. */
#define SEQUENCE	200

static struct options options = { .seed = 1, .calls = 60000, .threads = 2 };

static const char *const action_names[ACTIONS] = {
	"open", "close", "dup", "enable", "disable", "reset", "id", "period", "output", "pause",
	"other", "read", "write", "poll", "async", "map", "unmap", "remap", "protect", "junk",
	"tail", "drain", "loop", "fork", "helper", "move", "enter",
};

static void random_step(struct fuzz_step *s, struct rng *r, int precise)
{
	/* The actions by frequency. The cheap actions are the most frequent. */
	static const enum fuzz_action actions[] = {
		OPEN, OPEN, OPEN, OPEN, CLOSE, DUP, ENABLE, ENABLE, ENABLE, DISABLE, DISABLE,
		RESET, RESET, ID, ID, PERIOD, PERIOD, PERIOD, OUTPUT, OUTPUT, OUTPUT, OUTPUT, PAUSE,
		PAUSE, OTHER, READ, READ, READ, WRITE, POLL, POLL, ASYNC, MAP, MAP, MAP, MAP,
		UNMAP, REMAP, PROTECT, JUNK, TAIL, TAIL, DRAIN, DRAIN, DRAIN, LOOP, LOOP,
	};

	memset(s, 0, sizeof(*s));
	s->action = actions[rng_below(r, ARRAY_SIZE(actions))];
	if (rng_once_in(r, 100))
		s->action = ENTER;
	if (rng_once_in(r, 400))
		s->action = rng_once_in(r, 3) ? FORK : rng_once_in(r, 2) ? HELPER : MOVE;
	s->slot = rng_below(r, MODEL_EVENTS);
	s->other = rng_below(r, MODEL_EVENTS);
	s->value = rng_below(r, 1ULL << 40);
	if (s->action == OPEN)
		s->attr = random_attr(r, precise);
	else if (s->action == PERIOD)
		s->attr.words[0] = rng_once_in(r, 8) ? rng_below(r, 2) << 63 : random_period(r);
}

/* Runs a sequence. Returns the number of steps up to the difference, or 0 without one. */
static int run_steps(struct event_fuzz *f, const struct fuzz_step *steps, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (!event_fuzz_step(f, &steps[i])) {
			event_fuzz_close_all(f);
			return i + 1;
		}
	}
	event_fuzz_close_all(f);
	return 0;
}

static int run_again(const void *steps, int n, void *f)
{
	return run_steps(f, steps, n);
}

static void print_step(const struct fuzz_step *s)
{
	unsigned int i;

	ksft_print_msg("  %s: event %u, other %u, value 0x%llx", action_names[s->action], s->slot,
		       s->other, s->value);
	for (i = 0; i < ATTR_SIZE / 8; i++) {
		if (s->attr.words[i])
			printf(" [%u]=0x%llx", i, s->attr.words[i]);
	}
	printf("\n");
}

static void report(struct event_fuzz *f, struct fuzz_step *steps, int n, __u64 seed)
{
	struct steps shortened = {
		.list = steps, .size = sizeof(*steps), .n = n, .run = run_again, .data = f,
	};
	char first[sizeof(f->difference)];
	int i;

	memcpy(first, f->difference, sizeof(first));
	ksft_print_msg("--seed %llu: after %d steps: %s\n", seed, n, first);
	steps_shorten(&shortened);
	n = shortened.n;
	if (!run_steps(f, steps, n))
		ksft_print_msg("these steps alone do not lead to it again:\n");
	else if (strcmp(first, f->difference))
		ksft_print_msg("after %d steps: %s\n", n, f->difference);
	for (i = 0; i < n; i++)
		print_step(&steps[i]);
}

/* Runs one of the processes. Returns true if device and model never differed. */
static bool run_sequences(struct event_fuzz *f, unsigned int process)
{
	const unsigned long long calls = options.calls / options.threads;
	static struct fuzz_step steps[SEQUENCE];
	unsigned long long sequence = 0, progress_printed = 0;
	struct rng rng;
	__u64 seed;
	int i, differed;

	while (f->counts->calls[process] < calls && !options_time_is_over(&options)) {
		seed = options.seed + sequence++ * options.threads + process;
		rng = rng_seed(seed);
		for (i = 0; i < SEQUENCE; i++)
			random_step(&steps[i], &rng, f->model.precise);
		differed = run_steps(f, steps, SEQUENCE);
		if (differed) {
			report(f, steps, differed, seed);
			return false;
		}
		if (!process && f->counts->calls[0] / (calls / 10 + 1) > progress_printed) {
			progress_printed = f->counts->calls[0] / (calls / 10 + 1);
			ksft_print_msg("%llu calls after %u s\n", f->counts->calls[0],
				       options_elapsed());
		}
	}
	return true;
}

/* Prints the number of each result of each action. Returns whether each has succeeded once. */
static bool print_answers(const struct event_fuzz_counts *counts)
{
	bool all_succeeded = true;
	int action, err;

	for (action = 0; action < ACTIONS; action++) {
		ksft_print_msg("%-8s", action_names[action]);
		for (err = 0; err < MAX_ERRNO; err++) {
			if (counts->answers[action][err])
				printf(" %s %llu", err ? strerrorname_np(err) : "succeeded",
				       counts->answers[action][err]);
		}
		printf("\n");
		/* WRITE and OTHER always fail. */
		all_succeeded &= counts->answers[action][0] || action == WRITE || action == OTHER;
	}
	return all_succeeded;
}

static int run_process(struct event_fuzz_counts *counts, unsigned int process)
{
	static struct event_fuzz f;
	bool same;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (event_fuzz_begin(&f, counts, process, MAX_RATE))
		return EXIT_FAILURE;
	f.model.precise = env_number("PRECISE", 0);
	same = run_sequences(&f, process);
	event_fuzz_end(&f);
	fflush(stdout);
	return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct event_fuzz_counts *counts;
	static struct leak_check leaks;
	unsigned long long calls = 0;
	bool same = true;
	unsigned int i;
	int status;

	ksft_print_header();
	if (!pmu_expected())
		ksft_exit_skip("this CPU has no PMU\n");
	options_parse(&options, argc, argv);
	if (options.threads > FUZZ_PROCESSES)
		options.threads = FUZZ_PROCESSES;
	ksft_set_plan(2 + FUZZ_LEAK_CASES);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	mkdir(FUZZ_CGROUPS_AT, 0755);
	if (mount("none", FUZZ_CGROUPS_AT, "cgroup2", 0, NULL))
		ksft_exit_fail_msg("cgroups can't be mounted\n");
	if (counts == MAP_FAILED || module_reload(LIMITS) || leak_check_begin(&leaks) ||
	    wait_until_idle())
		ksft_exit_fail_msg("the device can't be opened\n");
	fflush(stdout);
	for (i = 0; i < options.threads; i++) {
		if (!fork())
			_exit(run_process(counts, i));
	}
	while (wait(&status) > 0)
		same &= !status;
	for (i = 0; i < options.threads; i++)
		calls += counts->calls[i];
	ksft_test_result(same, "device and model agree\n");
	ksft_print_msg("%llu calls in %u s, %llu loops counted, %llu records read\n", calls,
		       options_elapsed(), counts->loops, counts->records);
	ksft_test_result(print_answers(counts) && counts->loops && counts->records,
			 "every call succeeded\n");
	if (wait_until_idle() || module_reload(""))
		ksft_print_msg("the module can't be loaded again\n");
	fuzz_report_leaks(&leaks);
	umount(FUZZ_CGROUPS_AT);
	ksft_finished();
}
