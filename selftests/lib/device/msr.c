// SPDX-License-Identifier: GPL-2.0-only
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu.h"
#include "msr.h"

/* IA32_APIC_BASE (Intel SDM, volume 3A, section 11.12.1) */
#define APICBASE_X2APIC		(1ULL << 10)
#define APICBASE_ADDRESS	0xffffff000ULL

/* Offsets of registers of the local APIC (table 11-1), and the size of their page */
#define APIC_ID			0x020
#define APIC_ICR		0x300
#define APIC_ICR_HIGH		0x310
#define APIC_LVTPC		0x340
#define APIC_SIZE		0x1000
/* Delivery mode NMI, level asserted, to the APIC in ICR_HIGH. */
#define ICR_NMI			(4U << 8 | 1U << 14)

/* CPUID.80000001H:ECX[23] and CPUID.80000022H:EAX[0] */
#define PERFCTR_EXT_CORE	(1U << 23)
#define PERFMON_V2		(1U << 0)

static const struct pmu_registers intel_v1 = {
	.select0 = MSR_IA32_PERFEVTSEL0,
	.counter0 = MSR_IA32_PMC0,
	.step = 1,
};

static const struct pmu_registers intel = {
	.select0 = MSR_IA32_PERFEVTSEL0,
	.counter0 = MSR_IA32_PMC0,
	.step = 1,
	.global_ctrl = MSR_IA32_PERF_GLOBAL_CTRL,
	.global_status = MSR_IA32_PERF_GLOBAL_STATUS,
};

static const struct pmu_registers amd_legacy = {
	.select0 = MSR_AMD_PERF_CTL0_LEGACY,
	.counter0 = MSR_AMD_PERF_CTR0_LEGACY,
	.step = 1,
};

static const struct pmu_registers amd_ext = {
	.select0 = MSR_AMD_PERF_CTL0,
	.counter0 = MSR_AMD_PERF_CTR0,
	.step = 2,
};

static const struct pmu_registers amd_v2 = {
	.select0 = MSR_AMD_PERF_CTL0,
	.counter0 = MSR_AMD_PERF_CTR0,
	.step = 2,
	.global_ctrl = MSR_AMD_PERF_GLOBAL_CTL,
	.global_status = MSR_AMD_PERF_GLOBAL_STATUS,
};

const struct pmu_registers *pmu_registers(void)
{
	unsigned int eax, ebx, ecx, edx;

	/* Only Intel has leaf 0AH. On AMD the leaf is reserved, and reads as zeros. */
	if (__get_cpuid(0xa, &eax, &ebx, &ecx, &edx) && (eax & 0xff))
		return (eax & 0xff) >= 2 ? &intel : &intel_v1;
	if (__get_cpuid(0x80000022, &eax, &ebx, &ecx, &edx) &&
	    (eax & PERFMON_V2))
		return &amd_v2;
	if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) &&
	    (ecx & PERFCTR_EXT_CORE))
		return &amd_ext;
	return &amd_legacy;
}

/* AMD APM, volume 2, section 13.2.1: bits 11:8 of an event number */
#define EVENT_HIGH		(0xfULL << 32)
/* Intel SDM, volume 2A, "CPUID", leaf 23H, subleaf 0: bits of EBX */
#define HAS_UMASK2		(1U << 0)
#define EVNTSEL_UMASK2		(0xffULL << 40)
#define HAS_EQ			(1U << 1)
#define EVNTSEL_EQ		(1ULL << 36)

__u64 pmu_select_bits(void)
{
	unsigned int eax, ebx, ecx, edx;
	__u64 bits = 0xffffffff;

	if (pmu_registers()->select0 != MSR_IA32_PERFEVTSEL0)
		return bits | EVENT_HIGH;
	if (!__get_cpuid_count(0x23, 0, &eax, &ebx, &ecx, &edx))
		return bits;
	return bits | (ebx & HAS_UMASK2 ? EVNTSEL_UMASK2 : 0) | (ebx & HAS_EQ ? EVNTSEL_EQ : 0);
}

static int msr_open(int cpu, int flags)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/cpu/%d/msr", cpu);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int msr_read(int cpu, __u32 msr, __u64 *value)
{
	int fd = msr_open(cpu, O_RDONLY);
	int err = 0;

	if (fd < 0)
		return fd;
	if (pread(fd, value, sizeof(*value), msr) != sizeof(*value))
		err = -errno;
	close(fd);
	return err;
}

int msr_write(int cpu, __u32 msr, __u64 value)
{
	int fd = msr_open(cpu, O_WRONLY);
	int err = 0;

	if (fd < 0)
		return fd;
	if (pwrite(fd, &value, sizeof(value), msr) != sizeof(value))
		err = -errno;
	close(fd);
	return err;
}

void msr_mark(void)
{
	__u64 unused;
	int err = msr_read(0, MSR_IA32_PERF_GLOBAL_STATUS_SET, &unused);

	if (err)
		fprintf(stderr, "/dev/cpu/0/msr: %s\n", strerror(-err));
}

/*
 * Pins the thread to @cpu and maps its local APIC. Returns the address, NULL in x2APIC
 * mode, or MAP_FAILED with errno.
 */
static char *apic_map(int cpu)
{
	char *apic;
	__u64 base;
	int fd, err;

	err = msr_read(cpu, MSR_IA32_APICBASE, &base);
	if (!err)
		err = pin_to_cpu(cpu);
	if (err) {
		errno = -err;
		return MAP_FAILED;
	}
	if (base & APICBASE_X2APIC)
		return NULL;
	fd = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
	if (fd < 0)
		return MAP_FAILED;
	apic = mmap(NULL, APIC_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    base & APICBASE_ADDRESS);
	close(fd);
	return apic;
}

static __u32 apic_get(const char *apic, unsigned int offset)
{
	return __atomic_load_n((const __u32 *)(apic + offset), __ATOMIC_RELAXED);
}

static void apic_set(char *apic, unsigned int offset, __u32 value)
{
	__atomic_store_n((__u32 *)(apic + offset), value, __ATOMIC_RELAXED);
}

int lvtpc_read(int cpu, __u32 *value)
{
	char *apic = apic_map(cpu);
	__u64 msr;
	int err;

	if (apic == MAP_FAILED)
		return -errno;
	if (!apic) {
		err = msr_read(cpu, MSR_IA32_X2APIC_LVT_PMI, &msr);
		*value = err ? 0 : msr;
		return err;
	}
	*value = apic_get(apic, APIC_LVTPC);
	munmap(apic, APIC_SIZE);
	return 0;
}

int lvtpc_write(int cpu, __u32 value)
{
	char *apic = apic_map(cpu);

	if (apic == MAP_FAILED)
		return -errno;
	if (!apic)
		return msr_write(cpu, MSR_IA32_X2APIC_LVT_PMI, value);
	apic_set(apic, APIC_LVTPC, value);
	munmap(apic, APIC_SIZE);
	return 0;
}

int nmi_send(int cpu)
{
	char *apic = apic_map(cpu);
	__u64 id;
	int err;

	if (apic == MAP_FAILED)
		return -errno;
	if (!apic) {
		err = msr_read(cpu, MSR_IA32_X2APIC_APICID, &id);
		return err ? err : msr_write(cpu, MSR_IA32_X2APIC_ICR,
					     id << 32 | ICR_NMI);
	}
	apic_set(apic, APIC_ICR_HIGH, apic_get(apic, APIC_ID));
	apic_set(apic, APIC_ICR, ICR_NMI);
	munmap(apic, APIC_SIZE);
	return 0;
}
