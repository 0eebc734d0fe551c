/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The module counts the machine, not a task. So an exact count needs a machine
 * on which nothing else executes instructions in user mode.
 */
#ifndef SELFTESTS_QUIET_H
#define SELFTESTS_QUIET_H

/**
 * wait_until_quiet() - wait until every other process sleeps
 *
 * What has been forked or has forked may still be on its way to the system
 * call in which it will wait, on another CPU. Kernel threads do not matter.
 *
 * Return: 0, or -ETIMEDOUT if some process never sleeps.
 */
int wait_until_quiet(void);

#endif
