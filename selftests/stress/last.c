// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ends the machine while every CPU takes many samples and a counter runs:
 *
 *	stress_last panic
 *	stress_last kexec KERNEL INITRD ARGUMENTS
 *
 * Ends the machine by an unknown NMI, after overflows of a running trace:
 *
 *	stress_last nmi
 *
 * With unknown_nmi_panic=1 the kernel panics at such an NMI, unless a handler claims it.
 *
 * Not a selftest: if this program returns, it has failed. `run --panic` checks that the machine
 * has rebooted; after a kexec the next kernel does (see kexec.sh).
 */
#include <err.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "loop.h"
#include "msr.h"
#include "trace.h"

/* A rate at which PMIs come about as fast as the CPU can handle them. */
#define RATE	997

static void start_load(void)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, RATE,
						 FLAG_USER | FLAG_OS | FLAG_PC);
	int fd = device_open(O_RDWR), cpu;
	struct trace t;
	cpu_set_t cpus;

	if (fd < 0 || cpus_online(&cpus) ||
	    pmc_setup(fd, 0, EVENT_INSTRUCTIONS, PMCF_USR | PMCF_OS) ||
	    pmc_start(fd, 0) || trace_alloc(&t, fd, PERFMON_MAX_BUFFER_PAGES / 8) ||
	    trace_stage(&t, &config) || trace_start(&t))
		errx(1, "can't set up the trace and the counter");
	for_each_cpu_in(cpu, &cpus) {
		if (fork())
			continue;
		if (pin_to_cpu(cpu))
			_exit(1);
		for (;;)
			loop(1000000);
	}
	/* Waits until all children run on their CPUs. */
	usleep(200000);
}

static void trigger_panic(void)
{
	int fd = open("/proc/sysrq-trigger", O_WRONLY);

	if (fd < 0 || write(fd, "c", 1) != 1)
		err(1, "/proc/sysrq-trigger");
}

static void send_unknown_nmi(void)
{
	struct perfmon_config config = one_event(INSTRUCTIONS, RATE, FLAG_USER);
	int fd = device_open(O_RDWR), err;
	struct trace t;

	if (fd < 0 || pin_to_cpu(0) || trace_alloc(&t, fd, 64) ||
	    trace_stage(&t, &config) || trace_start(&t))
		errx(1, "can't start the trace");
	loop(100 * RATE);
	err = nmi_send(0);
	if (err)
		errx(1, "can't send the NMI: %s", strerror(-err));
	sleep(1);
}

static void load_kernel(const char *kernel, const char *initrd, const char *arguments)
{
	int k = open(kernel, O_RDONLY), i = open(initrd, O_RDONLY);

	if (k < 0 || i < 0 ||
	    syscall(SYS_kexec_file_load, k, i, strlen(arguments) + 1, arguments,
		    0UL))
		err(1, "can't load %s", kernel);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "panic")) {
		start_load();
		trigger_panic();
	} else if (argc == 2 && !strcmp(argv[1], "nmi")) {
		send_unknown_nmi();
	} else if (argc == 5 && !strcmp(argv[1], "kexec")) {
		load_kernel(argv[2], argv[3], argv[4]);
		start_load();
		reboot(LINUX_REBOOT_CMD_KEXEC);
	} else {
		errx(2, "usage: stress_last panic | nmi | kexec KERNEL INITRD ARGUMENTS");
	}
	err(1, "still here");
}
