// SPDX-License-Identifier: MIT OR Apache-2.0
//
// libperfmon for C++11: counters that close themselves, regions that end with their scope,
// and functions that count a function. Errors are exceptions.
#ifndef PERFMON_HPP
#define PERFMON_HPP

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <strings.h>

#include <perfmon.h>

namespace perfmon {

// The error of a failed call: code() is the errno, what() returns the message with the cause and
// advice.
class error : public std::system_error {
public:
	error() : std::system_error(errno, std::generic_category()), text_(perfmon_error()) {}
	const char *what() const noexcept override { return text_.c_str(); }

private:
	std::string text_;
};

// Events of the calling thread that count together. They are closed at the end of the scope.
class counters {
public:
	explicit counters(const char *events, unsigned int flags = 0) : raw_(perfmon_open(events, flags))
	{
		if (!raw_)
			throw error();
	}
	counters(counters &&other) noexcept : raw_(other.raw_) { other.raw_ = nullptr; }
	counters &operator=(counters &&other) noexcept
	{
		std::swap(raw_, other.raw_);
		return *this;
	}
	~counters() { perfmon_close(raw_); }

	void start() { check(perfmon_start(raw_)); }
	void stop() { check(perfmon_stop(raw_)); }
	void reset() { check(perfmon_reset(raw_)); }

	unsigned int size() const { return perfmon_size(raw_); }
	std::string name(unsigned int event) const
	{
		if (event >= size())
			throw std::out_of_range("perfmon::counters::name");
		return perfmon_name(raw_, event);
	}
	std::uint64_t overhead(unsigned int event) const { return perfmon_overhead(raw_, event); }

	// Returns the counts, all read at one moment, in the order of the list.
	std::vector<std::uint64_t> read() const
	{
		std::vector<std::uint64_t> counts(size());

		check(perfmon_read(raw_, counts.data()));
		return counts;
	}

	// Returns the number of tasks that are no longer counted, because they executed a program with more rights.
	std::uint64_t tasks_not_followed() const
	{
		std::uint64_t tasks;

		check(perfmon_tasks_not_followed(raw_, &tasks));
		return tasks;
	}

	// Returns the pointer that the functions of <perfmon.h> take.
	struct perfmon_counters *get() const { return raw_; }

private:
	static void check(int result)
	{
		if (result)
			throw error();
	}

	struct perfmon_counters *raw_;
};

// A pass of a region, from the construction to the end of the scope. The name must stay valid until then.
class region {
public:
	__attribute__((always_inline)) explicit region(const char *name) : name_(name) { PERFMON_BEGIN(name_); }
	__attribute__((always_inline)) ~region() { PERFMON_END(name_); }
	region(const region &) = delete;
	region &operator=(const region &) = delete;

private:
	const char *name_;
};

// Runs `work` as a pass of a region, and returns the counts of the markers' events, which are
// instructions:u unless perfmon_mark_events() or PERFMON_EVENTS chose other events.
template <typename Work>
std::vector<std::uint64_t> measure(Work &&work, const char *name = "measure")
{
	std::vector<std::uint64_t> counts(PERFMON_MARKED);

	{
		region pass(name);
		work();
	}
	int events = perfmon_last(counts.data());
	if (events < 0)
		throw error();
	counts.resize(events);
	return counts;
}

// Runs `work`, and returns the number of instructions that the calling thread executed in user mode.
template <typename Work>
std::uint64_t instructions(Work &&work)
{
	std::vector<std::uint64_t> counts = measure(std::forward<Work>(work), "instructions");

	for (unsigned int i = 0; i < counts.size(); i++)
		if (!strcasecmp(perfmon_marked(i), "instructions:u"))
			return counts[i];
	throw std::logic_error("perfmon::instructions: PERFMON_EVENTS or perfmon_mark_events() chose other events");
}

} // namespace perfmon

#endif
