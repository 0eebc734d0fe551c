// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_memfd PROGRAM [ARGUMENT...]: executes a copy of PROGRAM that has no path in the
 * file system.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int from = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	int copy = memfd_create("program", MFD_CLOEXEC);
	struct stat facts;

	if (from >= 0 && copy >= 0 && !fstat(from, &facts) &&
	    sendfile(copy, from, NULL, facts.st_size) == facts.st_size)
		fexecve(copy, argv + 1, environ);
	perror("pmctl_memfd");
	return 127;
}
