// SPDX-License-Identifier: GPL-2.0-only
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "device.h"
#include "loop.h"

/* CPUID.80000001H:ECX[23], "PerfCtrExtCore" (AMD APM, volume 3, appendix E) */
#define CPUID_PERFCTR_EXT_CORE	(1U << 23)

static bool cpuid_shows_pmu(void)
{
	unsigned int eax, ebx, ecx, edx;

	/* Architectural performance monitoring: its version is EAX[7:0]. */
	if (__get_cpuid(0xa, &eax, &ebx, &ecx, &edx) && (eax & 0xff))
		return true;
	return __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) &&
	       (ecx & CPUID_PERFCTR_EXT_CORE);
}

bool pmu_expected(void)
{
	return access(_PATH_PERFMON, F_OK) == 0 || cpuid_shows_pmu();
}

int device_open(int flags)
{
	int fd = open(_PATH_PERFMON, flags | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int device_ioctl(int fd, unsigned int cmd, void *arg)
{
	return ioctl(fd, cmd, arg) < 0 ? -errno : 0;
}

int device_properties(int fd, struct perfmon_properties *p)
{
	return device_ioctl(fd, IOCTL_PERFMON_GET_PROPERTIES, p);
}

int machine_properties(struct perfmon_properties *p)
{
	int fd = device_open(O_RDONLY), err;

	if (fd < 0)
		return fd;
	err = device_properties(fd, p);
	close(fd);
	return err;
}

int pmc_setup(int fd, int num, __u8 event, __u8 flags)
{
	struct pmc pmc = {
		.pmc_num = num,
		.pmc_event = event,
		.pmc_flags = flags,
	};

	return device_ioctl(fd, PMIOSETUP, &pmc);
}

int pmc_setup_instructions(int fd, int num, __u8 flags)
{
	return pmc_setup(fd, num, num < PMC_FIXED(0) ? EVENT_INSTRUCTIONS : 0,
			 flags);
}

int pmc_setup2(int fd, int num, __u64 select)
{
	struct pmc2 pmc = { .pmc2_num = num, .pmc2_select = select };

	return device_ioctl(fd, PMIOSETUP2, &pmc);
}

int pmc_start(int fd, int num)
{
	return device_ioctl(fd, PMIOSTART, &num);
}

int pmc_stop(int fd, int num)
{
	return device_ioctl(fd, PMIOSTOP, &num);
}

int pmc_reset(int fd, int num)
{
	return device_ioctl(fd, PMIORESET, &num);
}

int pmc_get(int fd, int num, struct pmc *pmc)
{
	*pmc = (struct pmc) { .pmc_num = num };
	return device_ioctl(fd, PMIOGET, pmc);
}

int pmc_get2(int fd, int num, __u64 *select)
{
	struct pmc2 pmc = { .pmc2_num = num };
	int err = device_ioctl(fd, PMIOGET2, &pmc);

	if (!err)
		*select = pmc.pmc2_select;
	return err;
}

int pmc_read(int fd, int num, __s64 *value)
{
	struct pmc_data data = { .pmcd_num = num };
	int err = device_ioctl(fd, PMIOREAD, &data);

	if (!err)
		*value = data.pmcd_value;
	return err;
}

__s64 pmc_value(int fd, int num)
{
	__s64 value;
	int err = pmc_read(fd, num, &value);

	return err ? err : value;
}

__s64 pmc_value_on(int fd, int num, int cpu)
{
	struct pmc_cpu_data data = {
		.pmcc_num = num,
		.pmcc_first_cpu = cpu,
		.pmcc_count = 1,
	};
	int err = device_ioctl(fd, PMIOREADCPU, &data);

	return err ? err : data.pmcc_value[0];
}

int pmc_count_loop(int fd, int num, unsigned long n)
{
	int err = pmc_start(fd, num);

	if (err)
		return err;
	loop(n);
	return pmc_stop(fd, num);
}

__s64 pmc_loop_count(int fd, int num, unsigned long n)
{
	int err = pmc_reset(fd, num);

	if (!err)
		err = pmc_count_loop(fd, num, n);
	return err ? err : pmc_value(fd, num);
}
