// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Catch2: tests how many instructions a function executes in user mode.
//
//     c++ -std=c++17 catch2.cc $(pkg-config --cflags --libs libperfmon catch2-with-main)
#include <catch2/catch_test_macros.hpp>
#include <perfmon.hpp>

#include <numeric>
#include <vector>

namespace {

std::uint64_t cost_of_sum(std::size_t n)
{
	std::vector<int> numbers(n, 1);

	return perfmon::instructions([&] {
		volatile int sum = std::accumulate(numbers.begin(), numbers.end(), 0);
		(void)sum;
	});
}

} // namespace

TEST_CASE("a sum costs the same each time")
{
	cost_of_sum(1000);	// Warms up: the first call does work that later calls don't.
	REQUIRE(cost_of_sum(1000) == cost_of_sum(1000));
}

TEST_CASE("a sum is linear")
{
	REQUIRE(cost_of_sum(3000) - cost_of_sum(2000) == cost_of_sum(2000) - cost_of_sum(1000));
	REQUIRE(cost_of_sum(1000) < 20000);
}
