# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures for pytest, which finds them when the package is installed.

def test_parsing_stays_cheap(instructions):
    assert instructions(parse, TEXT) < 1_000_000

def test_parsing(exact):
    exact(parse, TEXT)          # compared with the counts of another run: --exact-baseline
"""

import os
import shutil
import sys

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


    group.addoption(
        "--exact-vm",
        action="store_true",
        help="run pytest in the virtual machine of `pmctl vm` if there is no driver here; the variable PERFMON_EXACT_VM has "
        "further options of `pmctl vm`",
    )


_IN_VM = "PERFMON_EXACT_IN_VM"
"""The environment variable that is set in the virtual machine that --exact-vm has started."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Replaces the process by a run of pytest in the virtual machine, if --exact-vm asks for it and there is no driver."""
    if not config.getoption("exact_vm") or os.path.exists("/dev/perfmon") or os.environ.get(_IN_VM):
        return
    if config.option.help or config.option.version:
        return
    try:
        pmctl = _pmctl()
        folders = [config.rootpath / ".perfmon"]
        save = config.getoption("exact_save")
        if save and _is_path(save):
            folders.append(os.path.dirname(os.path.abspath(save)))
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise pytest.UsageError(f"--exact-vm: {error}") from None
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(pmctl, _vm_command(pmctl, folders, config.invocation_params.args))


def _pmctl():
    """Returns the path of pmctl, which the package perfmon-vm installs beside the interpreter."""
    beside_interpreter = os.path.join(os.path.dirname(sys.executable), "pmctl")
    pmctl = shutil.which("pmctl") or (beside_interpreter if os.access(beside_interpreter, os.X_OK) else None)
    if not pmctl:
        raise FileNotFoundError("there is no pmctl, whose virtual machine has the driver: pip install perfmon_vm-*.whl")
    return pmctl


def _vm_command(pmctl, folders, arguments):
    """Returns the command that runs pytest as this process was started, in the virtual machine."""
    command = [pmctl, "vm", "--env", f"{_IN_VM}=1"]
    for name in ("PYTHONPATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        if name in os.environ:
            command += ["--env", name]
    for folder in folders:
        command += ["--write", str(folder)]
    command += os.environ.get("PERFMON_EXACT_VM", "").split()
    is_module = os.path.basename(sys.argv[0]) == "__main__.py"
    program = ["-m", "pytest"] if is_module else [sys.argv[0]]
    return [*command, "--run", "--", sys.executable, *program, *arguments]


def _is_path(name):
    return os.sep in name or name.endswith(".json")


def pytest_configure(config):
    session = config.stash[_SESSION] = _Session(config)
    if not session.is_worker:
        config.pluginmanager.register(_Collector(session), "perfmon-exact-collector")


class _Session:
    """The counts of a run of pytest, and the baseline that they are compared with."""

    def __init__(self, config):
        self.folder = config.rootpath / ".perfmon"
        self.measured = _exact.Numbers()
        self.baseline = None
        self.has_failed = False
        # The line of the summary about --exact-save; None before the counts are saved.
        self.save_message = None
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
        except (ValueError, OSError) as error:
            raise pytest.UsageError(f"--exact: {error}") from None
        if not self.baseline and any(condition.is_relative for condition in self.conditions):
            raise pytest.UsageError("--exact-fail-if: a limit with % is a change: give --exact-baseline NAME, too")
        self.is_worker = hasattr(config, "workerinput")
        if self.save and not self.is_worker:
            try:
                # Checks this before anything is counted, since the counts would be lost otherwise.
                _exact.Numbers.read_to_extend(self.baseline_file(self.save))
            except (ValueError, OSError) as error:
                raise pytest.UsageError(f"--exact-save: {error}") from None

    def baseline_file(self, name):
        return name if _is_path(name) else str(self.folder / f"{name}.json")

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

    def has_compared_nothing(self):
        """Returns whether a condition is about changes, and the baseline has none of the counted functions."""
        has_changes = any(condition.is_relative for condition in self.conditions)
        return bool(has_changes and self.measured.passes) and not any(map(self.baseline.passes.get, self.measured.passes))

    def write(self, baseline):
        """Saves the counts, unless they fail a condition and would replace the baseline. Returns a line about it."""
        file = self.baseline_file(self.save)
        if not self.measured.passes:
            return f"--exact-save: nothing was saved in {file}, because no test has counted with `exact`"
        is_baseline = baseline and os.path.realpath(self.baseline_file(baseline)) == os.path.realpath(file)
        if self.has_failed and is_baseline:
            return f"--exact-save: {file} was not changed, because it is the baseline and a condition holds"
        self.measured.write(file)
        if _exact.is_lost_in_machine(file):
            return (
                f"WARNING: --exact-save: {file} is lost when the virtual machine ends. Run pytest with --exact-vm on the host, "
                f"or with `pmctl vm --write {os.path.dirname(file) or '.'} --run -- ...`"
            )
        return f"saved in {file}"


class _Collector:
    """Adds the counts of tests that other processes have run."""

    def __init__(self, session):
        self.session = session

    def pytest_runtest_logreport(self, report):
        for name, passes in getattr(report, "perfmon_exact", ()):
            if name not in self.session.measured.passes:
                self.session.add(name, passes)


_SESSION = pytest.StashKey[_Session]()


def _skip_without_counters(session=None):
    """Skips the test if there are no counters; fails it instead if the run has to compare or to save counts."""
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
        smallest = None
        for _ in range(repeat):
            with block:
                result = function(*args, **kwargs)
            _exact.refuse_later_result(function, result)
            result = None
            smallest = block["instructions:u"] if smallest is None else min(smallest, block["instructions:u"])
        return smallest

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


_COUNTS = pytest.StashKey[list]()
"""The counts of a test: pairs of a name and passes."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Puts the counts into the report, which pytest-xdist sends to the process that saves them."""
    report = (yield).get_result()
    if report.when == "call":
        report.perfmon_exact = [
            [name, [list(counts) for counts in passes]] for name, passes in item.stash.get(_COUNTS, [])
        ]


def pytest_terminal_summary(terminalreporter, config):
    session = config.stash[_SESSION]
    measured = session.measured
    if not measured.passes and not session.save_message:
        return
    terminalreporter.section("exact counts")
    old = session.baseline and session.baseline.machine
    if old and old != _exact.machine():
        terminalreporter.write_line(f"the baseline was measured on another processor, {old}; this is {_exact.machine()}")
    width = max(map(len, measured.passes), default=0)
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
        if session.has_compared_nothing():
            terminalreporter.write_line(
                "ERROR: --exact-fail-if: the baseline has none of the counted functions, so nothing was compared: "
                "save them with --exact-save first"
            )


    if session.save_message:
        terminalreporter.write_line(session.save_message)


def pytest_sessionfinish(session):
    run = session.config.stash[_SESSION]
    if run.is_worker:
        return
    if run.has_compared_nothing() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.USAGE_ERROR
    if not run.save:
        return
    try:
        run.save_message = run.write(session.config.getoption("exact_baseline"))
    except (OSError, ValueError) as error:
        run.save_message = f"ERROR: --exact-save: nothing was saved: {error}"
        session.exitstatus = pytest.ExitCode.USAGE_ERROR
