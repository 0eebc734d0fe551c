/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SELFTESTS_TSC_H
#define SELFTESTS_TSC_H

/**
 * tsc_mhz() - the frequency of the time-stamp counter, as the kernel measured it
 *
 * Return: MHz, rounded down; 0 if the kernel could not measure it, which happens
 * in a virtual machine on a busy host; or a negative errno.
 */
int tsc_mhz(void);

#endif
