# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures for pytest, which finds them when the package is installed.

def test_parsing_stays_cheap(instructions):
    assert instructions(parse, TEXT) < 1_000_000

def test_parsing(exact):
    exact(parse, TEXT)          # compared with the counts of another run: --exact-baseline
"""

import os

import pytest

import perfmon
from perfmon import _exact


def pytest_addoption(parser):
    group = parser.getgroup("perfmon", "exact counts of instructions")
    group.addoption(
        "--exact-save", metavar="NAME", help="write the counts of `exact` as the baseline NAME, or to the file NAME"
    )
    group.addoption(
        "--exact-baseline", metavar="NAME", help="compare with the baseline NAME, or with the file NAME"
    )
    group.addoption(
        "--exact-fail-if",
        metavar="CONDITION",
        action="append",
        default=[],
        help="fail a test if this condition holds, such as instructions:1%% (a growth) or 'instructions:u>5000' (a count); may be repeated",
    )


def pytest_configure(config):
    config.stash[_SESSION] = _Session(config)


class _Session:
    """The counts of a run of pytest, and the baseline that they are compared with."""

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
                self.baseline = _exact.Numbers.read(self.baseline_file(name))
        except FileNotFoundError as error:
            raise pytest.UsageError(
                f"--exact-baseline {name}: there is no file {error.filename}; create it with --exact-save {name}"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise pytest.UsageError(f"--exact: {error}") from None
        if not self.baseline and any(condition.is_relative for condition in self.conditions):
            raise pytest.UsageError("--exact-fail-if: a limit with % is a change: give --exact-baseline NAME, too")
        if self.save and hasattr(config, "workerinput"):
            raise pytest.UsageError("--exact-save can't be used with several processes (-n), because each has only a part of the counts")

    def baseline_file(self, name):
        return name if os.sep in name or name.endswith(".json") else str(self.folder / f"{name}.json")

    def add(self, name, passes):
        """Adds the counts of a function; returns the reason why its test fails, or None."""
        self.measured.passes[name] = passes
        now = self.measured.smallest_counts(name)
        before = (self.baseline and self.baseline.smallest_counts(name)) or [None] * len(now)
        for condition in self.conditions:
            index = _exact.EVENTS.index(condition.event)
            if condition.is_met(before[index], now[index]):
                self.has_failed = True
                return (
                    f"--exact-fail-if {condition.text} holds for {name}: {condition.event} is {now[index]:,}, "
                    f"change {_exact.format_difference(before[index], now[index])}"
                )
        return None


_SESSION = pytest.StashKey[_Session]()


def _skip_without_counters(session=None):
    """Skips the test without counters; fails it instead if the run has to compare or to save counts."""
    try:
        perfmon.check()
    except perfmon.Error as error:
        if session and (session.conditions or session.baseline or session.save):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture
def instructions():
    """Returns a function that calls another function and returns its instructions in user mode.

    The function is called `repeat` times, and the smallest count is returned, because the first
    calls fill caches of the interpreter. If nothing can be counted, the test is skipped.
    """
    _skip_without_counters()

    def count_function(function, *args, repeat=3, **kwargs):
        _exact.refuse_later_body(function)
        block = perfmon.count("instructions:u")
        least = None
        for _ in range(repeat):
            with block:
                result = function(*args, **kwargs)
            _exact.refuse_later_result(function, result)
            result = None
            least = block["instructions:u"] if least is None else min(least, block["instructions:u"])
        return least

    return count_function


@pytest.fixture
def exact(request):
    """Returns a function that counts another function, and compares the counts with --exact-baseline.

    The function is called until three calls in a row have equal counts. The counts are stored
    under the name of the test, followed by `/name` if a `name` is given, and returned as a dict
    from events to counts. With `setup=make`, the function takes the result of `make()` as its first
    argument, which is made anew for each call and not counted. If nothing can be counted, the test is skipped.
    """
    session = request.config.stash[_SESSION]
    _skip_without_counters(session)
    labels = set()

    def count_function(function, *args, name="", setup=None, **kwargs):
        label = f"{request.node.nodeid}/{name}" if name else request.node.nodeid
        if label in labels:
            raise ValueError(f"exact: {label} was counted already. Give each function of a test a name=")
        labels.add(label)
        passes = _exact.passes_of(function, args, kwargs, setup)
        reason = session.add(label, passes)
        request.node.stash.setdefault(_COUNTS, []).append((label, passes))
        if reason:
            pytest.fail(reason, pytrace=False)
        return dict(zip(_exact.EVENTS, session.measured.smallest_counts(label)))

    return count_function


def pytest_terminal_summary(terminalreporter, config):
    session = config.stash[_SESSION]
    measured = session.measured
    if not measured.passes:
        return
    terminalreporter.section("exact counts")
    old = session.baseline and session.baseline.machine
    if old and old != _exact.machine():
        terminalreporter.write_line(f"the baseline was measured on another processor, {old}; this is {_exact.machine()}")
    width = max(map(len, measured.passes))
    for name in measured.passes:
        before = session.baseline and session.baseline.smallest_counts(name)
        for index, (event, count) in enumerate(zip(_exact.EVENTS, measured.smallest_counts(name))):
            change = f"  {_exact.format_difference(before and before[index], count)}" if session.baseline else ""
            spread = measured.format_spread(name) if index == 0 else ""
            label = f"{name if index == 0 else '':{width}}"
            terminalreporter.write_line(f"{label}  {event:14}  {count:>14,}  {spread:8}{change}".rstrip())
    if any(condition.is_relative for condition in session.conditions):
        new = [name for name in measured.passes if not session.baseline.smallest_counts(name)]
        if new:
            terminalreporter.write_line(f"not compared, because the baseline lacks them: {', '.join(new)}")


def pytest_sessionfinish(session):
    run = session.config.stash[_SESSION]
    if not run.save or not run.measured.passes:
        return
    file = run.baseline_file(run.save)
    # Counts that fail a condition must not replace the baseline.
    baseline = session.config.getoption("exact_baseline")
    if run.has_failed and baseline and os.path.realpath(run.baseline_file(baseline)) == os.path.realpath(file):
        return
    run.measured.write(file)
