// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "partner.h"

#define ROUNDS	1000

static pid_t partner;

pid_t partner_start(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	/* The policy is set before the fork, since a child inherits it. */
	if (sched_setscheduler(0, SCHED_RR, &first))
		return -errno;
	partner = fork();
	if (!partner) {
		raise(SIGSTOP);
		for (;;)
			sched_yield();
	}
	return partner < 0 ? -errno : partner;
}

void partner_continue(void)
{
	kill(partner, SIGCONT);
}

void partner_stop(void)
{
	kill(partner, SIGSTOP);
}

void partner_end(void)
{
	kill(partner, SIGKILL);
	waitpid(partner, NULL, 0);
}

void partner_yield(void)
{
	sched_yield();
}

unsigned long long partner_least_cost(void (*operation)(void))
{
	unsigned long long best = ~0ULL, begin, took;
	int i;

	partner_continue();
	sched_yield();
	for (i = 0; i < ROUNDS; i++) {
		begin = __rdtsc();
		operation();
		took = __rdtsc() - begin;
		if (took < best)
			best = took;
	}
	partner_stop();
	return best;
}
