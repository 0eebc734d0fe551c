// SPDX-License-Identifier: GPL-2.0-only
/*
 * Permissions of events: tests each cell of the table in permission.csv, which
 * Documentation/events.rst includes, with perf and with the module. A test case is one kind of
 * caller with one setting.
 *
 * Locks the kernel down step by step, which can't be undone, so this test needs a virtual
 * machine of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "csv.h"
#include "device.h"
#include "event.h"
#include "file.h"
#include "idle.h"
#include "kselftest.h"
#include "perfs_cgroups.h"
#include "rights.h"

#define USER		1000
#define OTHER_USER	1001
#define SETUID_PROGRAM	"/tmp/event_permission_setuid"
#define CGROUPS		"/tmp/event_permission_cgroups"
#define OWNED_CGROUP_DIR	CGROUPS "/owned"

static const char *const levels[] = { "none", "integrity", "confidentiality" };
static const char *const settings[] = { "-1", "0", "1", "2", "3" };

static const struct {
	const char *name;
	unsigned int uid;
	unsigned long long capabilities;
	bool namespaced;	/* root in a user namespace of its own */
} callers[] = {
	{ "root", 0, 0, false },
	{ "capable", OTHER_USER + 1, MAY_COUNT, false },
	{ "user", USER, 0, false },
	{ "namespaced", USER, 0, true },
};

/* The targets of events: a task of the first user, unless the comment says otherwise. */
static struct {
	const char *name;
	pid_t pid;
	int cpu;
} targets[] = {
	{ "own", 0, -1 },
	{ "same-user", 0, -1 },
	{ "other-user", 0, -1 },
	{ "hidden", 0, -1 },		/* PR_SET_DUMPABLE is off */
	{ "setuid", 0, -1 },		/* executes a setuid program of root */
	{ "namespaced", 0, -1 },	/* in the namespace of the caller `namespaced` */
	{ "kernel-thread", 2, -1 },
	{ "cpu", -1, 0 },
	/*
	 * The following targets are cgroups. All callers have their directories open: `pid` is the
	 * descriptor.
	 */
	{ "cgroup", -1, 0 },		/* the root */
	{ "owned-cgroup", -1, 0 },	/* below the root; the directory and its files are the user's */
	{ "sampled-cgroup", -1, 0 },	/* the same, with samples */
	{ "cgroup-on-all-cpus", -1, -1 },	/* the same */
};

enum target {
	OWN, SAME_USER, OTHER, HIDDEN, SETUID, NAMESPACED, KERNEL_THREAD, CPU, CGROUP, OWNED_CGROUP,
	SAMPLED_CGROUP, CGROUP_ON_ALL_CPUS
};

static const struct {
	const char *name;
	const struct event_maker *maker;
	bool kernel;
} columns[] = {
	{ "perf user", &event_maker_perf, false },
	{ "perf kernel", &event_maker_perf, true },
	{ "event user", &event_maker_perfmon, false },
	{ "event kernel", &event_maker_perfmon, true },
};

#define KEYS	4

static struct csv table;

/* The results for the caller: 0 or a negative errno. */
static int (*answers)[ARRAY_SIZE(columns)];

/* Makes a user namespace in which this process is root. */
static int enter_new_namespace(void)
{
	char map[32];

	snprintf(map, sizeof(map), "0 %u 1", USER);
	if (unshare(CLONE_NEWUSER))
		return -errno;
	/* Becomes dumpable again: otherwise the files of this process in /proc belong to root. */
	prctl(PR_SET_DUMPABLE, 1);
	return write_file("/proc/self/uid_map", map);
}

/* Enters the user namespace of the target, with all capabilities in it. */
static int enter_namespace(void)
{
	char path[64];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", targets[NAMESPACED].pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = fd < 0 || setns(fd, CLONE_NEWUSER);
	close(fd);
	return err || geteuid() ? -EPERM : 0;
}

static pid_t start_target(enum target which)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (become_user(which == OTHER ? OTHER_USER : USER, 0))
		_exit(1);
	prctl(PR_SET_DUMPABLE, 1);
	if (which == NAMESPACED && enter_new_namespace())
		_exit(1);
	/* setuid(2) clears the dumpable flag. */
	prctl(PR_SET_DUMPABLE, which != HIDDEN);
	if (which == SETUID)
		execl(SETUID_PROGRAM, SETUID_PROGRAM, "--pause", NULL);
	for (;;)
		pause();
}

static void start_targets(const char *program)
{
	enum target which;
	char command[512];

	snprintf(command, sizeof(command), "cp %s %s", program, SETUID_PROGRAM);
	if (system(command) || chmod(SETUID_PROGRAM, 04755) || chmod(_PATH_PERFMON, 0666))
		ksft_exit_fail_msg("can't copy the test to a setuid program\n");
	for (which = SAME_USER; which <= NAMESPACED; which++) {
		targets[which].pid = start_target(which);
		if (targets[which].pid < 0)
			ksft_exit_fail_msg("no process\n");
	}
	mkdir(CGROUPS, 0755);
	if (mount("none", CGROUPS, "cgroup2", 0, NULL))
		ksft_exit_fail_msg("no cgroups\n");
	snprintf(command, sizeof(command), "mkdir -p %s && chown -R %u %s", OWNED_CGROUP_DIR, USER,
		 OWNED_CGROUP_DIR);
	if (system(command))
		ksft_exit_fail_msg("no cgroup of the user\n");
	for (which = CGROUP; which <= CGROUP_ON_ALL_CPUS; which++)
		targets[which].pid = open(which == CGROUP ? CGROUPS : OWNED_CGROUP_DIR,
					  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	wait_until_idle();
	answers = mmap(NULL, sizeof(*answers) * ARRAY_SIZE(targets), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (answers == MAP_FAILED)
		ksft_exit_fail_msg("no memory\n");
}

static void end_targets(void)
{
	enum target which;

	for (which = SAME_USER; which <= NAMESPACED; which++) {
		kill(targets[which].pid, SIGKILL);
		waitpid(targets[which].pid, NULL, 0);
	}
	for (which = CGROUP; which <= CGROUP_ON_ALL_CPUS; which++)
		close(targets[which].pid);
	rmdir(OWNED_CGROUP_DIR);
	umount(CGROUPS);
	rmdir(CGROUPS);
	unlink(SETUID_PROGRAM);
	if (chmod(_PATH_PERFMON, 0600))
		ksft_print_msg("%s: %s\n", _PATH_PERFMON, strerror(errno));
}

static int try_open(unsigned int target, unsigned int column)
{
	struct perf_event_attr attr = event_instructions();
	int fd;

	attr.exclude_kernel = !columns[column].kernel;
	if (target == SAMPLED_CGROUP)
		attr.sample_period = 1000003;
	fd = columns[column].maker->open(&attr, targets[target].pid, targets[target].cpu, -1,
					 target >= CGROUP ? PERF_FLAG_PID_CGROUP : 0);
	return fd < 0 ? fd : close(fd);
}

/* Becomes the caller in a child process, and stores the results of its opens. */
static int fill_answers(unsigned int caller)
{
	unsigned int i, column;
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (callers[caller].uid &&
		    become_user(callers[caller].uid, callers[caller].capabilities))
			_exit(1);
		if (callers[caller].namespaced && enter_namespace())
			_exit(1);
		prctl(PR_SET_DUMPABLE, 1);
		for (i = 0; i < ARRAY_SIZE(targets); i++)
			for (column = 0; column < ARRAY_SIZE(columns); column++)
				answers[i][column] = try_open(i, column);
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status ? 0 : -1;
}

/*
 * Returns whether the maker has events of this target. perf counts cgroups on one CPU only, and
 * none without its controller.
 */
static bool is_possible(unsigned int target, unsigned int column)
{
	return target < CGROUP || columns[column].maker != &event_maker_perf ||
	       (target != CGROUP_ON_ALL_CPUS && perfs_cgroups_exist());
}

static int errno_of(const char *word)
{
	return !strcmp(word, "EACCES") ? -EACCES : !strcmp(word, "EPERM") ? -EPERM :
	       !strcmp(word, "yes") ? 0 : 1;
}

static bool test_caller(const char *level, unsigned int caller, const char *setting)
{
	unsigned int i, column;
	bool ok = true;
	char **row;

	if (paranoid_write(atoi(setting)) || fill_answers(caller)) {
		ksft_print_msg("the table has a caller that this test does not know\n");
		return false;
	}
	for (i = 0; i < ARRAY_SIZE(targets); i++) {
		row = csv_find(&table, (const char *const []) {
				level, callers[caller].name, setting, targets[i].name }, KEYS);
		for (column = 0; column < ARRAY_SIZE(columns); column++) {
			if (!is_possible(i, column))
				continue;
			if (row && answers[i][column] == errno_of(row[KEYS + column]))
				continue;
			ksft_print_msg("%s, %s: result %d, but the table has %s\n",
				       columns[column].name, targets[i].name,
				       answers[i][column], row ? row[KEYS + column] : "no row");
			ok = false;
		}
	}
	return ok;
}

int main(int argc, char **argv)
{
	int paranoid = paranoid_read();
	unsigned int level, caller, i;

	if (argc == 2 && !strcmp(argv[1], "--pause"))
		for (;;)
			pause();
	ksft_print_header();
	if (!pmu_expected())
		ksft_exit_skip("this CPU has no PMU\n");
	if (access(LOCKDOWN, F_OK))
		ksft_exit_skip("this kernel can't be locked down\n");
	ksft_set_plan(ARRAY_SIZE(levels) * ARRAY_SIZE(callers) * ARRAY_SIZE(settings));
	csv_read(&table, argv[0], "permission.csv", KEYS + ARRAY_SIZE(columns));
	for (i = 0; i < ARRAY_SIZE(columns); i++)
		if (strcmp(table.name[KEYS + i], columns[i].name))
			ksft_exit_fail_msg("permission.csv: column '%s' is not '%s'\n",
					   table.name[KEYS + i], columns[i].name);
	start_targets(argv[0]);
	for (level = 0; level < ARRAY_SIZE(levels); level++) {
		if (level && lockdown(levels[level]))
			ksft_exit_fail_msg("no lockdown\n");
		for (caller = 0; caller < ARRAY_SIZE(callers); caller++)
			for (i = 0; i < ARRAY_SIZE(settings); i++)
				ksft_test_result(test_caller(levels[level], caller, settings[i]),
						 "lockdown %s, %s, perf_event_paranoid %s\n",
						 levels[level], callers[caller].name, settings[i]);
	}
	if (paranoid_write(paranoid))
		ksft_print_msg("can't restore %s\n", PARANOID);
	end_targets();
	ksft_finished();
}
