// SPDX-License-Identifier: GPL-2.0-only
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cpu.h"

int cpus_online(cpu_set_t *cpus)
{
	return sched_getaffinity(0, sizeof(*cpus), cpus) ? -errno : 0;
}

int pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

void switch_out(void)
{
	struct rusage before, after;

	getrusage(RUSAGE_THREAD, &before);
	do {
		usleep(1000);
		getrusage(RUSAGE_THREAD, &after);
	} while (after.ru_nvcsw == before.ru_nvcsw);
}

unsigned long thread_switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

int cpu_first(void)
{
	cpu_set_t cpus;
	int err = cpus_online(&cpus);

	return err ? err : cpu_next(&cpus, -1);
}

int pin_to_first_cpu(void)
{
	int cpu = cpu_first();
	int err = cpu < 0 ? cpu : pin_to_cpu(cpu);

	return err ? err : cpu;
}

int cpu_ids(void)
{
	/* A list like "0-3" or "0,2-3". */
	FILE *f = fopen("/sys/devices/system/cpu/possible", "r");
	int last = -1, separator;

	if (!f)
		return 0;
	do {
		if (fscanf(f, "%d", &last) != 1)
			last = -1;
		separator = fgetc(f);
	} while (last >= 0 && (separator == '-' || separator == ','));
	fclose(f);
	return last + 1;
}

int cpu_next(const cpu_set_t *set, int cpu)
{
	while (++cpu < CPU_SETSIZE) {
		if (CPU_ISSET(cpu, set))
			return cpu;
	}
	return -1;
}

int cpu_open_online(int cpu)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int cpu_set_online(int fd, const char *value)
{
	return pwrite(fd, value, 1, 0) == 1 ? 0 : -errno;
}

int cpu_find_hotpluggable(int *home, int *cpu, int *online)
{
	cpu_set_t cpus;
	int err = cpus_online(&cpus);

	if (err)
		return err;
	*home = cpu_next(&cpus, -1);
	*cpu = cpu_next(&cpus, *home);
	if (*cpu < 0)
		return -ENODEV;
	*online = cpu_open_online(*cpu);
	return *online < 0 ? *online : 0;
}

long long cpu_interrupts_of(const char *row, int n)
{
	FILE *f = fopen("/proc/interrupts", "r");
	char line[4096], name[16], *next, *end;
	long long sum = -1, count;
	int offset, i;

	if (!f)
		return -1;
	while (sum < 0 && fgets(line, sizeof(line), f)) {
		offset = 0;
		if (sscanf(line, " %15[^:]:%n", name, &offset) != 1 || !offset || strcmp(name, row))
			continue;
		next = line + offset;
		for (i = 0; ; i++, next = end) {
			count = strtoll(next, &end, 10);
			if (end == next)
				break;
			if (n < 0 || i == n)
				sum = (sum < 0 ? 0 : sum) + count;
		}
	}
	fclose(f);
	return sum;
}

long long cpu_nmis(void)
{
	return cpu_interrupts_of("NMI", 0);
}

long long cpu_interrupts(void)
{
	FILE *f = fopen("/proc/interrupts", "r");
	long long sum = 0, n;
	char line[4096];

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %lld", &n) == 1 && !strstr(line, "Non-maskable") &&
		    !strstr(line, "Performance monitoring"))
			sum += n;
	fclose(f);
	return sum;
}

bool cpu_is_skylake(void)
{
	unsigned int a, b, c, d;

	/* "Genu", and family 6, model 0x5e: CPUID, leaves 0 and 1 */
	return __get_cpuid(0, &a, &b, &c, &d) && b == 0x756e6547 &&
	       __get_cpuid(1, &a, &b, &c, &d) && (a & 0xfff0ff0) == 0x506e0;
}
