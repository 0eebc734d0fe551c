// SPDX-License-Identifier: GPL-2.0-only
/*
 * Permissions: tests each cell of the table in policy.csv, which Documentation/abi.rst includes.
 * A test case is one kind of caller with one setting.
 *
 * All columns but the first use a descriptor that root has opened. Having such a descriptor gives
 * the caller no permission. The test locks the kernel down step by step, which can't be undone, so
 * it needs a virtual machine of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu.h"
#include "csv.h"
#include "device.h"
#include "kselftest.h"
#include "perf.h"
#include "rights.h"
#include "trace.h"
#include "tsc.h"

#define GROUP	4242	/* group of the device in this test */
#define OTHERS	65534
#define PAGES	64
#define RATE	10007	/* includes the instructions of the overflow handler */

#define SET_UP	0	/* a counter that is set up */
#define UNUSED	1

static struct {
	int fd;
	struct trace trace;
	__u32 branches;		/* FLAG_LAST_BRANCH if the CPU has branch records */
	int mhz;		/* the TSC's frequency in the log, which root can read */
} device;

/* The columns. Each returns 0, or the caller's negative errno. */

static int try_open(void)
{
	/* Opens the device for reading, since there is a writer. */
	int fd = device_open(O_RDONLY);

	return fd < 0 ? fd : close(fd);
}

static int try_query(void)
{
	struct perfmon_properties properties;
	struct perfmon_info info;
	struct pmc_tstamp tstamp;
	struct pmc pmc;
	int err;

	err = pmc_get(device.fd, SET_UP, &pmc);
	if (!err)
		err = device_properties(device.fd, &properties);
	if (!err)
		err = device_ioctl(device.fd, PERFMON_GET_INFO, &info);
	if (!err && device.mhz)
		err = device_ioctl(device.fd, PMIOTSTAMP, &tstamp);
	return err;
}

static int try_count_user(void)
{
	return pmc_setup(device.fd, UNUSED, EVENT_INSTRUCTIONS, PMCF_USR);
}

static int try_count_kernel(void)
{
	return pmc_setup(device.fd, UNUSED, EVENT_INSTRUCTIONS, PMCF_OS);
}

static int try_read(void)
{
	__s64 value;

	return pmc_read(device.fd, SET_UP, &value);
}

/* Traces some work. The config requests PC records. */
static int trace_work(const struct perfmon_config *config)
{
	int err, i;

	err = trace_stage(&device.trace, config);
	if (!err)
		err = trace_start(&device.trace);
	if (err)
		return err;
	for (i = 0; i < 1000; i++) {
		loop(1000);
		getppid();
	}
	return trace_stop(&device.trace);
}

/*
 * Finds whether there are samples in user mode with an address space, and whether there are samples
 * and branches in the kernel.
 */
static int find_samples(bool *user, bool *kernel)
{
	bool branches = !device.branches;
	struct trace_cursor c;
	struct trace_record r;
	int next;
	__u32 i;

	*user = *kernel = false;
	c = trace_records(&device.trace, cpu_ids() - 1);
	while ((next = trace_next(&c, &r)) > 0) {
		if (r.type == PERFMON_RECORD_PC && r.aspace)
			*(is_kernel_address(r.pc) ? kernel : user) = true;
		if (r.type != PERFMON_RECORD_LAST_BRANCH)
			continue;
		for (i = 0; i < r.branches->num_branches; i++)
			branches |= is_kernel_address(r.branches->branches[i].from);
	}
	*kernel &= branches;
	return next;
}

static int try_trace_user(void)
{
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, RATE, FLAG_USER | FLAG_PC);
	bool user, kernel;
	int err;

	err = trace_work(&config);
	if (!err)
		err = find_samples(&user, &kernel);
	if (!err && !user)
		err = -ENODATA;
	return err;
}

static int try_trace_kernel(void)
{
	const struct perfmon_config config =
		one_event(INSTRUCTIONS, RATE, FLAG_USER | FLAG_OS | FLAG_PC |
			  device.branches);
	bool user, kernel;
	int err;

	err = trace_work(&config);
	if (!err)
		err = find_samples(&user, &kernel);
	if (!err && !(user && kernel))
		err = -ENODATA;
	return err;
}

/* Opens an event of Linux's perf that samples a CPU, the kernel included. */
static int try_perf(void)
{
	int fd = perf_open_cpu_samples(0);

	return fd < 0 ? fd : close(fd);
}

static const struct {
	const char *name;
	int (*try)(void);
} columns[] = {
	{ "open", try_open },
	{ "ask", try_query },
	{ "count user", try_count_user },
	{ "count kernel", try_count_kernel },
	{ "read", try_read },
	{ "trace user", try_trace_user },
	{ "trace kernel", try_trace_kernel },
	{ "perf", try_perf },
};

#define PERF	(ARRAY_SIZE(columns) - 1)

static const char *const levels[] = { "none", "integrity", "confidentiality" };
static const char *const settings[] = { "-1", "0", "1", "2", "3" };

/* "capable" has CAP_PERFMON, and belongs to the group. */
static const struct {
	const char *name;
	bool is_root;
	bool is_capable;
	gid_t group;
} callers[] = {
	{ "root", true, true, 0 },
	{ "capable", false, true, GROUP },
	{ "group", false, false, GROUP },
	{ "others", false, false, OTHERS },
};

/*
 * The first three columns of the table are the caller and the settings; the other columns are
 * results.
 */
#define KEY_COLUMNS	3

static struct csv table;

static void read_table(const char *program)
{
	unsigned int i;

	csv_read(&table, program, "policy.csv", KEY_COLUMNS + ARRAY_SIZE(columns));
	for (i = 0; i < ARRAY_SIZE(columns); i++)
		if (strcmp(table.name[KEY_COLUMNS + i], columns[i].name))
			ksft_exit_fail_msg("policy.csv: column '%s' is not '%s'\n",
					   table.name[KEY_COLUMNS + i], columns[i].name);
}

static int become_caller(bool is_root, bool is_capable, gid_t group)
{
	if (setgroups(1, &group) || setegid(group))
		return -errno;
	return is_root ? 0 : drop_rights(is_capable);
}

static int become_root_again(void)
{
	return seteuid(0) || setegid(0) || setgroups(0, NULL) ? -errno : 0;
}

static int expected_errno(const char *word, bool is_capable, unsigned int column)
{
	if (!strcmp(word, "EACCES"))
		return -EACCES;
	if (!strcmp(word, "EPERM"))
		return -EPERM;
	/* perf's policy does not apply to opening the device and to queries. */
	return column < 2 || column == PERF ? 0 : policy_errno(0, is_capable);
}

static bool test_row(char **row, unsigned int caller)
{
	int want, is[ARRAY_SIZE(columns)];
	unsigned int i;
	bool ok = true;

	if (become_caller(callers[caller].is_root, callers[caller].is_capable,
		   callers[caller].group))
		return false;
	for (i = 0; i < ARRAY_SIZE(columns); i++)
		is[i] = columns[i].try();
	if (become_root_again())
		ksft_exit_fail_msg("can't become root again\n");
	for (i = 0; i < ARRAY_SIZE(columns); i++) {
		want = expected_errno(row[KEY_COLUMNS + i], callers[caller].is_capable, i);
		if (is[i] == want)
			continue;
		ksft_print_msg("%s: result %d, but the table has %d\n",
			       columns[i].name, is[i], want);
		ok = false;
	}
	return ok;
}

static void prepare_device(void)
{
	struct perfmon_properties p;

	device.fd = device_open(O_RDWR);
	if (device.fd < 0 ||
	    device_properties(device.fd, &p) ||
	    pin_to_cpu(cpu_ids() - 1) ||
	    pmc_setup(device.fd, SET_UP, EVENT_INSTRUCTIONS, PMCF_USR) ||
	    trace_alloc(&device.trace, device.fd, PAGES))
		ksft_exit_fail_msg("can't set up a counter and a trace\n");
	if (p.flags & PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH)
		device.branches = FLAG_LAST_BRANCH;
	device.mhz = tsc_mhz();
	/* Sets the owner and the mode as udev's rule does. */
	if (chown(_PATH_PERFMON, 0, GROUP) || chmod(_PATH_PERFMON, 0660))
		ksft_exit_fail_msg("%s: %s\n", _PATH_PERFMON, strerror(errno));
}

int main(int argc, char **argv)
{
	int paranoid = paranoid_read();
	unsigned int level, caller, i;
	char **row;

	(void)argc;
	ksft_print_header();
	if (!pmu_expected())
		ksft_exit_skip("this CPU has no PMU\n");
	if (access(LOCKDOWN, F_OK))
		ksft_exit_skip("this kernel can't be locked down\n");
	ksft_set_plan(ARRAY_SIZE(levels) * ARRAY_SIZE(callers) *
		      ARRAY_SIZE(settings));
	read_table(argv[0]);
	prepare_device();
	for (level = 0; level < ARRAY_SIZE(levels); level++) {
		if (level && lockdown(levels[level]))
			ksft_exit_fail_msg("no lockdown\n");
		for (caller = 0; caller < ARRAY_SIZE(callers); caller++) {
			for (i = 0; i < ARRAY_SIZE(settings); i++) {
				row = csv_find(&table, (const char *const []) {
						levels[level], callers[caller].name,
						settings[i] }, KEY_COLUMNS);
				ksft_test_result(row &&
					!paranoid_write(atoi(settings[i])) &&
					test_row(row, caller),
					"lockdown %s, %s, perf_event_paranoid %s\n",
					levels[level], callers[caller].name,
					settings[i]);
			}
		}
	}
	if (paranoid_write(paranoid) || chmod(_PATH_PERFMON, 0600) ||
	    chown(_PATH_PERFMON, 0, 0))
		ksft_print_msg("can't restore the settings\n");
	ksft_finished();
}
