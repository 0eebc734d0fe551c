// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests every kind of refused call, with its errno. A refused call changes nothing.
 *
 * A variant is a command, the descriptor, the argument, and the expected result. Variants with
 * two errors show which error is checked first; the order is in the comment of linux/perfmon.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "loop.h"

/* The counters, by their state before each call. */
#define STOPPED	0	/* stopped, with a count */
#define RUNNING	1
#define UNUSED	2	/* never set up */

/* A placeholder for the lowest invalid number, which is the number of general counters. */
#define FIRST_BAD_NUMBER	(INT_MAX - 1)

enum argument_place {
	GOOD,		/* the argument is in readable, writable memory */
	READ_ONLY,	/* the argument can be copied in but not out */
	NONE,		/* a NULL pointer */
	UNMAPPED,
	STRADDLING,	/* the argument's last byte is not mapped */
	KERNEL,		/* an address of the kernel */
};

/* The arguments of all commands begin with the counter's number. */
union argument {
	int num;
	struct pmc pmc;
	struct pmc_data data;
	struct pmc_cpu_data cpu_data;
	struct pmc2 pmc2;
	struct pmc_tstamp tstamp;
	struct perfmon_properties properties;
};

FIXTURE(refused)
{
	int writer;
	int reader;
	long page_size;
	char *pages;		/* the second is not mapped */
	int counters;
	__s64 value;		/* count of counter STOPPED */
};

FIXTURE_VARIANT(refused)
{
	unsigned int cmd;
	int flags;		/* of the descriptor: O_RDONLY or O_RDWR */
	enum argument_place where;
	int num;
	__u8 pmc_flags;
	int err;
};

#define ROW(name) FIXTURE_VARIANT_ADD(refused, name)

/* 1. The command is unknown. */
ROW(unknown_number) { _IOW('5', 99, int), O_RDWR, GOOD, STOPPED, 0, ENOTTY };
ROW(unknown_letter) { _IOW('4', 2, int), O_RDWR, GOOD, STOPPED, 0, ENOTTY };
ROW(unknown_size) { _IOW('5', 2, __u64), O_RDWR, GOOD, STOPPED, 0, ENOTTY };
ROW(unknown_direction) { _IOR('5', 2, int), O_RDWR, GOOD, STOPPED, 0, ENOTTY };
ROW(unknown_no_argument) { _IO('5', 2), O_RDWR, GOOD, STOPPED, 0, ENOTTY };
ROW(unknown_trace_number) {
	_IOR('6', 99, struct perfmon_properties), O_RDWR, GOOD, STOPPED, 0, ENOTTY
};
ROW(unknown_before_write_access) {
	_IOW('5', 99, int), O_RDONLY, GOOD, STOPPED, 0, ENOTTY
};
ROW(unknown_before_pointer) {
	_IOW('5', 99, int), O_RDWR, NONE, STOPPED, 0, ENOTTY
};

/* 2. The descriptor is not open for writing. */
ROW(setup_read_only) { PMIOSETUP, O_RDONLY, GOOD, UNUSED, PMCF_USR, EPERM };
ROW(start_read_only) { PMIOSTART, O_RDONLY, GOOD, STOPPED, 0, EPERM };
ROW(stop_read_only) { PMIOSTOP, O_RDONLY, GOOD, RUNNING, 0, EPERM };
ROW(reset_read_only) { PMIORESET, O_RDONLY, GOOD, STOPPED, 0, EPERM };
ROW(setup2_read_only) { PMIOSETUP2, O_RDONLY, GOOD, UNUSED, PMCF_USR, EPERM };
ROW(setup_read_only_before_pointer) {
	PMIOSETUP, O_RDONLY, NONE, UNUSED, 0, EPERM
};
ROW(setup2_read_only_before_pointer) {
	PMIOSETUP2, O_RDONLY, NONE, UNUSED, 0, EPERM
};
ROW(start_read_only_before_pointer) {
	PMIOSTART, O_RDONLY, NONE, STOPPED, 0, EPERM
};
ROW(stop_read_only_before_number) { PMIOSTOP, O_RDONLY, GOOD, -1, 0, EPERM };
ROW(reset_read_only_before_number) {
	PMIORESET, O_RDONLY, GOOD, FIRST_BAD_NUMBER, 0, EPERM
};

/* 3. The argument can't be read. */
ROW(setup_null) { PMIOSETUP, O_RDWR, NONE, 0, 0, EFAULT };
ROW(start_null) { PMIOSTART, O_RDWR, NONE, 0, 0, EFAULT };
ROW(stop_null) { PMIOSTOP, O_RDWR, NONE, 0, 0, EFAULT };
ROW(reset_null) { PMIORESET, O_RDWR, NONE, 0, 0, EFAULT };
ROW(read_null) { PMIOREAD, O_RDWR, NONE, 0, 0, EFAULT };
ROW(get_null) { PMIOGET, O_RDWR, NONE, 0, 0, EFAULT };
ROW(readcpu_null) { PMIOREADCPU, O_RDWR, NONE, 0, 0, EFAULT };
ROW(setup2_null) { PMIOSETUP2, O_RDWR, NONE, 0, 0, EFAULT };
ROW(get2_null) { PMIOGET2, O_RDWR, NONE, 0, 0, EFAULT };
ROW(setup_unmapped) { PMIOSETUP, O_RDWR, UNMAPPED, 0, 0, EFAULT };
ROW(start_unmapped) { PMIOSTART, O_RDWR, UNMAPPED, 0, 0, EFAULT };
ROW(stop_unmapped) { PMIOSTOP, O_RDWR, UNMAPPED, 0, 0, EFAULT };
ROW(reset_unmapped) { PMIORESET, O_RDWR, UNMAPPED, 0, 0, EFAULT };
ROW(read_unmapped) { PMIOREAD, O_RDWR, UNMAPPED, 0, 0, EFAULT };
ROW(get_unmapped) { PMIOGET, O_RDWR, UNMAPPED, 0, 0, EFAULT };
ROW(readcpu_unmapped) { PMIOREADCPU, O_RDWR, UNMAPPED, 0, 0, EFAULT };
ROW(setup2_unmapped) { PMIOSETUP2, O_RDWR, UNMAPPED, 0, 0, EFAULT };
ROW(get2_unmapped) { PMIOGET2, O_RDWR, UNMAPPED, 0, 0, EFAULT };
ROW(setup_straddling) { PMIOSETUP, O_RDWR, STRADDLING, UNUSED, 0, EFAULT };
ROW(start_straddling) { PMIOSTART, O_RDWR, STRADDLING, STOPPED, 0, EFAULT };
ROW(stop_straddling) { PMIOSTOP, O_RDWR, STRADDLING, RUNNING, 0, EFAULT };
ROW(reset_straddling) { PMIORESET, O_RDWR, STRADDLING, STOPPED, 0, EFAULT };
ROW(read_straddling) { PMIOREAD, O_RDWR, STRADDLING, STOPPED, 0, EFAULT };
ROW(get_straddling) { PMIOGET, O_RDWR, STRADDLING, STOPPED, 0, EFAULT };
ROW(readcpu_straddling) { PMIOREADCPU, O_RDWR, STRADDLING, STOPPED, 0, EFAULT };
ROW(setup2_straddling) { PMIOSETUP2, O_RDWR, STRADDLING, UNUSED, 0, EFAULT };
ROW(get2_straddling) { PMIOGET2, O_RDWR, STRADDLING, STOPPED, 0, EFAULT };
ROW(setup_kernel_address) { PMIOSETUP, O_RDWR, KERNEL, 0, 0, EFAULT };
ROW(start_kernel_address) { PMIOSTART, O_RDWR, KERNEL, 0, 0, EFAULT };
ROW(stop_kernel_address) { PMIOSTOP, O_RDWR, KERNEL, 0, 0, EFAULT };
ROW(reset_kernel_address) { PMIORESET, O_RDWR, KERNEL, 0, 0, EFAULT };
ROW(read_kernel_address) { PMIOREAD, O_RDWR, KERNEL, 0, 0, EFAULT };
ROW(get_kernel_address) { PMIOGET, O_RDWR, KERNEL, 0, 0, EFAULT };
ROW(readcpu_kernel_address) { PMIOREADCPU, O_RDWR, KERNEL, 0, 0, EFAULT };
ROW(setup2_kernel_address) { PMIOSETUP2, O_RDWR, KERNEL, 0, 0, EFAULT };
ROW(get2_kernel_address) { PMIOGET2, O_RDWR, KERNEL, 0, 0, EFAULT };

/* 4 and 8. A flag is refused. */
ROW(setup_any_thread) {
	PMIOSETUP, O_RDWR, GOOD, UNUSED, PMCF_USR | PMCF_ANY, EINVAL
};
ROW(setup_pin_control) {
	PMIOSETUP, O_RDWR, GOOD, UNUSED, PMCF_USR | PMCF_PC, EINVAL
};
ROW(setup_any_thread_again) {
	PMIOSETUP, O_RDWR, GOOD, STOPPED, PMCF_ANY, EINVAL
};
ROW(setup_pin_control_running) {
	PMIOSETUP, O_RDWR, GOOD, RUNNING, PMCF_PC, EINVAL
};
ROW(setup2_any_thread) {
	PMIOSETUP2, O_RDWR, GOOD, UNUSED, PMCF_USR | PMCF_ANY, EINVAL
};
ROW(setup2_pin_control_running) {
	PMIOSETUP2, O_RDWR, GOOD, RUNNING, PMCF_PC, EINVAL
};

/* 5. The counter number is out of range. */
ROW(setup_minus_one) { PMIOSETUP, O_RDWR, GOOD, PMC_ALL, PMCF_USR, EINVAL };
ROW(start_minus_one) { PMIOSTART, O_RDWR, GOOD, PMC_ALL, 0, EINVAL };
ROW(stop_minus_one) { PMIOSTOP, O_RDWR, GOOD, PMC_ALL, 0, EINVAL };
ROW(reset_minus_one) { PMIORESET, O_RDWR, GOOD, PMC_ALL, 0, EINVAL };
ROW(read_minus_one) { PMIOREAD, O_RDWR, GOOD, PMC_ALL, 0, EINVAL };
ROW(get_minus_one) { PMIOGET, O_RDWR, GOOD, PMC_ALL, 0, EINVAL };
ROW(readcpu_minus_one) { PMIOREADCPU, O_RDWR, GOOD, PMC_ALL, 0, EINVAL };
ROW(setup2_minus_one) { PMIOSETUP2, O_RDWR, GOOD, PMC_ALL, PMCF_USR, EINVAL };
ROW(get2_minus_one) { PMIOGET2, O_RDWR, GOOD, PMC_ALL, 0, EINVAL };
ROW(setup_one_too_many) {
	PMIOSETUP, O_RDWR, GOOD, FIRST_BAD_NUMBER, PMCF_USR, EINVAL
};
ROW(start_one_too_many) {
	PMIOSTART, O_RDWR, GOOD, FIRST_BAD_NUMBER, 0, EINVAL
};
ROW(stop_one_too_many) { PMIOSTOP, O_RDWR, GOOD, FIRST_BAD_NUMBER, 0, EINVAL };
ROW(reset_one_too_many) {
	PMIORESET, O_RDWR, GOOD, FIRST_BAD_NUMBER, 0, EINVAL
};
ROW(read_one_too_many) { PMIOREAD, O_RDWR, GOOD, FIRST_BAD_NUMBER, 0, EINVAL };
ROW(get_one_too_many) { PMIOGET, O_RDWR, GOOD, FIRST_BAD_NUMBER, 0, EINVAL };
ROW(readcpu_one_too_many) {
	PMIOREADCPU, O_RDWR, GOOD, FIRST_BAD_NUMBER, 0, EINVAL
};
ROW(setup2_one_too_many) {
	PMIOSETUP2, O_RDWR, GOOD, FIRST_BAD_NUMBER, PMCF_USR, EINVAL
};
ROW(get2_one_too_many) { PMIOGET2, O_RDWR, GOOD, FIRST_BAD_NUMBER, 0, EINVAL };
ROW(setup_npmc) { PMIOSETUP, O_RDWR, GOOD, NPMC, PMCF_USR, EINVAL };
ROW(setup_largest) { PMIOSETUP, O_RDWR, GOOD, INT_MAX, PMCF_USR, EINVAL };
ROW(start_smallest) { PMIOSTART, O_RDWR, GOOD, INT_MIN, 0, EINVAL };
ROW(setup_no_such_fixed) {
	PMIOSETUP, O_RDWR, GOOD, PMC_FIXED(63), PMCF_USR, EINVAL
};
ROW(read_no_such_fixed) { PMIOREAD, O_RDWR, GOOD, PMC_FIXED(63), 0, EINVAL };
ROW(read_below_fixed) { PMIOREAD, O_RDWR, GOOD, PMC_FIXED(-1), 0, EINVAL };

/* Calls that need no write access: the counter number is checked first. */
ROW(read_reader_one_too_many) {
	PMIOREAD, O_RDONLY, GOOD, FIRST_BAD_NUMBER, 0, EINVAL
};
ROW(get_reader_one_too_many) {
	PMIOGET, O_RDONLY, GOOD, FIRST_BAD_NUMBER, 0, EINVAL
};
ROW(readcpu_reader_one_too_many) {
	PMIOREADCPU, O_RDONLY, GOOD, FIRST_BAD_NUMBER, 0, EINVAL
};
ROW(get2_reader_one_too_many) {
	PMIOGET2, O_RDONLY, GOOD, FIRST_BAD_NUMBER, 0, EINVAL
};

/* 7. The counter is not set up. */
ROW(start_never_set_up) { PMIOSTART, O_RDWR, GOOD, UNUSED, 0, EBUSY };
ROW(stop_never_set_up) { PMIOSTOP, O_RDWR, GOOD, UNUSED, 0, EBUSY };
ROW(reset_never_set_up) { PMIORESET, O_RDWR, GOOD, UNUSED, 0, EBUSY };
ROW(read_never_set_up) { PMIOREAD, O_RDWR, GOOD, UNUSED, 0, EBUSY };
ROW(get_never_set_up) { PMIOGET, O_RDWR, GOOD, UNUSED, 0, EBUSY };
ROW(read_reader_never_set_up) { PMIOREAD, O_RDONLY, GOOD, UNUSED, 0, EBUSY };
ROW(get_reader_never_set_up) { PMIOGET, O_RDONLY, GOOD, UNUSED, 0, EBUSY };
ROW(readcpu_never_set_up) { PMIOREADCPU, O_RDWR, GOOD, UNUSED, 0, EBUSY };
ROW(get2_never_set_up) { PMIOGET2, O_RDWR, GOOD, UNUSED, 0, EBUSY };
ROW(readcpu_reader_never_set_up) {
	PMIOREADCPU, O_RDONLY, GOOD, UNUSED, 0, EBUSY
};
ROW(get2_reader_never_set_up) { PMIOGET2, O_RDONLY, GOOD, UNUSED, 0, EBUSY };

/* The result can't be written. */
ROW(read_copy_out) { PMIOREAD, O_RDWR, READ_ONLY, STOPPED, 0, EFAULT };
ROW(read_running_copy_out) { PMIOREAD, O_RDWR, READ_ONLY, RUNNING, 0, EFAULT };
ROW(get_copy_out) { PMIOGET, O_RDWR, READ_ONLY, STOPPED, 0, EFAULT };
ROW(readcpu_copy_out) { PMIOREADCPU, O_RDWR, READ_ONLY, STOPPED, 0, EFAULT };
ROW(readcpu_running_copy_out) {
	PMIOREADCPU, O_RDWR, READ_ONLY, RUNNING, 0, EFAULT
};
ROW(get2_copy_out) { PMIOGET2, O_RDWR, READ_ONLY, STOPPED, 0, EFAULT };
ROW(tstamp_copy_out) { PMIOTSTAMP, O_RDWR, READ_ONLY, 0, 0, EFAULT };
ROW(tstamp_null) { PMIOTSTAMP, O_RDWR, NONE, 0, 0, EFAULT };
ROW(tstamp_straddling) { PMIOTSTAMP, O_RDWR, STRADDLING, 0, 0, EFAULT };
ROW(tstamp_kernel_address) { PMIOTSTAMP, O_RDWR, KERNEL, 0, 0, EFAULT };
ROW(tstamp_reader_null) { PMIOTSTAMP, O_RDONLY, NONE, 0, 0, EFAULT };
ROW(properties_copy_out) {
	IOCTL_PERFMON_GET_PROPERTIES, O_RDWR, READ_ONLY, 0, 0, EFAULT
};
ROW(properties_null) {
	IOCTL_PERFMON_GET_PROPERTIES, O_RDWR, NONE, 0, 0, EFAULT
};
ROW(properties_straddling) {
	IOCTL_PERFMON_GET_PROPERTIES, O_RDWR, STRADDLING, 0, 0, EFAULT
};
ROW(properties_reader_null) {
	IOCTL_PERFMON_GET_PROPERTIES, O_RDONLY, NONE, 0, 0, EFAULT
};

FIXTURE_SETUP(refused)
{
	struct perfmon_properties p;

	SKIP_WITHOUT_PMU();
	self->writer = open_device(_metadata, O_RDWR);
	self->reader = open_device(_metadata, O_RDONLY);
	ASSERT_EQ(0, device_properties(self->writer, &p));
	self->counters = p.max_num_programmable_events;

	ASSERT_EQ(0, pmc_setup(self->writer, STOPPED, EVENT_INSTRUCTIONS,
			       PMCF_USR));
	ASSERT_EQ(0, pmc_setup(self->writer, RUNNING, EVENT_INSTRUCTIONS,
			       PMCF_USR));
	ASSERT_EQ(0, pmc_count_loop(self->writer, STOPPED, 1000));
	ASSERT_EQ(0, pmc_read(self->writer, STOPPED, &self->value));
	ASSERT_LE(LOOP_INSNS * 1000, self->value);
	ASSERT_EQ(0, pmc_start(self->writer, RUNNING));

	self->page_size = sysconf(_SC_PAGESIZE);
	self->pages = mmap(NULL, 2 * self->page_size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(self->pages != MAP_FAILED);
	ASSERT_EQ(0, munmap(self->pages + self->page_size, self->page_size));
}

FIXTURE_TEARDOWN(refused)
{
	close(self->reader);
	close(self->writer);
}

/* Returns the size of a command's argument. Commands without an argument have 0. */
static size_t argument_size(unsigned int cmd)
{
	return _IOC_SIZE(cmd) ? _IOC_SIZE(cmd) : sizeof(int);
}

static void *place_argument(FIXTURE_DATA(refused) *self, enum argument_place where,
			    const union argument *arg, size_t size)
{
	char *end = self->pages + self->page_size;

	switch (where) {
	case NONE:
		return NULL;
	case UNMAPPED:
		return end;
	case KERNEL:
		/*
		 * Returns an address in the last page, where even a 32-bit program can't have
		 * memory.
		 */
		return (void *)-4096UL;
	case STRADDLING:
		memcpy(end - (size - 1), arg, size - 1);
		return end - (size - 1);
	case READ_ONLY:
		memcpy(self->pages, arg, size);
		mprotect(self->pages, self->page_size, PROT_READ);
		return self->pages;
	case GOOD:
		memcpy(self->pages, arg, size);
		return self->pages;
	}
	return NULL;
}

/* Returns an argument whose only mistake is the variant's mistake. */
static union argument argument(unsigned int cmd, int num, __u8 flags)
{
	union argument arg;

	memset(&arg, 0, sizeof(arg));
	arg.num = num;
	switch (cmd) {
	case PMIOREADCPU:
		arg.cpu_data.pmcc_count = 1;
		break;
	case PMIOSETUP2:
	case PMIOGET2:
		arg.pmc2.pmc2_select = 0x3c | (__u64)flags << 16;
		break;
	default:
		arg.pmc.pmc_event = 0x3c;
		arg.pmc.pmc_flags = flags;
	}
	return arg;
}

/* Returns true if the command exists. PMIOTSTAMP exists only if the TSC frequency is known. */
static bool command_exists(int fd, unsigned int cmd)
{
	struct pmc_tstamp t;

	return cmd != PMIOTSTAMP ||
	       device_ioctl(fd, PMIOTSTAMP, &t) != -ENOTTY;
}

TEST_F(refused, call_fails_with_the_errno_and_changes_nothing)
{
	int fd = variant->flags == O_RDONLY ? self->reader : self->writer;
	int num = variant->num == FIRST_BAD_NUMBER ? self->counters :
						     variant->num;
	union argument arg = argument(variant->cmd, num, variant->pmc_flags);
	size_t size = argument_size(variant->cmd);
	void *p = place_argument(self, variant->where, &arg, size);
	int want = command_exists(fd, variant->cmd) ? variant->err : ENOTTY;
	struct pmc pmc;
	__s64 before, after;

	ASSERT_EQ(0, pmc_read(self->writer, RUNNING, &before));

	EXPECT_EQ(-want, device_ioctl(fd, variant->cmd, p));

	/* The argument was not written. */
	EXPECT_EQ(0, variant->where == GOOD ? memcmp(p, &arg, size) : 0);

	/* The stopped counter still has its configuration and count. */
	EXPECT_EQ(0, pmc_get(self->writer, STOPPED, &pmc));
	EXPECT_EQ(0x000100c0U, pmc.pmc_val);
	EXPECT_EQ(self->value, pmc_value(self->writer, STOPPED));

	/* The running counter has continued. */
	EXPECT_EQ(0, pmc_get(self->writer, RUNNING, &pmc));
	EXPECT_EQ(0x004100c0U, pmc.pmc_val);
	loop(1000);
	EXPECT_EQ(0, pmc_read(self->writer, RUNNING, &after));
	EXPECT_LE(before + LOOP_INSNS * 1000, after);

	/* The unused counter is still not set up. */
	EXPECT_EQ(-EBUSY, pmc_get(self->writer, UNUSED, &pmc));
}

TEST_HARNESS_MAIN
