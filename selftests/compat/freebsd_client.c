// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program for FreeBSD's perfmon(4) that uses every name of the interface: calls, structures,
 * flags and events. It includes FreeBSD's headers, which -I replaces by ours.
 *
 * Prints the number of instructions that it has executed in user mode in 1,000,000 iterations of
 * a loop.
 */
#include <sys/cdefs.h>
#include <sys/types.h>
#include <sys/ioccom.h>
#include <sys/ioctl.h>

#include <machine/cpu.h>
#include <machine/perfmon.h>

#include <assert.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define EVENT(name, number)	static_assert(name == number, #name)
#include "freebsd_events.h"

static_assert(NPMC >= 2, "every processor that FreeBSD's driver knew has two");
static_assert(PMCF_SYS_FLAGS == (PMCF_INT | PMCF_EN), "the driver's flags");
static_assert((PMCF_USR | PMCF_OS | PMCF_E | PMCF_PC | PMCF_INT | PMCF_EN |
	       PMCF_INV) == 0xdf, "one bit each");

static void	fail(const char *, ...) __dead2 __printflike(1, 2);
static u_int	event_select(u_char, u_char, u_char, u_char) __pure2;

static void
fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	verrx(1, format, args);
}

static u_int
event_select(u_char event, u_char unit, u_char flags, u_char mask)
{
	return event | unit << 8 | flags << 16 | (u_int)mask << 24;
}

/* Makes the call @command with @arg. Ends the program if the call fails. */
static void
call(int fd, unsigned long command, const char *name, void *arg)
{
	if (ioctl(fd, command, arg) < 0)
		err(1, "%s", name);
}
#define CALL(fd, command, arg)	call(fd, command, #command, arg)

/* Expects that a counter does not exist. */
static void
refuse_number(int fd, int num)
{
	struct pmc pmc;

	memset(&pmc, 0, sizeof(pmc));
	pmc.pmc_num = num;
	if (ioctl(fd, PMIOSETUP, &pmc) == 0 || errno != EINVAL)
		fail("PMIOSETUP of counter %d: %s", num, strerror(errno));
}

/* Checks that both names of each member of struct pmc refer to the same value. */
static void
check_members(struct pmc *pmc)
{
	u_char *event = &pmc->pmc_event, *unit = &pmc->pmc_unit;
	u_char *flags = &pmc->pmc_flags, *mask = &pmc->pmc_mask;
	u_int *val = &pmc->pmc_val;

	if (event != &pmc->pmc_pmcu.pmcu_s.pmcus_event ||
	    unit != &pmc->pmc_pmcu.pmcu_s.pmcus_unit ||
	    flags != &pmc->pmc_pmcu.pmcu_s.pmcus_flags ||
	    mask != &pmc->pmc_pmcu.pmcu_s.pmcus_mask ||
	    val != &pmc->pmc_pmcu.pmcu_val)
		fail("the members of struct pmc lie elsewhere");
	if (*val != event_select(*event, *unit, *flags, *mask))
		fail("the members of struct pmc are not pmc_val's bytes");
}

int
main(void)
{
	struct pmc pmc, got;
	struct pmc_data data;
	struct pmc_tstamp then, now;
	quad_t *value = &data.pmcd_value, *ticks = &now.pmct_value;
	unsigned long n = 1000000;
	int fd, num = 0, has_clock, *rate = &now.pmct_rate;

	fd = open(_PATH_PERFMON, O_RDWR);
	if (fd < 0)
		err(1, "open: " _PATH_PERFMON);
	/* In a virtual machine on a busy host, Linux may not know the frequency of the clock. */
	has_clock = ioctl(fd, PMIOTSTAMP, &then) == 0;
	if (!has_clock && errno != ENOTTY)
		err(1, "PMIOTSTAMP");
	refuse_number(fd, PMC_ALL);
	refuse_number(fd, NPMC);

	pmc.pmc_num = num;
	pmc.pmc_event = PMC6_INST_RETIRED;
	pmc.pmc_unit = 0;
	pmc.pmc_flags = PMCF_USR | PMCF_SYS_FLAGS;
	pmc.pmc_mask = 0;
	check_members(&pmc);
	CALL(fd, PMIOSETUP, &pmc);

	CALL(fd, PMIOSTART, &num);
	CALL(fd, PMIOSTOP, &num);
	data.pmcd_num = num;
	CALL(fd, PMIOREAD, &data);
	if (*value <= 0)
		fail("%lld instructions from start to stop", (long long)*value);
	CALL(fd, PMIORESET, &num);
	CALL(fd, PMIOREAD, &data);
	if (*value != 0)
		fail("%lld instructions behind PMIORESET", (long long)*value);

	CALL(fd, PMIOSTART, &num);
	__asm__ volatile("1:	dec	%0\n"
			 "	jnz	1b"
			 : "+r" (n) : : "cc");
	CALL(fd, PMIOSTOP, &num);

	got.pmc_num = num;
	CALL(fd, PMIOGET, &got);
	check_members(&got);
	if (got.pmc_event != PMC6_INST_RETIRED || got.pmc_flags != PMCF_USR)
		fail("PMIOGET: %#x", got.pmc_val);
	if (has_clock) {
		CALL(fd, PMIOTSTAMP, &now);
		if (*ticks <= then.pmct_value || *rate <= 0)
			fail("PMIOTSTAMP: %lld at %d MHz", (long long)*ticks, *rate);
	}

	CALL(fd, PMIOREAD, &data);
	printf("%lld\n", (long long)*value);
	return 0;
}
