// SPDX-License-Identifier: GPL-2.0-only
/*
 * Landlock, a security module that refuses events: a program that has restricted itself, whatever
 * its rules, may count only processes with the same or more restrictions.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/landlock.h>

#include "device.h"
#include "fixture.h"

#define USER	1000

/* The rules of a domain, which forbid the listed accesses, except to the device. */
static const struct domain_rules {
	const char *name;
	struct landlock_ruleset_attr attr;
} rules[] = {
	{ "network", { .handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP } },
	{ "reading", { .handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE |
					    LANDLOCK_ACCESS_FS_READ_DIR } },
	{ "all files", { .handled_access_fs = (LANDLOCK_ACCESS_FS_IOCTL_DEV << 1) - 1 } },
};

/* The results of opening events in a domain, by the counted process: 0 or a negative errno. */
struct open_results {
	int itself;		/* of the process itself */
	int same_domain;	/* of a child */
	int narrower;		/* of a child that has restricted itself further */
	int wider;		/* of its parent, opened by that child */
	int outside;		/* of a process of the same user outside of the domain */
	bool done;
};

FIXTURE(event)
{
	struct open_results *answers;
	pid_t outside;
	int paranoid;
};

#include "event_fixture.h"

static int restrict_self(const struct domain_rules *r)
{
	struct landlock_path_beneath_attr device = {
		.allowed_access = r->attr.handled_access_fs &
				  (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_IOCTL_DEV),
		.parent_fd = open(_PATH_PERFMON, O_PATH | O_CLOEXEC),
	};
	int fd = syscall(SYS_landlock_create_ruleset, &r->attr, sizeof(r->attr), 0);
	int err = fd < 0;

	if (!err && r->attr.handled_access_fs)
		err = syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &device, 0);
	err = err || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	      syscall(SYS_landlock_restrict_self, fd, 0);
	close(fd);
	close(device.parent_fd);
	return err ? -errno : 0;
}

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 0)
		SKIP(return, "this kernel has no Landlock");
	self->paranoid = paranoid_read();
	ASSERT_EQ(0, paranoid_write(2));
	ASSERT_EQ(0, chmod(_PATH_PERFMON, 0666));
	self->answers = map_shared(_metadata, sizeof(*self->answers));
	self->outside = fork();
	ASSERT_LE(0, self->outside);
	if (!self->outside) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		become_user(USER, 0);
		/* setuid(2) clears the dumpable flag. */
		prctl(PR_SET_DUMPABLE, 1);
		for (;;)
			pause();
	}
	prepare_maker(_metadata, variant);
}

FIXTURE_TEARDOWN(event)
{
	kill(self->outside, SIGKILL);
	waitpid(self->outside, NULL, 0);
	if (chmod(_PATH_PERFMON, 0600))
		TH_LOG("%s: %s", _PATH_PERFMON, strerror(errno));
	restore_rights(_metadata, self->paranoid);
}

static int try_open(const struct event_maker *maker, pid_t pid)
{
	int fd = event_open_instructions(maker, pid);

	return fd < 0 ? fd : close(fd);
}

/* Starts a child that counts its parent, in the same domain or with the further rules @more. */
static pid_t start_child(const struct event_maker *maker, const struct domain_rules *more,
			 struct open_results *a)
{
	pid_t pid = fork();
	int err;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (more) {
		err = restrict_self(more);
		a->wider = err ? err : try_open(maker, getppid());
		__atomic_store_n(&a->done, true, __ATOMIC_RELEASE);
	}
	for (;;)
		pause();
}

/* Becomes a user in a domain, and stores the results of its opens. */
static int fill_answers(const struct event_maker *maker, const struct domain_rules *r,
		   unsigned long long capabilities, pid_t outside, struct open_results *a)
{
	pid_t child, narrower;

	if (become_user(USER, capabilities) || prctl(PR_SET_DUMPABLE, 1) || restrict_self(r))
		return 1;
	child = start_child(maker, NULL, a);
	narrower = start_child(maker, r, a);
	while (!__atomic_load_n(&a->done, __ATOMIC_ACQUIRE))
		usleep(1000);
	a->itself = try_open(maker, 0);
	a->same_domain = try_open(maker, child);
	a->narrower = try_open(maker, narrower);
	a->outside = try_open(maker, outside);
	kill(child, SIGKILL);
	kill(narrower, SIGKILL);
	while (wait(NULL) > 0)
		;
	return 0;
}

static void get_answers_in_domain(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			  const struct event_maker *maker, const struct domain_rules *r,
			  unsigned long long capabilities)
{
	int status;
	pid_t pid;

	*self->answers = (struct open_results) {};
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(fill_answers(maker, r, capabilities, self->outside, self->answers));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
}

TEST_F(event, domain_may_count_its_own_tasks)
{
	const struct open_results *a = self->answers;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		get_answers_in_domain(_metadata, self, variant->maker, &rules[i], 0);
		EXPECT_EQ(0, a->itself);
		EXPECT_EQ(0, a->same_domain);
		EXPECT_EQ(0, a->narrower);
		EXPECT_EQ(-EACCES, a->wider);
		EXPECT_EQ(-EACCES, a->outside) {
			TH_LOG("rules about %s", rules[i].name);
		}
	}
}

/* With the capability, neither maker calls a security module. */
TEST_F(event, capability_overrides_a_domain)
{
	const struct open_results *a = self->answers;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		get_answers_in_domain(_metadata, self, variant->maker, &rules[i], MAY_COUNT);
		EXPECT_EQ(0, a->itself);
		EXPECT_EQ(0, a->same_domain);
		EXPECT_EQ(0, a->narrower);
		EXPECT_EQ(0, a->wider);
		EXPECT_EQ(0, a->outside) {
			TH_LOG("rules about %s", rules[i].name);
		}
	}
}

TEST_HARNESS_MAIN
