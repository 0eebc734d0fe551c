// SPDX-License-Identifier: GPL-2.0-only
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "options.h"

#define MAX_THREADS	64

/* Differs from KSFT_FAIL, the exit code of a test that has printed results. */
#define EXIT_USAGE	2

static time_t started;

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static unsigned long long parse_number(const char *text, unsigned long long max)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 0);

	if (end == text || *end || n > max) {
		fprintf(stderr, "'%s' is not a number up to %llu\n", text, max);
		exit(EXIT_USAGE);
	}
	return n;
}

void options_parse(struct options *o, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "calls", required_argument, NULL, 'c' },
		{ "seconds", required_argument, NULL, 'e' },
		{ "threads", required_argument, NULL, 't' },
		{ "blind", no_argument, NULL, 'b' },
		{ }
	};
	int c;

	/* Output is line-buffered, since runs are long, and a user may watch their output. */
	setlinebuf(stdout);
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 's':
			o->seed = parse_number(optarg, -1ULL);
			break;
		case 'c':
			o->calls = parse_number(optarg, -1ULL);
			break;
		case 'e':
			o->seconds = parse_number(optarg, -1U);
			break;
		case 't':
			o->threads = parse_number(optarg, MAX_THREADS);
			break;
		case 'b':
			o->blind = true;
			break;
		default:
			exit(EXIT_USAGE);
		}
	}
	if (!o->threads)
		o->threads = 1;
	printf("# --seed %llu --calls %llu --threads %u%s\n", o->seed, o->calls,
	       o->threads, o->blind ? " --blind" : "");
	started = now();
}

unsigned int options_elapsed(void)
{
	return now() - started;
}

bool options_time_is_over(const struct options *o)
{
	return o->seconds && options_elapsed() >= o->seconds;
}

__u64 env_number(const char *name, __u64 otherwise)
{
	const char *value = getenv(name);

	return value ? parse_number(value, -1ULL) : otherwise;
}
