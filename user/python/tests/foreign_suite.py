# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests in the forms that pytest-benchmark and pytest-codspeed document. Run with `-p perfmon.benchmark`."""

import pytest


def add(a, b=0, name=""):
    return a + b


def test_call(benchmark):
    assert benchmark(add, 1, b=2, name="x") == 3


def test_decorator(benchmark):
    calls = []

    @benchmark
    def _():
        calls.append(add(1))

    assert calls


def test_pedantic(benchmark):
    benchmark.group = "adding"
    benchmark.extra_info["a"] = 1
    assert benchmark.pedantic(add, args=(1,), kwargs={"b": 4}, rounds=100, iterations=5) == 5
    # A test can be counted only once.
    with pytest.raises(ValueError, match="counted already"):
        benchmark(add, 1)


def test_setup(benchmark):
    made = []

    def make():
        made.append([3, 1, 2])
        return (made[-1],), {"reverse": True}

    assert benchmark.pedantic(sorted, setup=make, rounds=3) == [3, 2, 1]
    assert len(made) >= 3


def test_teardown(benchmark):
    with pytest.raises(NotImplementedError):
        benchmark.pedantic(add, args=(1,), teardown=print)


def test_name(benchmark):
    assert benchmark.name == "test_name" and benchmark.fullname.endswith("::test_name")
    assert benchmark(add, 1) == 1
    assert not benchmark.stats
    with pytest.raises(NotImplementedError, match="has no times"):
        benchmark.stats["mean"]


def count_down(n):
    return count_down(n - 1) if n else "done"


def test_weave(benchmark):
    function = count_down
    benchmark.weave(count_down)
    assert count_down is not function
    assert [count_down(100), count_down(3)] == ["done"] * 2
    benchmark._end()
    assert count_down is function


class Counted:
    @staticmethod
    def triple(n):
        return 3 * n


def test_weave_static(benchmark):
    benchmark.weave(f"{__name__}.Counted.triple")
    assert [Counted().triple(2), Counted.triple(3)] == [6, 9]
    benchmark._end()
    assert [Counted().triple(2), Counted.triple(3)] == [6, 9]


def test_codspeed(codspeed_benchmark):
    assert codspeed_benchmark(add, 1) == 1


@pytest.mark.codspeed_benchmark
def test_marked():
    assert sum(range(1000)) == 499500


@pytest.mark.benchmark
def test_whole(tmp_path):
    assert tmp_path.name and sum(range(1000)) == 499500


def test_not_counted():
    assert True
