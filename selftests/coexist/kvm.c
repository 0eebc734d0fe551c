// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest of KVM on a CPU that counts. The guest's instructions count for the thread of its virtual
 * CPU, each once and in the guest's mode, even while the guest is interrupted, moves between CPUs,
 * or is sampled. perf can count before and afterwards.
 *
 * Needs /dev/kvm, as a machine with `--cpu amd,svm=on,npt=on` has it with kvm-amd.ko (scripts/test-kvm).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/kvm.h>

#include "cpu.h"
#include "device.h"
#include "event.h"
#include "fixture.h"
#include "idle.h"
#include "samples.h"
#include "trace.h"
#include "trace_fixture.h"

/* Iterations of the guest's loop, and the instructions of each. */
#define N		2000000UL
#define GUEST_INSNS	2UL

#define PAGE		0x1000UL
/* The port to which the guest writes at the end of its loop. */
#define PORT		0x10

/* loop: dec %ecx; jnz loop; out %al, $PORT; in 32 bits */
static const __u8 code[] = { 0x49, 0x75, 0xfd, 0xe6, PORT };

/* A virtual machine with one virtual CPU and one page of memory, at PAGE. */
struct guest {
	int kvm, vm, vcpu;
	struct kvm_run *run;
	size_t run_size;
	void *memory;
};

static void fill_segment(struct kvm_segment *segment, __u16 selector, __u8 type, __u8 ring)
{
	*segment = (struct kvm_segment){
		.limit = 0xffffffff, .selector = selector | ring, .present = 1, .type = type,
		.dpl = ring, .db = 1, .s = 1, .g = 1,
	};
}

/* Makes a guest of flat 32-bit code that runs in a ring, 0 or 3. */
static void guest_start(struct __test_metadata *_metadata, struct guest *guest, __u8 ring)
{
	/* Any ring may use ports. */
	struct kvm_regs regs = { .rip = PAGE, .rflags = 2 | 3 << 12 };
	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = PAGE, .memory_size = PAGE,
	};
	struct kvm_sregs sregs;

	guest->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, guest->kvm);
	guest->vm = ioctl(guest->kvm, KVM_CREATE_VM, 0);
	ASSERT_LE(0, guest->vm);
	guest->memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, guest->memory);
	memcpy(guest->memory, code, sizeof(code));
	region.userspace_addr = (__u64)(uintptr_t)guest->memory;
	ASSERT_EQ(0, ioctl(guest->vm, KVM_SET_USER_MEMORY_REGION, &region));
	guest->vcpu = ioctl(guest->vm, KVM_CREATE_VCPU, 0);
	ASSERT_LE(0, guest->vcpu);
	guest->run_size = ioctl(guest->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	guest->run = mmap(NULL, guest->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, guest->vcpu, 0);
	ASSERT_NE(MAP_FAILED, guest->run);
	ASSERT_EQ(0, ioctl(guest->vcpu, KVM_GET_SREGS, &sregs));
	fill_segment(&sregs.cs, 0x18, 0xb, ring);
	fill_segment(&sregs.ss, 0x20, 0x3, ring);
	sregs.ds = sregs.ss;
	sregs.es = sregs.ss;
	sregs.cr0 |= 1;
	ASSERT_EQ(0, ioctl(guest->vcpu, KVM_SET_SREGS, &sregs));
	ASSERT_EQ(0, ioctl(guest->vcpu, KVM_SET_REGS, &regs));
}

static void guest_end(struct guest *guest)
{
	munmap(guest->run, guest->run_size);
	close(guest->vcpu);
	close(guest->vm);
	close(guest->kvm);
	munmap(guest->memory, PAGE);
}

/* Lets the guest execute @n iterations of its loop. */
static void guest_loop(struct __test_metadata *_metadata, struct guest *guest, __u32 n)
{
	struct kvm_regs regs;

	ASSERT_EQ(0, ioctl(guest->vcpu, KVM_GET_REGS, &regs));
	regs.rip = PAGE;
	regs.rcx = n;
	ASSERT_EQ(0, ioctl(guest->vcpu, KVM_SET_REGS, &regs));
	/* Repeats the call, since a signal or a tick may end it early. */
	do {
		int err = ioctl(guest->vcpu, KVM_RUN, 0) ? errno : 0;

		ASSERT_TRUE(err == 0 || err == EINTR);
	} while (guest->run->exit_reason == KVM_EXIT_INTR);
	ASSERT_EQ((__u32)KVM_EXIT_IO, guest->run->exit_reason);
	ASSERT_EQ(PORT, guest->run->io.port);
	ASSERT_EQ(0, ioctl(guest->vcpu, KVM_GET_REGS, &regs));
	ASSERT_EQ(0ULL, regs.rcx);
}

FIXTURE(kvm)
{
	struct guest guest;
};

FIXTURE_VARIANT(kvm)
{
	__u8 ring;
};

FIXTURE_VARIANT_ADD(kvm, user_mode) { 3 };
FIXTURE_VARIANT_ADD(kvm, kernel_mode) { 0 };

FIXTURE_SETUP(kvm)
{
	SKIP_WITHOUT_PMU();
	if (access("/dev/kvm", R_OK | W_OK))
		SKIP(return, "this machine has no /dev/kvm");
	ASSERT_EQ(0, wait_until_idle());
	guest_start(_metadata, &self->guest, variant->ring);
}

FIXTURE_TEARDOWN(kvm)
{
	guest_end(&self->guest);
}

/* Returns the growth of an event's count while the guest executes @n iterations. */
static __s64 count_guest(struct __test_metadata *_metadata, struct guest *guest, int fd, __u32 n)
{
	__s64 before = event_count(fd);

	guest_loop(_metadata, guest, n);
	return event_count(fd) - before;
}

/* Expects the difference between the counts of N iterations and of one, in user mode. */
#define EXPECT_ITERATIONS(one, all)	\
	EXPECT_EQ(variant->ring ? (__s64)(GUEST_INSNS * (N - 1)) : 0, (all) - (one))

TEST_F(kvm, guest_is_counted_for_its_thread)
{
	struct perf_event_attr attr = event_instructions();
	__s64 one, all;
	int fd;

	attr.disabled = 0;
	/* Sets a flag without effect here: the tool perf sets it for each event. */
	attr.exclude_guest = 1;
	fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	count_guest(_metadata, &self->guest, fd, 1);
	one = count_guest(_metadata, &self->guest, fd, 1);
	all = count_guest(_metadata, &self->guest, fd, N);
	TH_LOG("user mode: %lld with 1 iteration, %lld with %lu", one, all, N);
	EXPECT_ITERATIONS(one, all);
	close(fd);

	attr.exclude_kernel = 0;
	fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	all = count_guest(_metadata, &self->guest, fd, N);
	TH_LOG("both modes: %lld", all);
	EXPECT_LE((__s64)(GUEST_INSNS * N), all);
	close(fd);
}

/*
 * Without exclude_guest, perf counts guests, too. perf counts the same before and after the module
 * has counted.
 */
TEST_F(kvm, module_and_perf_count_the_same)
{
	struct perf_event_attr attr = event_instructions();
	const struct event_maker *makers[] = {
		&event_maker_perf, &event_maker_perfmon, &event_maker_perf,
	};
	__s64 one, all;
	int fd, i;

	attr.disabled = 0;
	for (i = 0; i < 3; i++) {
		ASSERT_TRUE(event_wait_until_possible(makers[i], NULL));
		fd = makers[i]->open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, fd);
		count_guest(_metadata, &self->guest, fd, 1);
		one = count_guest(_metadata, &self->guest, fd, 1);
		all = count_guest(_metadata, &self->guest, fd, N);
		TH_LOG("%s: %lld with 1 iteration, %lld with %lu", makers[i]->name, one, all, N);
		EXPECT_ITERATIONS(one, all);
		close(fd);
	}
}

/* While the guest runs, its thread is moved between the CPUs. */
TEST_F(kvm, guest_moves_between_cpus)
{
	struct perf_event_attr attr = event_instructions();
	const pid_t tid = gettid();
	cpu_set_t cpus, one_cpu;
	int fd, cpu = -1, status;
	__s64 one, all;
	pid_t mover;

	ASSERT_EQ(0, cpus_online(&cpus));
	if (CPU_COUNT(&cpus) < 2)
		SKIP(return, "there is one CPU");
	attr.disabled = 0;
	fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	count_guest(_metadata, &self->guest, fd, 1);
	one = count_guest(_metadata, &self->guest, fd, 1);
	mover = fork();
	ASSERT_LE(0, mover);
	if (!mover) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			cpu = cpu_next(&cpus, cpu);
			if (cpu < 0)
				continue;
			CPU_ZERO(&one_cpu);
			CPU_SET(cpu, &one_cpu);
			if (sched_setaffinity(tid, sizeof(one_cpu), &one_cpu))
				_exit(0);
			usleep(1000);
		}
	}
	all = count_guest(_metadata, &self->guest, fd, N);
	kill(mover, SIGKILL);
	ASSERT_EQ(mover, waitpid(mover, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_ITERATIONS(one, all);
	close(fd);
}

#define PERIOD	10007UL

/* The interrupts of samples leave the guest. None is lost. */
TEST_F(kvm, guest_is_sampled)
{
	struct perf_event_attr attr = event_every(PERIOD);
	struct sample_sums sums = SAMPLE_SUMS_INIT;
	__u64 count[2];
	struct sampler sampler;

	attr.read_format = PERF_FORMAT_LOST;
	/* For a guest in ring 0, kernel mode is counted, too. */
	attr.exclude_kernel = variant->ring == 3;
	ASSERT_EQ(0, sampler_open(&sampler, &event_maker_perfmon, &attr, 0, -1, 9));
	ASSERT_EQ(0, event_enable(sampler.fd));
	guest_loop(_metadata, &self->guest, N);
	ASSERT_EQ(0, event_disable(sampler.fd));
	ASSERT_EQ((ssize_t)sizeof(count), read(sampler.fd, count, sizeof(count)));
	sampler_read(&sampler, &sums, NULL, NULL);
	TH_LOG("count %llu, %lu samples, %llu lost", count[0], sums.samples, count[1]);
	EXPECT_FALSE(sums.malformed);
	EXPECT_LE(GUEST_INSNS * N, count[0]);
	EXPECT_LE(GUEST_INSNS * N / PERIOD, sums.samples + count[1]);
	EXPECT_GE(count[0] / PERIOD, sums.samples + count[1]);
	EXPECT_LT(0UL, sums.samples);
	sampler_close(&sampler);
}

/* The counting interface counts on all CPUs, so its count includes other programs. */
TEST_F(kvm, guest_is_counted_on_its_cpu)
{
	int fd = open_device(_metadata, O_RDWR);

	ASSERT_EQ(0, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, variant->ring ? PMCF_USR : PMCF_OS));
	ASSERT_EQ(0, pmc_start(fd, 0));
	guest_loop(_metadata, &self->guest, N);
	ASSERT_EQ(0, pmc_stop(fd, 0));
	EXPECT_LE((__s64)(GUEST_INSNS * N), pmc_value(fd, 0));
	close(fd);
}

TEST_F(kvm, guest_is_traced)
{
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, PERIOD, FLAG_PC | (variant->ring ? FLAG_USER : FLAG_OS));
	int cpu, fd = open_device(_metadata, O_RDWR);
	struct trace_sums sums;
	struct trace trace;

	cpu = trace_on_first_cpu(_metadata, &trace, fd, 1024);
	ASSERT_EQ(0, trace_stage(&trace, &config));
	ASSERT_EQ(0, trace_start(&trace));
	guest_loop(_metadata, &self->guest, N);
	ASSERT_EQ(0, trace_stop(&trace));
	ASSERT_STREQ("", trace_sum(&trace, cpu, &sums));
	EXPECT_EQ(0U, trace.buffer[cpu]->flags);
	EXPECT_LE(GUEST_INSNS * N, sums.event[0].total);
	EXPECT_LE(GUEST_INSNS * N / PERIOD, sums.event[0].ticks);
	trace_free(&trace);
	close(fd);
}

TEST_HARNESS_MAIN
