# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests with the fixture `exact`, as users of the package write them: pytest exact_fixture.py"""

import os

MORE = int(os.environ.get("MORE", "0"))


def work(n):
    """Executes more if the variable MORE is set, to simulate a change of the program."""
    return sum(range(n + MORE))


def test_work(exact):
    counts = exact(work, 1000)
    assert counts["instructions:u"] > counts["branches:u"] > 1000


def test_two_sizes(exact):
    assert exact(work, 10, name="ten")["branches:u"] < exact(work, 100, name="hundred")["branches:u"]
