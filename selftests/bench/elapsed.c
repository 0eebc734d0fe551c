// SPDX-License-Identifier: GPL-2.0-only
/*
 * bench_elapsed COMMAND [ARGUMENT...]: prints the time-stamp counter's advance while the
 * command runs. Under icount these are the instructions of all that ran on the CPU.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

int main(int argc, char **argv)
{
	unsigned long long begin;
	int status, quiet = open("/dev/null", O_WRONLY);
	pid_t pid;

	if (argc < 2)
		return EXIT_FAILURE;
	begin = __rdtsc();
	pid = fork();
	if (!pid) {
		dup2(quiet, STDOUT_FILENO);
		dup2(quiet, STDERR_FILENO);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		return EXIT_FAILURE;
	printf("%llu\n", __rdtsc() - begin);
	return EXIT_SUCCESS;
}
