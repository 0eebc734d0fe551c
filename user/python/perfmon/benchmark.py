# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts suites that were written for pytest-benchmark or pytest-codspeed, as they are.

pytest -p perfmon.benchmark --exact-save main

The fixture `benchmark` and the mark `benchmark` then count like the fixture `exact`.
"""

import functools

import pytest

OTHER_PLUGINS = ("benchmark", "codspeed")
"""The names of plugins that have a fixture `benchmark`, too."""


def pytest_configure(config):
    others = [name for name in OTHER_PLUGINS if config.pluginmanager.hasplugin(name)]
    if others:
        advice = " ".join(f"-p no:{name}" for name in others)
        raise pytest.UsageError(f"-p perfmon.benchmark: another plugin has a fixture `benchmark`; add {advice}")
    config.addinivalue_line("markers", "benchmark: counts the whole test, unless it has the fixture `benchmark`")


class Benchmark:
    """Counts a function, which it calls as often as the fixture `exact` does, and once more for the result."""

    def __init__(self, exact):
        self._exact = exact
        # Attributes that suites of pytest-benchmark set.
        self.group = None
        self.extra_info = {}

    def __call__(self, function, *args, **kwargs):
        """Counts the function, and returns its result."""
        # Binds the keyword arguments, since some may have the names of arguments of `exact`.
        self._exact(functools.partial(function, **kwargs) if kwargs else function, *args)
        return function(*args, **kwargs)

    def pedantic(self, target, args=(), kwargs=None, setup=None, rounds=1, iterations=1, teardown=None, **others):
        """Counts the function, and returns its result. `setup` runs before each call, and may return the arguments.

        The numbers of rounds and of iterations have no effect: the function is called until its counts are stable.
        """
        if teardown:
            raise NotImplementedError("benchmark.pedantic: perfmon.benchmark can't run a teardown after each call")
        kwargs = kwargs or {}
        if not setup:
            return self(target, *args, **kwargs)

        def make():
            return setup() or (args, kwargs)

        self._exact(lambda given: target(*given[0], **given[1]), setup=make)
        args, kwargs = make()
        return target(*args, **kwargs)


@pytest.fixture
def benchmark(exact):
    """Returns a function that calls another function, counts it, and returns its result."""
    return Benchmark(exact)


def _is_counted_whole(item):
    return item.get_closest_marker("benchmark") and "benchmark" not in item.fixturenames


def pytest_collection_modifyitems(items):
    """Lets tests that are counted as a whole have the fixture `exact`."""
    for item in items:
        if hasattr(item, "fixturenames") and _is_counted_whole(item) and "exact" not in item.fixturenames:
            item.fixturenames.append("exact")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Counts a test as a whole, as pytest-codspeed does if it has the mark and not the fixture."""
    if not _is_counted_whole(pyfuncitem):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    test = pyfuncitem.obj
    pyfuncitem.funcargs["exact"](functools.partial(test, **arguments) if arguments else test)
    return True
