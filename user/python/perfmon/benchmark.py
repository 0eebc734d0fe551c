# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts suites that were written for pytest-benchmark or pytest-codspeed, as they are.

pytest -p perfmon.benchmark --exact-save main

The fixture `benchmark` and the mark `benchmark` then count like the fixture `exact`, and so do `codspeed_benchmark` and its
mark. Options of the other plugins are accepted, and have no effect.
"""

import functools
import inspect
import operator
import sys

import pytest

OTHER_PLUGINS = ("benchmark", "codspeed")
"""The names of plugins that have a fixture `benchmark`, too."""

FIXTURES = {"benchmark", "codspeed_benchmark"}
"""The names of the fixtures, which are also the names of marks."""

IGNORED_OPTIONS = {
    "benchmark": {
        None: "calibration-precision columns cprofile cprofile-dump cprofile-loops cprofile-top group-by json max-time min-rounds "
        "min-time name save sort storage time-unit timer warmup-iterations",
        "?": "compare histogram netrc warmup",
        "+": "compare-fail",
        0: "autosave disable disable-gc enable only quiet save-data skip verbose",
    },
    "codspeed": {
        None: "max-rounds max-time mode profile-folder warmup-time",
        0: "",
    },
}
"""The options of each of the other plugins, without its name, by the number of their values as for argparse."""


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config, parser):
    """Adds the options of the plugins that are not there, since a suite's configuration may have them.

    In `pytest_addoption` it would not be known yet which plugins are there.
    """
    group = parser.getgroup("perfmon.benchmark", "options of other plugins, which have no effect")
    for plugin, options in IGNORED_OPTIONS.items():
        if early_config.pluginmanager.hasplugin(plugin):
            continue
        for values, names in options.items():
            settings = {"action": "store_true"} if values == 0 else {"action": "append", "nargs": values}
            for name in names.split() or [""]:
                option = f"--{plugin}-{name}".rstrip("-")
                group.addoption(option, dest=_destination(option), help="has no effect", **settings)


def _destination(option):
    """Returns the name of an option's value in the configuration."""
    return "perfmon_ignored" + option.replace("-", "_")


def pytest_report_header(config):
    """Names the options that have no effect."""
    given = [
        option
        for plugin, options in IGNORED_OPTIONS.items()
        for names in options.values()
        for name in names.split() or [""]
        for option in [f"--{plugin}-{name}".rstrip("-")]
        if config.getoption(_destination(option), None)
    ]
    return [f"perfmon.benchmark: without effect: {', '.join(given)}"] if given else []


def pytest_configure(config):
    others = [name for name in OTHER_PLUGINS if config.pluginmanager.hasplugin(name)]
    if others:
        advice = " ".join(f"-p no:{name}" for name in others)
        raise pytest.UsageError(f"-p perfmon.benchmark: another plugin has a fixture `benchmark`; add {advice}")
    for name in sorted(FIXTURES):
        config.addinivalue_line("markers", f"{name}: counts the whole test, unless it has the fixture `benchmark`")


class _NoStats:
    """The times of a benchmark, which are not measured. It is false, as in a suite that asks `if benchmark.stats`."""

    def __bool__(self):
        return False

    def _refuse(self, name):
        raise NotImplementedError(
            f"benchmark.stats: perfmon.benchmark counts instructions and has no times ({name}).\n"
            "Ask for them only `if benchmark.stats`; --exact-fail-if limits the instructions."
        )

    __getattr__ = __getitem__ = _refuse


class Benchmark:
    """Counts a function, which it calls as often as the fixture `exact` does, and once more for the result."""

    def __init__(self, exact, node):
        self._exact = exact
        self._undo = []
        # Attributes that suites of pytest-benchmark read and set.
        self.name = node.name
        self.fullname = node.nodeid
        self.group = None
        self.extra_info = {}
        self.stats = _NoStats()

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

    def weave(self, target):
        """Counts the first call that the test makes of a function; `target` is the function, or its name with its module's.

        The function is replaced in its module or class until the test ends.
        """
        if callable(target):
            module, path = sys.modules[target.__module__], target.__qualname__
        else:
            parts = target.split(".")
            imported = [".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in sys.modules]
            if not imported:
                raise ValueError(f"benchmark.weave: the module of {target!r} is not imported")
            module, path = sys.modules[imported[0]], target[len(imported[0]) + 1 :]
        parent, _, name = path.rpartition(".")
        owner = operator.attrgetter(parent)(module) if parent else module
        function = getattr(owner, name)
        raw = inspect.getattr_static(owner, name)
        if isinstance(raw, classmethod):
            raise TypeError(f"benchmark.weave: {target!r} is a method of a class: count the test that calls it instead")
        has_begun = False

        @functools.wraps(function)
        def counted(*args, **kwargs):
            nonlocal has_begun
            # A test has one count, and the function may call itself.
            if has_begun:
                return function(*args, **kwargs)
            has_begun = True
            return self(function, *args, **kwargs)

        # A function that the class inherits is not its own afterwards, either.
        is_own = name in vars(owner)
        self._undo.append(functools.partial(setattr, owner, name, raw) if is_own else functools.partial(delattr, owner, name))
        setattr(owner, name, staticmethod(counted) if isinstance(raw, staticmethod) else counted)

    patch = weave

    def _end(self):
        while self._undo:
            self._undo.pop()()


@pytest.fixture
def benchmark(exact, request):
    """Returns a function that calls another function, counts it, and returns its result."""
    benchmark = Benchmark(exact, request.node)
    yield benchmark
    benchmark._end()


@pytest.fixture
def codspeed_benchmark(benchmark):
    """Returns the fixture `benchmark`."""
    return benchmark


def _is_counted_whole(item):
    has_mark = any(item.get_closest_marker(name) for name in FIXTURES)
    return has_mark and FIXTURES.isdisjoint(item.fixturenames)


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
