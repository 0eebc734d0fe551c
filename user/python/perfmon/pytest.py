# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures for pytest, which finds them by itself when the package is installed.

def test_parsing_stays_cheap(instructions):
    assert instructions(parse, TEXT) < 1_000_000

def test_parsing(exact):
    exact(parse, TEXT)          # compared with the numbers of another run: --exact-baseline
"""

import os

import pytest

import perfmon
from perfmon import _exact


def pytest_addoption(parser):
    group = parser.getgroup("perfmon", "exact counts of instructions")
    group.addoption(
        "--exact-save", metavar="NAME", help="write the numbers of `exact` as baseline NAME, or to the file of this path"
    )
    group.addoption(
        "--exact-baseline", metavar="NAME", help="compare with baseline NAME, or with the file of this path"
    )
    group.addoption(
        "--exact-fail-if",
        metavar="CONDITION",
        action="append",
        default=[],
        help="fail a test if this holds, as instructions:1%% for a growth, or 'instructions:u>5000'; may be repeated",
    )


def pytest_configure(config):
    config.stash[_SESSION] = _Session(config)


class _Session:
    """The numbers of a run of pytest, and those that they are compared with."""

    def __init__(self, config):
        self.folder = config.rootpath / ".perfmon"
        self.measured = _exact.Numbers()
        self.baseline = None
        self.has_failed = False
        self.save = config.getoption("exact_save")
        name = config.getoption("exact_baseline")
        try:
            self.conditions = [_exact.Condition(text) for text in config.getoption("exact_fail_if")]
            if name:
                self.baseline = _exact.Numbers.read(self.file_of(name))
        except FileNotFoundError as error:
            raise pytest.UsageError(
                f"--exact-baseline {name}: there is no file {error.filename}; make it with --exact-save {name}"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise pytest.UsageError(f"--exact: {error}") from None
        if not self.baseline and any(condition.is_relative for condition in self.conditions):
            raise pytest.UsageError("--exact-fail-if: a change needs --exact-baseline NAME to be one from")
        if self.save and hasattr(config, "workerinput"):
            raise pytest.UsageError("--exact-save: not with several processes (-n); each has a part of the numbers")

    def file_of(self, name):
        return name if os.sep in name or name.endswith(".json") else str(self.folder / f"{name}.json")

    def add(self, name, passes):
        """Takes the counts of a function; returns why its test fails, or None."""
        self.measured.passes[name] = passes
        now = self.measured.least(name)
        before = (self.baseline and self.baseline.least(name)) or [None] * len(now)
        for condition in self.conditions:
            place = _exact.EVENTS.index(condition.event)
            if condition.holds(before[place], now[place]):
                self.has_failed = True
                return (
                    f"--exact-fail-if {condition.text} holds for {name}: {condition.event} is {now[place]:,}, "
                    f"change {_exact.difference(before[place], now[place])}"
                )
        return None


_SESSION = pytest.StashKey[_Session]()


def _skip_without_counters(session=None):
    """Skips the test, or has it fail if the run is to judge or to keep what is counted."""
    try:
        perfmon.check()
    except perfmon.Error as error:
        if session and (session.conditions or session.baseline or session.save):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture
def instructions():
    """Returns a function that calls another one and returns its instructions in user mode.

    The function is called some times, and the least count is returned: the first calls
    fill caches of the interpreter's. Where nothing can be counted, the test is skipped.
    """
    _skip_without_counters()

    def measure(function, *args, repeat=3, **kwargs):
        block = perfmon.count("instructions:u")
        least = None
        for _ in range(repeat):
            with block:
                function(*args, **kwargs)
            least = block["instructions:u"] if least is None else min(least, block["instructions:u"])
        return least

    return measure


@pytest.fixture
def exact(request):
    """Returns a function that counts another one, and compares it with the baseline of --exact-baseline.

    The function is called until it counts the same number in several calls in a row. What it
    counts is kept under the name of the test, with a `name` behind it if there is one, and returned:
    a dict from events to counts. Where nothing can be counted, the test is skipped.
    """
    session = request.config.stash[_SESSION]
    _skip_without_counters(session)
    labels = set()

    def measure(function, *args, name="", **kwargs):
        label = f"{request.node.nodeid}/{name}" if name else request.node.nodeid
        if label in labels:
            raise ValueError(f"exact: {label} was counted already. Give each function of a test a name=")
        labels.add(label)
        passes = _exact.passes_of(function, args, kwargs)
        reason = session.add(label, passes)
        if reason:
            pytest.fail(reason, pytrace=False)
        return dict(zip(_exact.EVENTS, session.measured.least(label)))

    return measure


def pytest_terminal_summary(terminalreporter, config):
    session = config.stash[_SESSION]
    measured = session.measured
    if not measured.passes:
        return
    terminalreporter.section("exact counts")
    old = session.baseline and session.baseline.machine
    if old and old != _exact.machine():
        terminalreporter.write_line(f"the baseline is of another processor, {old}; this is {_exact.machine()}")
    width = max(map(len, measured.passes))
    for name in measured.passes:
        before = session.baseline and session.baseline.least(name)
        for place, (event, count) in enumerate(zip(_exact.EVENTS, measured.least(name))):
            change = f"  {_exact.difference(before and before[place], count)}" if session.baseline else ""
            spread = measured.spread(name) if place == 0 else ""
            label = f"{name if place == 0 else '':{width}}"
            terminalreporter.write_line(f"{label}  {event:14}  {count:>14,}  {spread:8}{change}".rstrip())


def pytest_sessionfinish(session):
    run = session.config.stash[_SESSION]
    if not run.save or not run.measured.passes:
        return
    file = run.file_of(run.save)
    # A change that fails must not become what the next one is compared with.
    baseline = session.config.getoption("exact_baseline")
    if run.has_failed and baseline and os.path.realpath(run.file_of(baseline)) == os.path.realpath(file):
        return
    run.measured.write(file)
