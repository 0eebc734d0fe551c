// SPDX-License-Identifier: GPL-2.0-only
/*
 * Accounting of the memory that programs pin, in the counters that perf uses for
 * its buffers: a limit applies to the sum of both.
 */
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>

#include "perfmon_shim.h"

/* Returns the counter of the pages that a user has within perf_event_mlock_kb. */
static atomic_long_t *perf_pages(struct user_struct *user)
{
#ifdef LINUX_7_2
	return &user->locked_vm;
#else
	return &user->perf_mlock;
#endif
}

int perfmon_charge(struct perfmon_charge *charge, u32 pages, u32 user_kb)
{
	long user_limit = (user_kb >> (PAGE_SHIFT - 10)) * (long)num_online_cpus();
	long mm_limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct user_struct *user = current_user();
	struct mm_struct *mm = current->mm;
	long user_old, user_pages, mm_pages;
	s64 mm_old;

	/* perf checks the limit before it adds pages, so user_old may exceed the limit. */
	user_old = atomic_long_read(perf_pages(user));
	do {
		user_pages = clamp(user_limit - user_old, 0L, (long)pages);
	} while (!atomic_long_try_cmpxchg(perf_pages(user), &user_old,
					  user_old + user_pages));

	mm_pages = pages - user_pages;
	mm_old = atomic64_read(&mm->pinned_vm);
	do {
		if (mm_pages && mm_old + mm_pages > mm_limit &&
		    !capable(CAP_IPC_LOCK)) {
			atomic_long_sub(user_pages, perf_pages(user));
			return -EPERM;
		}
	} while (!atomic64_try_cmpxchg(&mm->pinned_vm, &mm_old,
				       mm_old + mm_pages));

	mmgrab(mm);
	*charge = (struct perfmon_charge) {
		.user = get_uid(user),
		.mm = mm,
		.user_pages = user_pages,
		.mm_pages = mm_pages,
	};
	return 0;
}

void perfmon_uncharge(const struct perfmon_charge *charge)
{
	atomic_long_sub(charge->user_pages, perf_pages(charge->user));
	atomic64_sub(charge->mm_pages, &charge->mm->pinned_vm);
	free_uid(charge->user);
	mmdrop(charge->mm);
}
