/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SELFTESTS_TSC_H
#define SELFTESTS_TSC_H

#include <stdbool.h>

/**
 * tsc_mhz() - the frequency of the time-stamp counter, as the kernel measured it
 *
 * Return: MHz, rounded down; 0 if the kernel could not measure it, which happens
 * in a virtual machine on a busy host; or a negative errno.
 */
int tsc_mhz(void);

/*
 * Returns whether PMIOTSTAMP may have the result @err if tsc_mhz() has returned @mhz. If @mhz is 0,
 * success and -ENOTTY are allowed: the kernel may have measured the frequency later, without a
 * message, or its message was overwritten.
 */
bool tsc_allows(int mhz, int err);

#endif
