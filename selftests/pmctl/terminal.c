// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmctl_terminal ROWS COLUMNS [STEP]... -- COMMAND [ARGUMENT]...: executes COMMAND at a
 * terminal of this size, and makes the steps of a user, one after the other:
 *
 *   -w TEXT   waits until TEXT is written, after the keys that were typed last
 *   -q MS     waits until nothing has been written for MS milliseconds
 *   -s MS     waits for MS milliseconds
 *   -k KEYS   types KEYS
 *   -o FILE   copies the output so far to FILE
 *   -h MS     hangs up, and waits for MS milliseconds
 *
 * The exit code is COMMAND's, 128 + N if signal N ended it; 124 if TEXT does not come, or
 * COMMAND does not end, within LIMIT seconds (60), as in ktap.sh; 125 if COMMAND leaves the
 * terminal with other settings than it had.
 */
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

static char written[16 << 20];
static size_t written_length, typed_at;
static int master, ended;

/* Reads the output of the next ms milliseconds. Returns 1 if there was any, else 0. */
static int read_more(int ms)
{
	struct pollfd poll_fd = { .fd = master, .events = POLLIN };
	ssize_t n;

	if (ended || written_length == sizeof(written)) {
		poll(NULL, 0, ms);
		return 0;
	}
	if (poll(&poll_fd, 1, ms) != 1)
		return 0;
	n = read(master, written + written_length, sizeof(written) - written_length);
	if (n <= 0) {
		ended = 1;
		return 0;
	}
	written_length += n;
	return 1;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns the time at which a wait that begins now is given up. */
static long end_ms(void)
{
	const char *limit = getenv("LIMIT");
	long seconds = limit ? atol(limit) : 0;

	return now_ms() + (seconds > 0 ? seconds : 60) * 1000;
}

static int wait_for(const char *text)
{
	long end = end_ms();

	while (!memmem(written + typed_at, written_length - typed_at, text, strlen(text))) {
		if (!read_more(100) && (ended || now_ms() > end)) {
			fprintf(stderr, "pmctl_terminal: no '%s' in:\n%.*s\n", text,
				(int)(written_length - typed_at), written + typed_at);
			return 0;
		}
	}
	return 1;
}

static int save_written(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		return 0;
	fwrite(written, 1, written_length, file);
	return !fclose(file);
}

static int run_step(const char *option, const char *argument)
{
	switch (option[1]) {
	case 'w':
		return wait_for(argument);
	case 'q':
		while (read_more(atoi(argument)))
			;
		return 1;
	case 's':
		for (long end = now_ms() + atoi(argument); now_ms() < end && !ended;)
			read_more(100);
		return 1;
	case 'k':
		typed_at = written_length;
		return write(master, argument, strlen(argument)) == (ssize_t)strlen(argument);
	case 'o':
		return save_written(argument);
	case 'h':
		close(master);
		ended = 1;
		read_more(atoi(argument));
		return 1;
	}
	fprintf(stderr, "pmctl_terminal: there is no option -%c\n", option[1]);
	return 0;
}

/*
 * Leads the terminal's session while the command runs, and returns its exit code. (The kernel
 * resets a terminal when its session's leader exits, so the leader is not COMMAND itself.)
 * After a hangup, a terminal's settings can't be read, and are not compared.
 */
static int lead_session(int slave, char **command)
{
	struct termios before = {}, after = {};
	pid_t child;
	int status;

	if (login_tty(slave) || tcgetattr(0, &before))
		return 2;
	signal(SIGHUP, SIG_IGN);
	/* Ctrl-C is for the whole group of the terminal. */
	signal(SIGINT, SIG_IGN);
	child = fork();
	if (!child) {
		signal(SIGHUP, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		setenv("TERM", "xterm-256color", 1);
		execvp(command[0], command);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 2;
	if (!tcgetattr(0, &after) && memcmp(&before, &after, sizeof(before)))
		return 125;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	struct winsize size = {};
	int slave, status, next = 3;
	pid_t leader;
	long end;

	while (next + 1 < argc && strcmp(argv[next], "--"))
		next += 2;
	if (next + 1 >= argc)
		return 2;
	size.ws_row = atoi(argv[1]);
	size.ws_col = atoi(argv[2]);
	if (openpty(&master, &slave, NULL, NULL, &size))
		return 2;
	leader = fork();
	if (!leader) {
		close(master);
		_exit(lead_session(slave, argv + next + 1));
	}
	close(slave);
	for (int i = 3; i < next; i += 2) {
		if (!run_step(argv[i], argv[i + 1])) {
			close(master);
			waitpid(leader, &status, 0);
			return 124;
		}
	}
	end = end_ms();
	while (waitpid(leader, &status, WNOHANG) == 0) {
		if (read_more(100) || now_ms() < end)
			continue;
		fprintf(stderr, "pmctl_terminal: the command does not end\n");
		close(master);
		waitpid(leader, &status, 0);
		return 124;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
