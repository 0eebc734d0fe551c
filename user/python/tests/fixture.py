# SPDX-License-Identifier: MIT OR Apache-2.0
"""A test with the fixture `instructions`, as users of the package write it: pytest fixture.py"""


def test_a_sum_is_cheap(instructions):
    of_ten, of_a_thousand = (instructions(sum, range(n)) for n in (10, 1000))
    assert 0 < of_ten < of_a_thousand < 1_000_000
