// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many call chains: of a recursion, of signal handlers, of the vDSO, of the kernel, of stacks that
 * end in invalid frames or change while they are read, and of executed programs. Each chain is
 * complete, or cut at an invalid frame.
 *
 * CHAINS in the environment is the number of chains, SEED sets the random numbers. Compiled with
 * frame pointers, also for 32 bits.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "frames.h"
#include "idle.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "loop.h"
#include "options.h"
#include "recursion.h"
#include "rng.h"
#include "samples.h"
#include "vdso.h"

#define PAGE	4096UL
#define ORDER	8
#define MAX_CHAIN	127		/* the most addresses of a chain */
#define MINUTES	60		/* the timeout of a test */

/* True for addresses that no program can have. */
#define KERNEL(address) ((address) >> 47 != 0)

FIXTURE(chain_stress)
{
	struct leak_check leaks;
	struct rng random;
	__u64 chains;
};

FIXTURE_SETUP(chain_stress)
{
	SKIP_WITHOUT_PMU();
	self->random = rng_seed(env_number("SEED", 1));
	self->chains = env_number("CHAINS", 4000);
	ASSERT_EQ(0, module_reload(""));
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
	ASSERT_EQ(0, wait_until_idle());
}

FIXTURE_TEARDOWN(chain_stress)
{
	ensure_module(_metadata);
}

/* Arguments of the signal handler. */
static struct {
	unsigned int depth;
	unsigned long n;
} handler_arguments;

static RECURSION_FUNCTION void signal_handler(int signal)
{
	(void)signal;
	recurse(handler_arguments.depth, handler_arguments.n, LOOP);
	/* Keeps the compiler from making a tail call. */
	__asm__ volatile("");
}

/* --- Samples --------------------------------------------------------------- */

struct chain_findings {
	unsigned int depth;		/* depth of the recursion */
	unsigned int handler_depth;
	bool cut;			/* the chain ends after the signal handler */
	struct vdso vdso;
	/* Made-up frames: the lengths of their chains, and whether the frames change. */
	unsigned int shortest, longest;
	bool frames_change;
	/* Numbers of chains, by their contents. */
	unsigned long chain_count, at_entry, checked, wrong, in_part;
	char first[200];		/* description of the first wrong chain */
};

static void note_wrong(struct chain_findings *c, const struct sample *s, const char *why)
{
	unsigned int i;
	int length;

	if (c->wrong++)
		return;
	length = snprintf(c->first, sizeof(c->first), "%s: at %llx, depth %u, %u; %llu:", why,
			  s->ip, c->depth, c->handler_depth, s->chain_length);
	for (i = 0; i < s->chain_length && length < (int)sizeof(c->first); i++)
		length += snprintf(c->first + length, sizeof(c->first) - length, " %llx",
				   s->chain[i]);
}

/* Returns the number of consecutive addresses from @at on that are in the recursion. */
static unsigned int count_recursion(const struct sample *s, unsigned int at)
{
	unsigned int n = 0;

	while (at + n < s->chain_length && in_recursion(s->chain[at + n]))
		n++;
	return n;
}

/*
 * Returns whether the PMI came in the first instructions of a system call or an exception, where
 * the kernel has not saved the program's registers yet.
 */
static bool is_at_entry(const struct sample *s)
{
	return !s->chain_length && (!s->ip || !memcmp((void *)(uintptr_t)(s->ip - 2), "\x0f\x05", 2));
}

/* Makes the checks that apply to every chain of a program. */
static bool is_program(struct chain_findings *c, const struct sample *s)
{
	unsigned int i;

	c->chain_count++;
	if (is_at_entry(s)) {
		c->at_entry++;
		return false;
	}
	if (s->chain_length < 2 || s->chain_length > MAX_CHAIN + 1 || s->chain[0] != PERF_CONTEXT_USER ||
	    s->chain[1] != s->ip) {
		note_wrong(c, s, "no chain of a program");
		return false;
	}
	for (i = 1; i < s->chain_length; i++) {
		if (KERNEL(s->chain[i])) {
			note_wrong(c, s, "the kernel in the program");
			return false;
		}
	}
	return true;
}

static void check_recursion(const struct sample *s, void *data)
{
	struct chain_findings *c = data;
	unsigned int expected = c->depth + 1;

	if (!is_program(c, s) || !in_leaf(s->ip))
		return;
	c->checked++;
	if (expected > MAX_CHAIN)
		expected = MAX_CHAIN;
	/* The recursion is followed by its caller. */
	if (count_recursion(s, 1) != expected || (expected < MAX_CHAIN && s->chain_length == expected + 1))
		note_wrong(c, s, "recursion");
}

static void check_handler(const struct sample *s, void *data)
{
	struct chain_findings *c = data;
	unsigned int handler = c->handler_depth + 2, interrupted;

	if (!is_program(c, s) || !in_leaf(s->ip))
		return;
	c->checked++;
	if (count_recursion(s, 1) != handler || s->chain_length < handler + 2) {
		note_wrong(c, s, "handler");
		return;
	}
	/* The handler's return address follows. The interrupted function has no return address. */
	interrupted = count_recursion(s, handler + 2);
	if (c->cut ? s->chain_length != handler + 2 : interrupted != c->depth)
		note_wrong(c, s, "interrupted");
}

static bool in_vdso(const struct chain_findings *c, __u64 address)
{
	return address >= c->vdso.begin && address < c->vdso.end;
}

/*
 * Checks a chain through the vDSO. A function that has not set up its frame yet hides its caller.
 */
static void check_vdso(const struct sample *s, void *data)
{
	struct chain_findings *c = data;
	unsigned int at = 1, callers;

	if (!is_program(c, s) || !in_vdso(c, s->ip))
		return;
	c->checked++;
	while (at < s->chain_length && in_vdso(c, s->chain[at]))
		at++;
	callers = count_recursion(s, at);
	c->in_part += callers == c->depth;
	/*
	 * In 32-bit programs the chain may be wrong, because the vDSO uses the frame pointer for
	 * other data: see is_program().
	 */
	if (callers != c->depth + 1 && callers != c->depth && sizeof(long) == 8)
		note_wrong(c, s, "vDSO");
}

static void check_kernel(const struct sample *s, void *data)
{
	struct chain_findings *c = data;
	unsigned int i, user, callers;

	c->chain_count++;
	if (!KERNEL(s->ip))
		return;
	if (s->chain_length < 2 || s->chain_length > MAX_CHAIN + 2 || s->chain[0] != PERF_CONTEXT_KERNEL ||
	    s->chain[1] != s->ip) {
		note_wrong(c, s, "no chain of the kernel");
		return;
	}
	for (i = 1; i < s->chain_length && s->chain[i] != PERF_CONTEXT_USER; i++) {
		if (!KERNEL(s->chain[i]))
			note_wrong(c, s, "the program in the kernel");
	}
	user = i + 1;
	for (i = user; i < s->chain_length; i++) {
		if (KERNEL(s->chain[i]))
			note_wrong(c, s, "the kernel in the program");
	}
	/* Leaves out system calls of the test itself. */
	if (user >= s->chain_length || !in_recursion(s->chain[user]))
		return;
	c->checked++;
	callers = count_recursion(s, user);
	/* Interrupts and page faults may come before the deepest function is reached. */
	c->in_part += callers < c->depth + 1;
	if (callers > c->depth + 1)
		note_wrong(c, s, "recursion below the kernel");
}

static void check_made_up_chain(const struct sample *s, void *data)
{
	struct chain_findings *c = data;
	unsigned int i, n = s->chain_length - 2;

	if (!is_program(c, s) || s->ip < (uintptr_t)frame_loop_begin ||
	    s->ip >= (uintptr_t)frame_loop_end)
		return;
	c->checked++;
	if (n < c->shortest || n > c->longest)
		note_wrong(c, s, "length");
	for (i = 0; i < n; i++) {
		/*
		 * If frames do not change, the return addresses have the expected order; a repeated
		 * frame has the same address again.
		 */
		if (c->frames_change ? s->chain[2 + i] - FRAME_ADDRESS(0) >= FRAMES :
				 s->chain[2 + i] != FRAME_ADDRESS(i))
			note_wrong(c, s, "frame");
	}
}

/* --- Cases ----------------------------------------------------------------- */

struct chain_run {
	struct sampler sampler;
	struct sample_sums sums;
	struct chain_findings c;
	struct rng *random;
	struct frame *frames;
	int err;
};

struct chain_kind {
	const char *name;
	unsigned int parts;		/* thousandths of all chains */
	__u64 period;
	bool kernel;
	void (*check)(const struct sample *s, void *data);
	/* Executes code with known callers, and sets the expected chains in i->c. */
	void (*work)(struct chain_run *i);
};

static void work_recursion(struct chain_run *i)
{
	static const unsigned int depths[] = { 0, 1, 2, 12, 100, 125, 126, 127, 200 };

	i->c.depth = depths[rng_below(i->random, ARRAY_SIZE(depths))];
	recurse(i->c.depth, 20000, LOOP);
}

static void work_vdso(struct chain_run *i)
{
	i->c.depth = rng_below(i->random, 60);
	recurse(i->c.depth, 100, CLOCK);
}

static void work_kernel(struct chain_run *i)
{
	i->c.depth = rng_below(i->random, 40);
	recurse(i->c.depth, 20, CALLS);
}

static void work_handler(struct chain_run *i)
{
	i->c.depth = rng_below(i->random, 50);
	i->c.handler_depth = rng_below(i->random, 50);
	handler_arguments.depth = i->c.handler_depth;
	handler_arguments.n = 20000;
	recurse(i->c.depth, 1, SIGNAL);
}

/* Loops with a frame pointer to an invalid address. */
static void work_nowhere(struct chain_run *i)
{
	i->c.longest = 0;
	frame_loop((void *)(uintptr_t)frames_without_memory[rng_below(i->random, FRAMES_NOWHERE)], 20000);
}

#ifdef __x86_64__
/*
 * Returns the first address that no program can have. With five-level page tables this address is
 * higher.
 */
static unsigned long user_end(void)
{
	void *high = mmap((void *)(1UL << 50), PAGE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (high == MAP_FAILED)
		return (1UL << 47) - PAGE;
	munmap(high, PAGE);
	return (1UL << 56) - PAGE;
}
#endif

/* Loops with some frames, of which the last one is invalid. */
static void work_nonsense(struct chain_run *i)
{
	const unsigned long addresses[] = { 0, ~0UL, (unsigned long)PERF_CONTEXT_USER,
#ifdef __x86_64__
		0xffffffff81000000UL, user_end(), user_end() + PAGE, 0xffff888000000000UL,
#endif
	};
	unsigned int n = rng_below(i->random, 20);
	struct frame good = i->frames[n];
	unsigned long nowhere = frames_without_memory[rng_below(i->random, FRAMES_NOWHERE)];
	unsigned long at = (uintptr_t)&i->frames[n];

	i->c.shortest = i->c.longest = n + 1;
	switch (rng_below(i->random, 5)) {
	case 0:
		i->frames[n].next = (void *)nowhere;
		break;
	case 1:
		i->frames[n].next = (void *)(at + 1 + (long)rng_below(i->random, sizeof(long) - 1));
		break;
	case 2:
		/* Links the frame to a lower frame, or to itself. */
		i->frames[n].next = (void *)(at - (long)(sizeof(good) * rng_below(i->random, 2)));
		break;
	case 3:
		/* Links the frame to a frame that is partly or completely in unmapped memory. */
		i->frames[n].next = (void *)((uintptr_t)(i->frames + FRAMES) - sizeof(long) *
				    (long)rng_below(i->random, 2));
		break;
	default:
		i->frames[n].address = addresses[rng_below(i->random, sizeof(long) == 8 ? 7 : 1)];
		i->c.shortest = i->c.longest = n;
	}
	frame_loop(i->frames, 20000);
	i->frames[n] = good;
}

/* Changes the frames that work_changes() samples. */
static struct frames_changer changer;

static void work_changes(struct chain_run *i)
{
	i->c.frames_change = true;
	i->c.longest = MAX_CHAIN - 1;
	frame_loop(changer.frames + rng_below(i->random, 8), 20000);
}

static const struct chain_kind deep = { "recursion", 150, 997, false, check_recursion,
					work_recursion };
static const struct chain_kind handler = { "handler", 70, 997, false, check_handler, work_handler };
static const struct chain_kind vdso = { "vdso", 100, 997, false, check_vdso, work_vdso };
static const struct chain_kind kernel = { "kernel", 50, 50021, true, check_kernel, work_kernel };
static const struct chain_kind nowhere = { "nowhere", 100, 997, false, check_made_up_chain, work_nowhere };
static const struct chain_kind nonsense = { "nonsense", 150, 997, false, check_made_up_chain,
					work_nonsense };
static const struct chain_kind changes = { "changes", 300, 997, false, check_made_up_chain, work_changes };

/* Samples the calling thread until it has @wanted chains. */
static void sample_chains(struct chain_run *i, const struct chain_kind *kind, __u64 wanted)
{
	struct perf_event_attr attr = event_every(kind->period);
	struct sampler *s = &i->sampler;

	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	attr.exclude_kernel = !kind->kernel;
	attr.exclude_user = kind->kernel;
	i->sums = SAMPLE_SUMS_INIT;
	s->fd = -1;
	i->err = sampler_open(s, &event_maker_perfmon, &attr, 0, -1, ORDER);
	while (!i->err && i->c.checked < wanted && !i->c.wrong) {
		event_enable(s->fd);
		kind->work(i);
		event_disable(s->fd);
		sampler_read(s, &i->sums, kind->check, &i->c);
		/* Stops after a limit, because a wrong test would loop forever. */
		if (i->sums.malformed || (i->sums.samples > 10000 && !i->c.checked))
			break;
	}
	sampler_close(s);
}

static __u64 wanted_chains(const FIXTURE_DATA(chain_stress) *self, const struct chain_kind *kind)
{
	return 1 + self->chains * kind->parts / 1000;
}

static void expect_right(struct __test_metadata *_metadata, const struct chain_run *i,
			 const struct chain_kind *kind, __u64 wanted)
{
	TH_LOG("%s: %lu chains, %lu at the kernel's entry, %lu known, %lu of these in part",
	       kind->name, i->c.chain_count, i->c.at_entry, i->c.checked, i->c.in_part);
	EXPECT_EQ(0, i->err);
	EXPECT_FALSE(i->sums.malformed);
	EXPECT_LE(wanted, i->c.checked);
	EXPECT_LE(i->c.at_entry * 100, i->c.chain_count);
	EXPECT_LE(i->c.in_part * 4, i->c.checked);
	EXPECT_EQ(0UL, i->c.wrong) {
		TH_LOG("%s", i->c.first);
	}
}

static void sample_kind(struct __test_metadata *_metadata, FIXTURE_DATA(chain_stress) *self,
			const struct chain_kind *kind)
{
	static struct chain_run i;

	i.random = &self->random;
	i.frames = frames_map();
	ASSERT_TRUE(i.frames != NULL);
	i.c.vdso = (struct vdso) { 0, 0 };
	leaf_data.clock = vdso_find("__vdso_clock_gettime", &i.c.vdso);
	leaf_data.memory = map_shared(_metadata, PAGE);
	sample_chains(&i, kind, wanted_chains(self, kind));
	frames_unmap(i.frames);
	expect_right(_metadata, &i, kind, wanted_chains(self, kind));
}

TEST_F_TIMEOUT(chain_stress, recursion_has_each_caller, MINUTES * 60)
{
	sample_kind(_metadata, self, &deep);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_F_TIMEOUT(chain_stress, chain_in_the_vdso_has_callers, MINUTES * 60)
{
	ASSERT_TRUE(vdso_find("__vdso_clock_gettime", NULL) != NULL);
	sample_kind(_metadata, self, &vdso);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_F_TIMEOUT(chain_stress, chain_of_the_kernel_contains_the_program, MINUTES * 60)
{
	sample_kind(_metadata, self, &kernel);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_F_TIMEOUT(chain_stress, invalid_frame_pointer_ends_the_chain, MINUTES * 60)
{
	sample_kind(_metadata, self, &nowhere);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_F_TIMEOUT(chain_stress, chain_ends_at_the_last_frame, MINUTES * 60)
{
	sample_kind(_metadata, self, &nonsense);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_F_TIMEOUT(chain_stress, stack_changes_while_it_is_read, MINUTES * 60)
{
	struct frame *frames = frames_map();

	ASSERT_TRUE(frames != NULL);
	ASSERT_EQ(0, frames_changer_begin(&changer, frames));
	sample_kind(_metadata, self, &changes);
	ASSERT_EQ(0, frames_changer_end(&changer));
	frames_unmap(frames);
	expect_no_leaks(_metadata, &self->leaks);
}

/* The stack of a handler: the thread's stack, or another stack at lower or at higher addresses. */
enum handler_stack { THREAD_STACK, LOWER_STACK, HIGHER_STACK, PLACES };

#define STACK	(256 * 1024)

struct handler_case {
	struct chain_run i;
	unsigned char *stacks;
	enum handler_stack place;
	__u64 wanted;
};

static void *sample_handler(void *data)
{
	struct handler_case *t = data;
	struct sigaction action = { .sa_handler = signal_handler, .sa_flags = SA_ONSTACK };
	stack_t stack = {
		.ss_sp = t->stacks + (t->place == HIGHER_STACK ? 2 * STACK : 0),
		.ss_size = STACK,
	};

	if (sigaction(SIGUSR1, &action, NULL) ||
	    (t->place != THREAD_STACK && sigaltstack(&stack, NULL)))
		t->i.err = -errno;
	else
		sample_chains(&t->i, &handler, t->wanted);
	return NULL;
}

TEST_F_TIMEOUT(chain_stress, chain_of_a_signal_handler_contains_what_it_interrupts, MINUTES * 60)
{
	static struct handler_case t;
	pthread_attr_t attr;
	pthread_t thread;

	ASSERT_EQ(0, pthread_attr_init(&attr));
	for (t.place = 0; t.place < PLACES; t.place++) {
		t.stacks = map_shared(_metadata, 3 * STACK);
		t.i = (struct chain_run) { .random = &self->random };
		t.i.c.cut = t.place == HIGHER_STACK;
		t.wanted = wanted_chains(self, &handler) / PLACES + 1;
		ASSERT_EQ(0, pthread_attr_setstack(&attr, t.stacks + STACK, STACK));
		ASSERT_EQ(0, pthread_create(&thread, &attr, sample_handler, &t));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		expect_right(_metadata, &t.i, &handler, t.wanted);
		munmap(t.stacks, 3 * STACK);
	}
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_HARNESS_MAIN
