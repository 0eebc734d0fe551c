// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Google Benchmark: shows the instructions of an iteration in a column.
//
//     c++ google_benchmark.cc $(pkg-config --cflags --libs libperfmon benchmark)
//
// Each benchmark opens counters, starts and stops them around its loop, and reports the counts
// divided by the iterations. They include the two or three instructions that the loop of Google
// Benchmark executes itself in each iteration.
#include <benchmark/benchmark.h>
#include <perfmon.hpp>

#include <numeric>
#include <vector>

namespace {

// Counts from its construction to its destruction, and adds the counts to the benchmark's columns.
class CountedLoop {
public:
	explicit CountedLoop(benchmark::State &state) : state_(state), counters_("instructions:u,branches:u")
	{
		counters_.start();
	}
	~CountedLoop()
	{
		counters_.stop();
		auto counts = counters_.read();

		for (unsigned int i = 0; i < counters_.size(); i++)
			state_.counters[counters_.name(i)] =
				benchmark::Counter(static_cast<double>(counts[i] - counters_.overhead(i)),
						   benchmark::Counter::kAvgIterations);
	}

private:
	benchmark::State &state_;
	perfmon::counters counters_;
};

void sum(benchmark::State &state)
{
	std::vector<int> numbers(state.range(0), 1);
	CountedLoop counted(state);

	for (auto _ : state)
		benchmark::DoNotOptimize(std::accumulate(numbers.begin(), numbers.end(), 0));
}
BENCHMARK(sum)->Arg(1000)->Arg(2000);

} // namespace

BENCHMARK_MAIN();
