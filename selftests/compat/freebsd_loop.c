// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program for FreeBSD's perfmon(4) that uses nothing of Linux. It includes FreeBSD's headers,
 * which -I replaces by ours.
 *
 * Prints the number of instructions that it has executed in user mode between PMIOSTART and
 * PMIOSTOP: 2 for each of the 1,000,000 iterations, and the instructions of the calls.
 */
#include <sys/types.h>
#include <sys/ioctl.h>

#include <machine/cpu.h>
#include <machine/perfmon.h>

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
main(void)
{
	struct pmc pmc;
	struct pmc_data data;
	unsigned long n = 1000000;
	int fd, num = 0;

	fd = open(_PATH_PERFMON, O_RDWR);
	if (fd < 0)
		err(1, "%s", _PATH_PERFMON);

	memset(&pmc, 0, sizeof(pmc));
	pmc.pmc_num = num;
	pmc.pmc_event = 0xc0;
	pmc.pmc_flags = PMCF_USR;
	if (ioctl(fd, PMIOSETUP, &pmc) < 0)
		err(1, "PMIOSETUP");
	if (ioctl(fd, PMIOSTART, &num) < 0)
		err(1, "PMIOSTART");

	__asm__ volatile("1:	dec	%0\n"
			 "	jnz	1b"
			 : "+r" (n) : : "cc");

	if (ioctl(fd, PMIOSTOP, &num) < 0)
		err(1, "PMIOSTOP");
	data.pmcd_num = num;
	if (ioctl(fd, PMIOREAD, &data) < 0)
		err(1, "PMIOREAD");
	printf("%lld\n", (long long)data.pmcd_value);
	return 0;
}
