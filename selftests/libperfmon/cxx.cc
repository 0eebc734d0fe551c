// SPDX-License-Identifier: GPL-2.0-only
//
// libperfmon in C++: compares counts of a known loop with those of perf in the same boot, as
// TAP. Destructors close counters, and errors are exceptions.
#include <perfmon.hpp>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exact_loop.h"

namespace {

constexpr unsigned kLoop = 1000;
constexpr int kPasses = 100;

int cases;
int failures;

void check(bool is_right, const char *name)
{
	std::printf("%sok %d %s\n", is_right ? "" : "not ", ++cases, name);
	failures += !is_right;
}

// Opens an event of Linux's perf, once the module has none. Returns -1 after a time.
int open_perf()
{
	struct perf_event_attr attr = {};

	attr.type = PERF_TYPE_HARDWARE;
	attr.size = sizeof(attr);
	attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	attr.exclude_kernel = 1;
	attr.disabled = 1;
	for (int i = 0; i < 6000; i++) {
		int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

		if (fd >= 0)
			return fd;
		usleep(10000);
	}
	return -1;
}

// Returns perf's count of EXACT_LOOP(n), with the same calls around it for each n.
template <unsigned n>
__attribute__((noinline)) long long perfs_count(int fd)
{
	long long count = -1;

	ioctl(fd, PERF_EVENT_IOC_RESET, 0);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	EXACT_LOOP(n);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	return read(fd, &count, sizeof(count)) == sizeof(count) ? count : -1;
}

std::uint64_t sum_of(const char *name)
{
	struct perfmon_total totals[8];
	std::size_t n = perfmon_totals(totals, 8);

	for (std::size_t i = 0; i < n; i++)
		if (!std::strcmp(totals[i].name, name) && totals[i].passes == kPasses && !totals[i].failed)
			return totals[i].counts[0];
	return ~0ULL;
}

void pass_many(const char *name)
{
	for (int i = 0; i < kPasses; i++) {
		perfmon::region region(name);
		EXACT_LOOP(kLoop);
	}
}

std::uint64_t after_exception()
{
	try {
		perfmon::region region("thrown");
		throw std::runtime_error("it ends the region");
	} catch (const std::runtime_error &) {
	}
	struct perfmon_total totals[8];
	std::size_t n = perfmon_totals(totals, 8);

	return n && !std::strcmp(totals[n - 1].name, "thrown") ? totals[n - 1].passes : 0;
}

// Tests all kinds of counts of libperfmon. Returns the count of the loop.
std::uint64_t count_all()
{
	std::uint64_t nothing = perfmon::instructions([] {});
	std::uint64_t loop = perfmon::instructions([] { EXACT_LOOP(kLoop); });
	check(nothing == 0, "nothing_is_no_instruction");
	check(loop == EXACT_INSNS(kLoop), "a_function_is_counted_to_the_instruction");

	pass_many("scope");
	check(sum_of("scope") == kPasses * EXACT_INSNS(kLoop), "a_region_ends_with_its_scope");
	std::thread(pass_many, "thread").join();
	check(sum_of("thread") == kPasses * EXACT_INSNS(kLoop), "a_thread_has_its_own");
	check(after_exception() == 1, "an_exception_ends_a_region");

	perfmon::counters counters("instructions:u,branches:u");
	perfmon::counters moved(std::move(counters));
	moved.start();
	EXACT_LOOP(kLoop);
	moved.stop();
	auto counts = moved.read();
	check(counts.size() == 2 && counts[0] >= EXACT_INSNS(kLoop) && counts[0] < EXACT_INSNS(kLoop) + 200 &&
		      counts[1] >= EXACT_BRANCHES(kLoop) && counts[1] < EXACT_BRANCHES(kLoop) + 60,
	      "a_group_is_counted");
	check(moved.name(1) == "branches:u" && moved.overhead(0) > 0, "a_group_has_names");

	std::string message;
	try {
		perfmon::counters wrong("instrucions");
	} catch (const perfmon::error &error) {
		if (error.code() == std::errc::invalid_argument)
			message = error.what();
	}
	check(message.find("Did you mean `instructions`?") != std::string::npos, "an_error_is_an_exception");
	return loop;
}

} // namespace

int main()
{
	std::uint64_t loop = 0;

	std::printf("TAP version 13\n1..9\n");
	// perf gets the counters when the thread has exited, and with it its events.
	std::thread([&loop] {
		try {
			loop = count_all();
		} catch (const std::exception &error) {
			std::printf("# %s\n", error.what());
		}
	}).join();
	int fd = open_perf();
	long long perfs = perfs_count<kLoop>(fd) - perfs_count<1>(fd);
	check(perfs == static_cast<long long>(loop - EXACT_INSNS(1)), "the_count_is_perfs");
	return failures ? 1 : 0;
}
