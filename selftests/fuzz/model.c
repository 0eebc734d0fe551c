// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compares the device with a model of it: random calls have the errno, state and counts that the
 * model predicts.
 *
 *     fuzz_model [--seed S] [--calls N] [--seconds N]
 *
 * At a difference, prints the shortest sequence of calls that leads to it, and both results.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "fuzz_report.h"
#include "idle.h"
#include "kselftest.h"
#include "leak_check.h"
#include "loop.h"
#include "model.h"
#include "open_files.h"
#include "options.h"
#include "steps.h"
#include "trace.h"

/* The number of steps of a sequence, which starts with the device closed. */
#define SEQUENCE	150
#define WRITER		OPEN_FILES	/* stands for the first descriptor that is open for writing, or for any */

/* More than the instructions of a step in user mode. */
#define LOOP_OVERHEAD_INSNS	100000

enum fuzz_action { CALL, OPEN, CLOSE, DUP, LOOP, COUNT, TRACE, MOVE };

static const char *const action_names[] = {
	"call", "open", "close", "dup", "loop", "count", "trace", "move",
};

struct fuzz_step {
	enum fuzz_action action;
	unsigned int slot;
	unsigned int other;	/* slot, counter, CPU */
	unsigned int n;		/* iterations, flags of open() */
	bool compares_state;		/* compare the whole state after the step */
	struct call call;
};

static struct machine machine;
static struct argument_pages places;
static struct model model;
static struct open_files files;
static int reader;

/* Statistics of the run. */
static unsigned long long calls;
static unsigned long long succeeded[COMMANDS];
static unsigned long long loops_checked;
#define MAX_ERRNO	134
static unsigned long long errnos[MAX_ERRNO];

/* The first difference between device and model; empty if there is none. */
static char difference[256];

static bool note_difference(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(difference, sizeof(difference), format, args);
	va_end(args);
	return false;
}

/* --- Steps --------------------------------------------------------------- */

/* The steps. Each returns false if the device and the model differ. */

static bool call(int fd, bool writer, const struct call *c)
{
	struct placed_argument placed = call_place(&places, c);
	union argument answer;
	const char *problem;
	int want, got;

	if (placed.alias)
		memcpy(placed.alias, &c->arg, c->size);
	want = model_call(&model, writer, c, &placed);
	got = call_and_close(fd, c->cmd, placed.p);
	calls++;
	errnos[-got]++;
	if (got != want)
		return note_difference("0x%08x: the device says %d (%s), the model %d (%s)",
			      c->cmd, -got, strerror(-got), -want,
			      strerror(-want));
	if (!got)
		succeeded[c->command]++;
	if (!placed.alias)
		return true;
	if (got || !(_IOC_DIR(c->cmd) & _IOC_READ)) {
		if (got != -EFAULT && memcmp(placed.alias, &c->arg, c->size))
			return note_difference("0x%08x: the argument has changed", c->cmd);
		return true;
	}
	answer = c->arg;
	memcpy(&answer, placed.alias, c->size);
	problem = model_check(&model, c, &answer);
	return *problem ? note_difference("0x%08x: %s", c->cmd, problem) : true;
}

static void close_file(int i)
{
	if (open_files_close(&files, i))
		model_init(&model, &machine);
}

static bool open_file(int i, int flags)
{
	int want, got;

	close_file(i);
	want = flags != O_RDONLY && files.has_writer ? -EBUSY : 0;
	got = open_files_open(&files, i, flags);
	return got == want ||
	       note_difference("open: the device says %d, the model %d", got, want);
}

static bool dup_file(int from, int to)
{
	int err;

	if (from == to)
		return true;
	close_file(to);
	err = open_files_dup(&files, from, to);
	return !err || note_difference("dup: %s", strerror(-err));
}

/* Counts a loop like pmc_count_loop(), with only a few more instructions between the calls. */
static bool count_loop(int i, int num, unsigned long n)
{
	const struct placed_argument good = { .readable = true, .writable = true };
	const struct call start = call_make(PMIOSTART, &num, sizeof(num));
	const struct call stop = call_make(PMIOSTOP, &num, sizeof(num));
	int want, got;

	want = model_call(&model, open_files_is_writer(&files, i), &start, &good);
	got = pmc_count_loop(files.fd[i], num, n);
	if (!want) {
		model_executed(&model, LOOP_INSNS * n, CALL_OVERHEAD);
		want = model_call(&model, open_files_is_writer(&files, i), &stop, &good);
		loops_checked++;
	}
	return got == want || note_difference("count: the device says %d, the model %d",
				     got, want);
}

/* Checks the records of a trace of trace_loop(@n). */
static bool check_sums(const struct trace *t, unsigned long n)
{
	const __u32 absent = PERFMON_BUFFER_FLAG_OFFLINE |
			     PERFMON_BUFFER_FLAG_NOT_TRACED;
	__u64 total[PERFMON_MAX_EVENTS] = { 0 };
	struct trace_sums s;
	const char *problem;
	bool is_full = false;
	unsigned int cpu;
	int i;

	for (cpu = 0; cpu < t->cpus; cpu++) {
		problem = trace_sum(t, cpu, &s);
		if (*problem)
			return note_difference("trace, CPU %u: %s", cpu, problem);
		if (t->buffer[cpu]->flags & absent)
			return note_difference("trace, CPU %u: flags 0x%x", cpu,
				      t->buffer[cpu]->flags);
		is_full |= t->buffer[cpu]->flags & PERFMON_BUFFER_FLAG_FULL;
		for (i = 0; i < PERFMON_MAX_EVENTS; i++)
			total[i] += s.event[i].total;
	}
	for (i = 0; i < PERFMON_MAX_EVENTS && t->config.events[i]; i++) {
		if (!(t->config.flags[i] & (FLAG_USER | FLAG_OS)) && total[i])
			return note_difference("trace: event %d counted in no mode", i);
		if (!model_counts_instructions(&model, i))
			continue;
		loops_checked++;
		/* If the buffer is full, the CPU has stopped counting early. */
		if (is_full ? total[i] > TRACE_LOOP_INSNS(n) :
			   total[i] != TRACE_LOOP_INSNS(n))
			return note_difference("trace: event %d: %llu instead of %llu", i,
				      total[i], TRACE_LOOP_INSNS(n));
	}
	return true;
}

static bool trace_a_loop(int i, unsigned long n)
{
	const struct call start = call_make(IOCTL_PERFMON_START, NULL, 0);
	const struct call stop = call_make(IOCTL_PERFMON_STOP, NULL, 0);
	const struct placed_argument none = { .readable = true, .writable = true };
	struct trace t = {
		.fd = files.fd[i],
		.cpus = machine.info.nr_cpu_ids,
		.size = model.alloc.buffer_size_in_pages * places.page_size,
		.config = model.config,
	};
	bool same = true;
	int err;

	/* If the model predicts that START is refused, STOP is not called. */
	if (model_call(&model, open_files_is_writer(&files, i), &start, &none))
		return true;
	err = trace_map(&t);
	if (!err)
		err = trace_loop(&t, n);
	model_executed(&model, LOOP_INSNS * n, LOOP_OVERHEAD_INSNS);
	model_call(&model, true, &stop, &none);
	same = err ? note_difference("trace: the device says %d", err) : check_sums(&t, n);
	trace_unmap(&t);
	return same;
}

/*
 * Returns the index of a step's descriptor. For WRITER, returns the descriptor that is open for
 * writing, or 0 if there is none.
 */
static int step_descriptor(const struct fuzz_step *s)
{
	int writer = open_files_writer(&files);

	if (s->slot != WRITER)
		return s->slot;
	return writer < 0 ? 0 : writer;
}

static bool perform(const struct fuzz_step *s)
{
	const int i = step_descriptor(s);

	model_executed(&model, 0, LOOP_OVERHEAD_INSNS);
	switch (s->action) {
	case OPEN:
		return open_file(i, s->n);
	case CLOSE:
		close_file(i);
		return true;
	case LOOP:
		loop(s->n);
		model_executed(&model, LOOP_INSNS * (__u64)s->n, 0);
		return true;
	case MOVE:
		/* Ignores the error: a CPU number that does not exist has no effect. */
		pin_to_cpu(s->other);
		return true;
	default:
		break;
	}
	if (files.fd[i] < 0)
		return true;
	switch (s->action) {
	case DUP:
		return dup_file(i, s->other);
	case COUNT:
		return count_loop(i, s->other, s->n);
	case TRACE:
		return trace_a_loop(i, s->n);
	default:
		return call(files.fd[i], open_files_is_writer(&files, i), &s->call);
	}
}

/* --- The state ----------------------------------------------------------- */

static bool same_counter(int num)
{
	const struct call get = call_make(PMIOGET2, &num, sizeof(num));
	const struct call read = call_make(PMIOREAD, &num, sizeof(num));

	return call(reader, false, &get) && call(reader, false, &read);
}

/* Compares all state that calls report. */
static bool same_state(void)
{
	const struct call alloc = call_make(IOCTL_PERFMON_GET_ALLOC, NULL, 0);
	const struct call config = call_make(IOCTL_PERFMON_GET_CONFIG, NULL, 0);
	const struct perfmon_properties *p = &machine.properties;
	int i;

	model_executed(&model, 0, LOOP_OVERHEAD_INSNS);
	for (i = 0; i < p->max_num_programmable_events; i++) {
		if (!same_counter(i))
			return false;
	}
	for (i = 0; i < p->max_num_fixed_events; i++) {
		if (!same_counter(PMC_FIXED(i)))
			return false;
	}
	i = open_files_writer(&files);
	return i < 0 || (call(files.fd[i], true, &alloc) &&
			 call(files.fd[i], true, &config));
}

/* --- Sequences ----------------------------------------------------------- */

static void random_step(struct fuzz_step *s, struct rng *rng)
{
	/* Most steps are calls. */
	static const enum fuzz_action others[] = {
		OPEN, OPEN, CLOSE, DUP, LOOP, LOOP, COUNT, COUNT, TRACE, MOVE,
	};
	static const int modes[] = { O_RDWR, O_RDWR, O_RDONLY, O_WRONLY };

	memset(s, 0, sizeof(*s));
	s->action = rng_once_in(rng, 5) ?
			others[rng_below(rng, ARRAY_SIZE(others))] : CALL;
	s->slot = rng_once_in(rng, 4) ? rng_below(rng, OPEN_FILES) : WRITER;
	s->compares_state = rng_once_in(rng, 4);
	switch (s->action) {
	case OPEN:
	case CLOSE:
		s->slot = rng_below(rng, OPEN_FILES);
		s->n = modes[rng_below(rng, ARRAY_SIZE(modes))];
		break;
	case DUP:
		s->other = rng_below(rng, OPEN_FILES);
		break;
	case COUNT:
		s->other = rng_below(rng, 4) ? rng_below(rng, 3) : PMC_FIXED(0);
		s->n = 1 + rng_below(rng, 100000);
		break;
	case LOOP:
	case TRACE:
		s->n = 1 + rng_below(rng, 100000);
		break;
	case MOVE:
		s->other = rng_below(rng, machine.info.nr_cpu_ids);
		break;
	default:
		call_random(&s->call, rng, &machine);
	}
}

/* Runs a sequence. Returns the number of steps up to the difference, or 0 without one. */
static int run_steps(const struct fuzz_step *steps, int n)
{
	int i;

	for (i = 0; i < OPEN_FILES; i++)
		close_file(i);
	for (i = 0; i < n; i++) {
		if (!perform(&steps[i]) || (steps[i].compares_state && !same_state()))
			return i + 1;
	}
	return same_state() ? 0 : n;
}

static int run_again(const void *steps, int n, void *unused)
{
	(void)unused;
	return run_steps(steps, n);
}

static void print_step(const struct fuzz_step *s)
{
	int i, end = s->call.size;

	if (s->action != CALL) {
		ksft_print_msg("  %s: descriptor %u, other 0x%x, n %u\n",
			       action_names[s->action], s->slot, s->other, s->n);
		return;
	}
	ksft_print_msg("  %s 0x%08x: descriptor %u, place %u, bytes:",
		       commands[s->call.command].name, s->call.cmd, s->slot,
		       s->call.where);
	while (end && !s->call.arg.bytes[end - 1])
		end--;
	for (i = 0; i < end; i++)
		printf(" %02x", s->call.arg.bytes[i]);
	printf("\n");
}

static void report(struct fuzz_step *steps, int n)
{
	struct steps shortened = {
		.list = steps, .size = sizeof(*steps), .n = n, .run = run_again,
	};
	char first[sizeof(difference)];
	int i;

	memcpy(first, difference, sizeof(first));
	ksft_print_msg("after %d steps: %s\n", n, first);
	steps_shorten(&shortened);
	n = shortened.n;
	/* Runs the shortened sequence once more, to get the message of its own difference. */
	if (!run_steps(steps, n))
		ksft_print_msg("these steps alone do not lead to it again:\n");
	else if (strcmp(first, difference))
		ksft_print_msg("after %d steps: %s\n", n, difference);
	for (i = 0; i < n; i++)
		print_step(&steps[i]);
}

/* Returns true if device and model never differed. */
static bool run_sequences(const struct options *o)
{
	static struct fuzz_step steps[SEQUENCE];
	unsigned long long sequence = 0, progress_printed = 0;
	struct rng rng;
	int i, differed;

	while (calls < o->calls && !options_time_is_over(o)) {
		rng = rng_seed(o->seed + sequence++);
		for (i = 0; i < SEQUENCE; i++)
			random_step(&steps[i], &rng);
		/* The first step opens the device for writing. */
		steps[0] = (struct fuzz_step) { .action = OPEN, .n = O_RDWR };
		differed = run_steps(steps, SEQUENCE);
		if (differed) {
			ksft_print_msg("--seed %llu\n", o->seed + sequence - 1);
			report(steps, differed);
			return false;
		}
		if (calls / (o->calls / 10 + 1) > progress_printed) {
			progress_printed = calls / (o->calls / 10 + 1);
			ksft_print_msg("%llu calls\n", calls);
			wait_until_idle();
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	struct options options = { .seed = 1, .calls = 150000 };
	static struct leak_check leaks;
	bool all_succeeded = true;
	int i;

	ksft_print_header();
	if (!pmu_expected())
		ksft_exit_skip("this CPU has no PMU\n");
	options_parse(&options, argc, argv);
	ksft_set_plan(2 + FUZZ_LEAK_CASES);
	open_files_init(&files);
	if (machine_read(&machine) || places_map(&places) || leak_check_begin(&leaks))
		ksft_exit_fail_msg("the device can't be opened\n");
	reader = device_open(O_RDONLY);
	model_init(&model, &machine);
	wait_until_idle();

	ksft_test_result(run_sequences(&options), "device and model agree\n");

	ksft_print_msg("%llu calls in %u s, %llu loops counted\n", calls,
		       options_elapsed(), loops_checked);
	for (i = 0; i < MAX_ERRNO; i++) {
		if (errnos[i])
			ksft_print_msg("%12llu %s\n", errnos[i],
				       i ? strerror(i) : "succeeded");
	}
	for (i = 0; i < COMMANDS; i++) {
		ksft_print_msg("%12llu %s succeeded\n", succeeded[i],
			       commands[i].name);
		/* PMIOTSTAMP does not exist if the TSC frequency is unknown. */
		all_succeeded &= succeeded[i] || !machine.tsc_freq_known;
	}
	ksft_test_result(all_succeeded && loops_checked, "every command succeeded\n");
	for (i = 0; i < OPEN_FILES; i++)
		close_file(i);
	fuzz_report_leaks(&leaks);
	ksft_finished();
}
