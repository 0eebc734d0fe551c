# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions whose body runs after the call, and the arguments of the fixture `exact`: pytest exact_later.py"""

import pytest


def generate():
    yield from range(1000)


async def wait():
    return sum(range(1000))


async def generate_later():
    yield 1


class Callable:
    def __call__(self):
        yield 1


@pytest.mark.parametrize(
    "function", [generate, wait, generate_later, Callable(), lambda: generate(), lambda: wait(), lambda: generate_later()]
)
def test_a_body_that_runs_later_is_refused(exact, instructions, function):
    with pytest.raises(TypeError, match="its body runs after the call"):
        exact(function)
    with pytest.raises(TypeError, match="its body runs after the call"):
        instructions(function)


def test_a_function_that_runs_it_is_counted(exact):
    assert exact(lambda: list(generate()))["branches:u"] > 1000


def test_the_constructor_of_a_class_is_counted(exact):
    assert exact(Callable)["branches:u"] > 0


def test_each_call_gets_an_argument_of_its_own(exact):
    received = []

    def make():
        # Makes a thousand integers, which the count would show if this body were counted.
        return list(range(1000))

    def take(numbers, extra, last):
        received.append((len(numbers), extra, last))
        numbers.append(extra)

    counts = exact(take, 1, last=2, setup=make)
    assert received[0] == received[-1] == (1000, 1, 2)
    assert counts["instructions:u"] < exact(make, name="make")["instructions:u"]
