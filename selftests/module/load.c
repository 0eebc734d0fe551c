// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading and unloading of the module.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sched.h>

#include "device.h"
#include "event.h"
#include "fixture.h"
#include "module.h"

FIXTURE(module)
{
};

FIXTURE_SETUP(module)
{
	SKIP_WITHOUT_PMU();
	ASSERT_EQ(0, module_loaded() ? 0 : module_load());
}

FIXTURE_TEARDOWN(module)
{
	ensure_module(_metadata);
}

TEST_F(module, second_load_is_refused)
{
	int fd;

	EXPECT_EQ(-EEXIST, module_load());
	EXPECT_TRUE(module_loaded());
	fd = device_open(O_RDONLY);
	EXPECT_LE(0, fd);
	close(fd);
}

TEST_F(module, unload_is_refused_while_a_descriptor_is_open)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };
	unsigned int i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		fd = open_device(_metadata, modes[i]);
		EXPECT_EQ(-EWOULDBLOCK, module_unload());

		/* The descriptor still works after unloading was refused. */
		if (modes[i] != O_RDONLY) {
			EXPECT_EQ(0, pmc_setup(fd, 0, EVENT_INSTRUCTIONS,
					       PMCF_USR));
			EXPECT_EQ(0, pmc_start(fd, 0));
			EXPECT_EQ(-EWOULDBLOCK, module_unload());
		}
		close(fd);
	}
	EXPECT_EQ(0, module_unload());
}

TEST_F(module, device_comes_and_goes_with_the_module)
{
	int i, fd;

	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, module_unload());
		EXPECT_EQ(-ENOENT, device_open(O_RDONLY));
		EXPECT_EQ(-ENOENT, module_unload());
		ASSERT_EQ(0, module_load());
		fd = device_open(O_RDONLY);
		EXPECT_LE(0, fd);
		close(fd);
	}
}

/* Maps the page of an event, which gives this program the right to use RDPMC, and unmaps it. */
static void map_page(struct __test_metadata *_metadata)
{
	struct perf_event_attr attr = event_instructions();
	int fd = event_maker_perfmon.open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	const size_t size = sysconf(_SC_PAGESIZE);
	void *page;

	ASSERT_LE(0, fd);
	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(0, munmap(page, size));
	close(fd);
}

/*
 * Makes a child by clone3() with @flags and CLONE_VFORK. The child writes its PID to @fd, and never
 * ends. This process waits for the child.
 */
static void wait_in_clone3(__u64 flags, int fd)
{
	struct clone_args arguments = {
		.flags = flags | CLONE_VM | CLONE_VFORK,
		.exit_signal = flags & CLONE_PARENT ? 0 : SIGCHLD,
	};
	pid_t pid;

	if (!syscall(SYS_clone3, &arguments, sizeof(arguments))) {
		pid = syscall(SYS_getpid);
		if (write(fd, &pid, sizeof(pid)) == sizeof(pid))
			for (;;)
				pause();
	}
	_exit(1);
}

/*
 * Waits until a child has exited, for at least a minute, since the host may be busy. An exit takes
 * less than a second. Returns whether the child has exited.
 */
static bool wait_for_exit(pid_t pid)
{
	siginfo_t info = {};
	int i;

	for (i = 0; i < 6000 && !info.si_pid; i++) {
		usleep(10000);
		if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT))
			return false;
	}
	return info.si_pid;
}

/*
 * A program that has the right to use RDPMC may copy it by fork(2), so the module waits for the
 * ends of forks. But a child of vfork() may run for ever before its exec.
 */
TEST_F(module, unload_does_not_wait_for_vfork)
{
	static const __u64 flags[] = { 0, CLONE_PARENT };
	pid_t waiting, child, unloader;
	int end[2], status;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		map_page(_metadata);
		ASSERT_EQ(0, pipe(end));
		waiting = fork();
		ASSERT_LE(0, waiting);
		if (!waiting)
			wait_in_clone3(flags[i], end[1]);
		close(end[1]);
		ASSERT_EQ((ssize_t)sizeof(child), read(end[0], &child, sizeof(child)));
		unloader = fork();
		ASSERT_LE(0, unloader);
		if (!unloader)
			_exit(module_unload() != 0);
		EXPECT_TRUE(wait_for_exit(unloader)) {
			TH_LOG("the module waits, with flags %llx", flags[i]);
		}
		kill(child, SIGKILL);
		kill(waiting, SIGKILL);
		EXPECT_EQ(waiting, waitpid(waiting, NULL, 0));
		if (flags[i] & CLONE_PARENT)
			EXPECT_EQ(child, waitpid(child, NULL, 0));
		EXPECT_EQ(unloader, waitpid(unloader, &status, 0));
		EXPECT_EQ(0, status);
		close(end[0]);
		ASSERT_EQ(0, module_load());
	}
}

TEST_HARNESS_MAIN
