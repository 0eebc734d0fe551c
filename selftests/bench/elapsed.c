// SPDX-License-Identifier: GPL-2.0-only
/*
 * bench_elapsed COMMAND [ARGUMENT...]: prints the thousands by which the time-stamp counter
 * advances while the command runs, or "failed". Under icount this is the number of all instructions
 * on the CPU. The result is the least of two runs, after a first run that loads files into the
 * cache.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#define RUNS	3

/* Runs the command. Returns the ticks that it took, 0 on failure. */
static unsigned long long run(char **command)
{
	unsigned long long begin = __rdtsc();
	int status, quiet;
	pid_t pid = fork();

	if (!pid) {
		quiet = open("/dev/null", O_WRONLY);
		dup2(quiet, STDOUT_FILENO);
		dup2(quiet, STDERR_FILENO);
		execvp(command[0], command);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		return 0;
	return __rdtsc() - begin;
}

int main(int argc, char **argv)
{
	unsigned long long took, least = ~0ULL;
	int i;

	for (i = 0; i < RUNS; i++) {
		took = argc < 2 ? 0 : run(argv + 1);
		if (!took) {
			printf("failed");
			return EXIT_FAILURE;
		}
		if (i && took < least)
			least = took;
	}
	printf("%llu", least / 1000);
	return EXIT_SUCCESS;
}
