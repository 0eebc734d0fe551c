// SPDX-License-Identifier: GPL-2.0-only
/*
 * Wakes the readers of a ring. An NMI can't wake them itself: it queues an irq_work.
 */
#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include <asm/tsc.h>

#include "perfmon_shim.h"

struct perfmon_wait {
	struct wait_queue_head queue;
	struct fasync_struct *signals;
	void (*on_last_overflow)(void);
	struct overflow *overflows;	/* one for each CPU; NULL without @on_last_overflow */
	struct list_head waker;		/* in perfmon_waker.waits, under its lock */
};

/*
 * The pending signal of one CPU. Each CPU has its own: tasks that inherit the event
 * overflow on several CPUs at once.
 */
struct overflow {
	struct irq_work work;
	struct perfmon_wait *wait;
	int band;			/* of the last overflow: POLL_IN or POLL_HUP */
};

/* Cycles that waking took in interrupts on each CPU, since perfmon_wake_cycles() was called. */
static DEFINE_PER_CPU(u64, wake_cycles);

u64 perfmon_wake_cycles(void)
{
	return this_cpu_xchg(wake_cycles, 0);
}

struct perfmon_waker {
	struct irq_work work;
	spinlock_t lock;
	struct list_head waits;
	atomic_t woken;			/* since the last perfmon_waker_consume_wakeup() */
};

static void notify_overflow(struct irq_work *work)
{
	struct overflow *overflow = container_of(work, typeof(*overflow), work);
	int band = READ_ONCE(overflow->band);
	u64 begin = rdtsc();

	if (band == POLL_HUP)
		overflow->wait->on_last_overflow();
	perfmon_wait_wake(overflow->wait, 0, band);
	this_cpu_add(wake_cycles, rdtsc() - begin);
}

/*
 * Does not use alloc_percpu(), which takes a mutex of the whole kernel: its
 * holder may be a task that hardly runs.
 */
static bool alloc_overflows(struct perfmon_wait *wait)
{
	unsigned int cpu;

	wait->overflows = kvcalloc(nr_cpu_ids, sizeof(*wait->overflows),
				   GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!wait->overflows)
		return false;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		init_irq_work(&wait->overflows[cpu].work, notify_overflow);
		wait->overflows[cpu].wait = wait;
	}
	return true;
}

struct perfmon_wait *perfmon_wait_new(void (*on_last_overflow)(void))
{
	struct perfmon_wait *wait = kzalloc(sizeof(*wait), GFP_KERNEL_ACCOUNT);

	if (!wait)
		return NULL;
	init_waitqueue_head(&wait->queue);
	INIT_LIST_HEAD(&wait->waker);
	if (on_last_overflow && !alloc_overflows(wait)) {
		kfree(wait);
		return NULL;
	}
	wait->on_last_overflow = on_last_overflow;
	return wait;
}

void perfmon_wait_sync(struct perfmon_wait *wait)
{
	unsigned int cpu;

	if (!wait->overflows)
		return;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		irq_work_sync(&wait->overflows[cpu].work);
}

void perfmon_wait_free(struct perfmon_wait *wait)
{
	kvfree(wait->overflows);
	kfree(wait);
}

void perfmon_wait_poll(struct perfmon_wait *wait, struct file *file,
		       struct poll_table_struct *table)
{
	poll_wait(file, &wait->queue, table);
}

int perfmon_wait_signal(struct perfmon_wait *wait, int fd, struct file *file,
			int on)
{
	int err = fasync_helper(fd, file, on, &wait->signals);

	return err < 0 ? err : 0;
}

void perfmon_wait_wake(struct perfmon_wait *wait, u32 events, int band)
{
	if (events)
		wake_up_poll(&wait->queue, (__force __poll_t)events);
	if (band)
		kill_fasync(&wait->signals, SIGIO, band);
}

void perfmon_wait_overflow(struct perfmon_wait *wait, int band)
{
	struct overflow *overflow;

	if (!wait->overflows)
		return;
	overflow = &wait->overflows[smp_processor_id()];
	WRITE_ONCE(overflow->band, band);
	irq_work_queue(&overflow->work);
}

static void wake_all(struct irq_work *work)
{
	struct perfmon_waker *waker = container_of(work, typeof(*waker), work);
	struct perfmon_wait *wait;
	u64 begin = rdtsc();
	unsigned long flags;

	/*
	 * The flag is set here and not in perfmon_waker_wake(), which an NMI may call
	 * while it interrupts the writing of another record. Until that record is
	 * complete, the NMI's own record can't be read. Records are written with
	 * interrupts off, so this interrupt runs after both are complete.
	 */
	atomic_set(&waker->woken, 1);
	spin_lock_irqsave(&waker->lock, flags);
	list_for_each_entry(wait, &waker->waits, waker)
		perfmon_wait_wake(wait, EPOLLIN | EPOLLRDNORM, 0);
	spin_unlock_irqrestore(&waker->lock, flags);
	this_cpu_add(wake_cycles, rdtsc() - begin);
}

struct perfmon_waker *perfmon_waker_new(void)
{
	struct perfmon_waker *waker = kzalloc(sizeof(*waker), GFP_KERNEL_ACCOUNT);

	if (waker) {
		init_irq_work(&waker->work, wake_all);
		spin_lock_init(&waker->lock);
		INIT_LIST_HEAD(&waker->waits);
	}
	return waker;
}

void perfmon_waker_free(struct perfmon_waker *waker)
{
	irq_work_sync(&waker->work);
	kfree(waker);
}

void perfmon_waker_add(struct perfmon_waker *waker, struct perfmon_wait *wait)
{
	unsigned long flags;

	spin_lock_irqsave(&waker->lock, flags);
	list_add(&wait->waker, &waker->waits);
	spin_unlock_irqrestore(&waker->lock, flags);
}

void perfmon_waker_remove(struct perfmon_waker *waker, struct perfmon_wait *wait)
{
	unsigned long flags;

	spin_lock_irqsave(&waker->lock, flags);
	list_del_init(&wait->waker);
	spin_unlock_irqrestore(&waker->lock, flags);
}

void perfmon_waker_wake(struct perfmon_waker *waker)
{
	irq_work_queue(&waker->work);
}

/*
 * Pairs with atomic_set() in wake_all(). A reader adds its wait to the list before it
 * calls this: the reader sees @woken set, or wake_all() finds the wait in the list.
 */
bool perfmon_waker_consume_wakeup(struct perfmon_waker *waker)
{
	return atomic_xchg(&waker->woken, 0);
}
