# SPDX-License-Identifier: MIT OR Apache-2.0
"""A fixture for pytest, which finds it by itself when the package is installed.

def test_parsing_stays_cheap(instructions):
    assert instructions(parse, TEXT) < 1_000_000
"""

import pytest

import perfmon


@pytest.fixture
def instructions():
    """Returns a function that calls another one and returns its instructions in user mode.

    The function is called some times, and the least count is returned: the first calls
    fill caches of the interpreter's. Where nothing can be counted, the test is skipped.
    """
    try:
        perfmon.check()
    except perfmon.Error as error:
        pytest.skip(str(error))

    def measure(function, *args, repeat=3, **kwargs):
        block = perfmon.count("instructions:u")
        least = None
        for _ in range(repeat):
            with block:
                function(*args, **kwargs)
            least = block["instructions:u"] if least is None else min(least, block["instructions:u"])
        return least

    return measure
