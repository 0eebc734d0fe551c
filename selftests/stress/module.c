// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads and unloads the module many times: without users, while another process opens the device,
 * while the kernel reports to it what programs map, and together with a second copy of the module.
 *
 * ROUNDS in the environment sets the length.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "device.h"
#include "leak_check.h"
#include "leak_fixture.h"
#include "mapping_probes.h"
#include "memory.h"
#include "module.h"
#include "options.h"
#include "samples.h"
#include "trace.h"

#define PROGRAM	"/usr/lib/perfmon/pmctl_loop"

/* The programs that map. */
#define MAPPERS	3

/* The name of the second copy, which has the same length. */
#define NAME	"perfmon"
#define COPY	"perfmo2"

FIXTURE(module)
{
	struct leak_check leaks;
	__u64 rounds;
};

FIXTURE_SETUP(module)
{
	SKIP_WITHOUT_PMU();
	self->rounds = env_number("ROUNDS", 20);
	ASSERT_EQ(0, module_loaded() ? 0 : module_load());
	ASSERT_EQ(0, leak_check_begin(&self->leaks));
}

FIXTURE_TEARDOWN(module)
{
	ensure_module(_metadata);
}

/* Counts and traces. The end of the process stops both. */
static void use_device(int fd)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, 997,
						 FLAG_USER | FLAG_PC);
	struct trace t;

	if (pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR) ||
	    pmc_start(fd, 0) || trace_alloc(&t, fd, 16) ||
	    trace_stage(&t, &config) || trace_start(&t))
		_exit(1);
	loop(10000);
}

/* The limit of a wait, at least a minute. The wait reaches it only if memory is lost. */
#define TRIES	600

/*
 * Waits until the memory in use exceeds @vmalloc and @slab KB by 1 MB at most. The kernel frees
 * memory of modules and tasks later, on a busy host much later. Returns false if the memory is not
 * freed in a minute.
 */
static bool memory_is_free(long vmalloc, long slab)
{
	int i;

	for (i = 0; i < TRIES; i++) {
		if (memory_kb("VmallocUsed") < vmalloc + 1024 && memory_slab_kb() < slab + 1024)
			return true;
		usleep(100000);
	}
	return false;
}

TEST_F_TIMEOUT(module, module_is_loaded_used_and_unloaded, 36000)
{
	long vmalloc = 0, slab = 0;
	int fd, status;
	pid_t pid;
	__u64 i;

	for (i = 0; i < self->rounds; i++) {
		/* The first rounds fill the kernel's caches. */
		if (i == 10) {
			vmalloc = memory_kb("VmallocUsed");
			slab = memory_slab_kb();
		}
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			fd = device_open(O_RDWR);
			if (fd < 0 || module_unload() != -EWOULDBLOCK)
				_exit(1);
			use_device(fd);
			_exit(module_unload() != -EWOULDBLOCK);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		ASSERT_EQ(0, module_unload());
		ASSERT_EQ(0, module_load());
	}
	TH_LOG("%llu loads", i);
	if (i > 10) {
		EXPECT_TRUE(memory_is_free(vmalloc, slab)) {
			TH_LOG("%ld and %ld KB more", memory_kb("VmallocUsed") - vmalloc,
			       memory_slab_kb() - slab);
		}
	}
	expect_no_leaks(_metadata, &self->leaks);
}

/* Opens and uses the device as often as possible. */
static void use_device_forever(void)
{
	int fd;

	for (;;) {
		fd = device_open(O_RDWR);
		if (fd < 0)
			continue;
		pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR);
		pmc_start(fd, 0);
		close(fd);
	}
}

/* An open(2) during an unload gets the device, or is refused. */
TEST_F_TIMEOUT(module, module_is_unloaded_while_it_is_opened, 36000)
{
	__u64 unloaded = 0, busy = 0;
	pid_t pid = fork();
	int err;

	ASSERT_LE(0, pid);
	if (!pid)
		use_device_forever();
	while (unloaded < self->rounds) {
		err = module_unload();
		if (err == -EWOULDBLOCK) {
			busy++;
			continue;
		}
		ASSERT_EQ(0, err);
		ASSERT_EQ(0, module_load());
		unloaded++;
	}
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	TH_LOG("%llu loads, %llu unloads refused", unloaded, busy);
	expect_no_leaks(_metadata, &self->leaks);
}

/* Maps executable memory, and executes programs, as often as possible. */
static void map_forever(void)
{
	const size_t page = getpagesize();
	pid_t pid;
	void *at;
	int i;

	for (;;) {
		for (i = 0; i < 100; i++) {
			at = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (at == MAP_FAILED || munmap(at, page))
				_exit(1);
		}
		pid = vfork();
		if (!pid) {
			execl(PROGRAM, PROGRAM, "1", NULL);
			_exit(1);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			_exit(1);
	}
}

/*
 * The module can't be unloaded while an event records mappings. As soon as the event is closed, the
 * module can be unloaded, although the probes usually stay for a second. Programs map all the time.
 */
TEST_F_TIMEOUT(module, module_is_unloaded_while_programs_map, 36000)
{
	struct perf_event_attr attr = event_instructions();
	pid_t pid[MAPPERS];
	struct sampler s;
	__u64 rounds;
	int i;

	attr.mmap2 = 1;
	attr.disabled = 0;
	for (i = 0; i < MAPPERS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			map_forever();
	}
	for (rounds = 0; rounds < self->rounds; rounds++) {
		ASSERT_EQ(0, sampler_open(&s, &event_maker_perfmon, &attr, pid[0], -1, 3));
		while (event_ring_is_empty(&s.ring)) {
			ASSERT_EQ(0, waitpid(pid[0], NULL, WNOHANG));
			usleep(1000);
		}
		EXPECT_EQ(2, mapping_probes());
		EXPECT_EQ(-EWOULDBLOCK, module_unload());
		sampler_close(&s);
		ASSERT_EQ(0, module_unload());
		EXPECT_EQ(0, mapping_probes());
		ASSERT_EQ(0, module_load());
	}
	for (i = 0; i < MAPPERS; i++) {
		EXPECT_EQ(0, waitpid(pid[i], NULL, WNOHANG));
		ASSERT_EQ(0, kill(pid[i], SIGKILL));
		ASSERT_EQ(pid[i], waitpid(pid[i], NULL, 0));
	}
	expect_no_leaks(_metadata, &self->leaks);
}

/* Returns the module's file under another name, in memory; NULL on failure. */
static char *renamed_copy(size_t *size)
{
	char *image = module_read(size), *p = image;

	/*
	 * Replaces the name at the end of strings: the names of the module, the device and the
	 * handler.
	 */
	while (p && (p = memmem(p, image + *size - p, NAME, sizeof(NAME)))) {
		memcpy(p, COPY, sizeof(COPY));
		p += sizeof(NAME);
	}
	return image;
}

TEST_F(module, second_copy_is_refused_the_counters)
{
	char *image;
	size_t size;
	int fd, copy;

	image = renamed_copy(&size);
	ASSERT_NE(NULL, image);
	ASSERT_EQ(0, module_load_image(image, size));
	fd = open_device(_metadata, O_RDWR);
	copy = open("/dev/" COPY, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, copy);

	/* While one copy uses the registers, the other copy refuses to count. */
	ASSERT_EQ(0, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(-EBUSY, pmc_setup(copy, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(-EBUSY, pmc_setup(copy, 1, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_LE(LOOP_INSNS * 1000, pmc_loop_count(fd, 0, 1000));
	close(fd);

	/* When the first copy has closed its descriptor, the other copy can use the counters. */
	fd = open_device(_metadata, O_RDWR);
	ASSERT_EQ(0, pmc_setup(copy, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_EQ(-EBUSY, pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR));
	EXPECT_LE(LOOP_INSNS * 1000, pmc_loop_count(copy, 0, 1000));
	close(copy);
	close(fd);
	EXPECT_EQ(0, syscall(SYS_delete_module, COPY, O_NONBLOCK));
	free(image);
	expect_no_leaks(_metadata, &self->leaks);
}

TEST_HARNESS_MAIN
