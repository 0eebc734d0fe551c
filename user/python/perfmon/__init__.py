# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exact counts of instructions and other events of Python code, through /dev/perfmon.

>>> import perfmon
>>> with perfmon.count("instructions:u", "branches:u") as c:
...     text = "-".join(map(str, range(1000)))
>>> c["instructions:u"]                                            # doctest: +SKIP
188213

A count comes from a hardware counter, or there is an exception: nothing is estimated.
"""

import fnmatch as _fnmatch
import functools as _functools
import html as _html
import inspect as _inspect
import os as _os
import threading as _threading
from collections import deque as _deque
from collections.abc import Mapping as _Mapping

from ._perfmon import Block as _Block
from ._perfmon import BusyError, DeviceError, Error, EventError
from ._perfmon import __version__ as __version__
from ._perfmon import names as _names

__all__ = ["BusyError", "DeviceError", "Error", "EventError", "available", "check", "count", "list"]


class count(_Block, _Mapping):
    """Counts events of a block of code.

    ``count("instructions:u", "branches:u")`` is a context manager and a decorator, and has
    ``start()`` and ``stop()``. It maps the names of the events to their counts:
    ``c["instructions:u"]``, ``c.branches``, ``dict(c)``. While the block runs, these are
    the current counts. Each start begins at 0.

    An event is named as for ``pmctl stat -e``: ``instructions``, ``cycles:u`` (in user mode
    only), ``:k`` (in the kernel only), ``L1-dcache-load-misses``, ``INST_RETIRED.ANY``,
    ``r01c2``. `perfmon.list` returns the names.

    By default the calling thread is counted. With ``process=True`` all threads of the process
    are counted, and the threads and processes that they create meanwhile. With
    ``cgroup="system.slice"`` all tasks of this cgroup and of its descendants are counted, on
    all CPUs.

    Each call of a decorated function is counted. The sums are in ``function.count``, and the
    number of calls in ``function.count.calls``. A recursive call is part of the outer one.

    A child process of fork has no counts: leaving the block there has no effect on the
    parent's counts.
    """

    def __new__(cls, *events, process=False, cgroup=None):
        for event in events:
            if not isinstance(event, str):
                raise TypeError(f'an event is a string: perfmon.count("a", "b"), not {_kind(event)}')
            if not _is_text(event):
                raise EventError(f"no event is called {event!a}\n`perfmon.list()` has the names.")
        return super().__new__(cls, events, process, cgroup)

    def __init__(self, *events, process=False, cgroup=None):
        self._sums = None
        """The sums of the calls, for a decorated function."""

    @property
    def events(self):
        """The names of the events, in the order in which they were given."""
        return tuple(self._names())

    @property
    def calls(self):
        """The number of calls of the decorated function that are in the counts."""
        return self._sums.totals()[0] if self._sums else 0

    @property
    def overhead(self):
        """A `dict` of the counts of an empty block, which every count includes.

        Reading the property measures the counts: the median of some empty blocks, because the
        interpreter adapts its bytecode during the first blocks. The result is not subtracted
        from other counts.
        """
        probe = self._new_block()
        passes = []
        for _ in range(_OVERHEAD_PASSES):
            with probe:
                pass
            passes.append(probe._counts())
        medians = (sorted(counts)[_OVERHEAD_PASSES // 2] for counts in zip(*passes))
        return dict(zip(self.events, medians))

    @property
    def tasks_not_followed(self):
        """The number of tasks that are no longer counted since they executed a program with more rights.

        Such a program is setuid or setgid, has capabilities, or may not be read. The counts
        lack what these tasks did from then on.
        """
        return self._sums.totals()[2] if self._sums else self._tasks_not_followed()

    def __getitem__(self, event):
        values = self._values()
        if event not in values:
            raise KeyError(f"{event!r} is not counted; the counted events are {', '.join(values)}")
        return values[event]

    def __iter__(self):
        return iter(self._names())

    def __len__(self):
        return len(self._names())

    def __getattr__(self, name):
        if not name.startswith("_"):
            matches = [event for event in self._names() if _attribute(event) == name]
            if len(matches) == 1:
                return self[matches[0]]
            if matches:
                names = ", ".join(matches)
                raise AttributeError(f"`{name}` may be any of {names}: use c[\"{matches[0]}\"]")
        raise AttributeError(f"there is no attribute `{name}`, and no counted event has this name")

    def _new_block(self):
        return count(*self.events, process=self.process, cgroup=self.cgroup)

    def _values(self):
        counts = self._sums.totals()[1] if self._sums else self._counts()
        if counts is None:
            raise Error("nothing has been counted yet\nUse the object in a `with` statement, or call `start()`.")
        return dict(zip(self._names(), counts))

    def __call__(self, function):
        _refuse_uncountable(function)
        totals = self._new_block()
        totals._sums = _Sums(len(self))
        local = _threading.local()

        @_functools.wraps(function)
        def counted(*args, **kwargs):
            if getattr(local, "inside", False):
                return function(*args, **kwargs)
            block = totals._new_block()
            local.inside = True
            try:
                with block:
                    return function(*args, **kwargs)
            finally:
                local.inside = False
                # A child that the function forked has no counts.
                counts = None if block._is_inherited() else block._counts()
                if counts is not None:
                    totals._sums.add(counts, block.tasks_not_followed)

        counted.count = totals
        return counted

    def __repr__(self):
        try:
            values = self._values()
        except Error:
            return f"<perfmon.count of {', '.join(self._names())}: nothing counted yet>"
        rows = ", ".join(f"{event}: {value:,}" for event, value in values.items())
        return f"<perfmon.count {rows}>"

    def _repr_html_(self):
        try:
            values = self._values()
        except Error:
            return _html.escape(repr(self))
        rows = (
            f"<tr><th style='text-align:left'>{_html.escape(event)}</th><td style='text-align:right'>{value:,}</td></tr>"
            for event, value in values.items()
        )
        return f"<table>{''.join(rows)}</table>"


_OVERHEAD_PASSES = 33

class _Sums:
    """The sums of the calls of a decorated function.

    While the sums change, a finalizer or a signal handler may run in the same thread, and call the function. So
    calls are queued, and only the outermost of such calls takes them from the queue.
    """

    def __init__(self, length):
        self._totals = (0, [0] * length, 0)
        self._queue = _deque()
        self._adding_thread = None

    def add(self, counts, tasks_not_followed):
        """Adds a call."""
        self._queue.append((counts, tasks_not_followed))
        self.totals()

    def totals(self):
        """Returns the number of calls, the sums of the counts, and of the tasks that are not followed."""
        thread = _threading.get_ident()
        with _lock_of_sums:
            if self._adding_thread != thread:
                self._adding_thread = thread
                try:
                    while self._queue:
                        calls, sums, tasks = self._totals
                        counts, tasks_not_followed = self._queue.popleft()
                        self._totals = (calls + 1, [*map(int.__add__, sums, counts)], tasks + tasks_not_followed)
                finally:
                    self._adding_thread = None
            return self._totals


_lock_of_sums = _threading.RLock()
"""Locked while the sums of a decorated function change."""


def _renew_lock():
    """Replaces the lock in a child of fork, in which the thread that held it is missing."""
    global _lock_of_sums
    _lock_of_sums = _threading.RLock()


_os.register_at_fork(after_in_child=_renew_lock)


_RUNS_LATER = "its body runs after the call"
_LATER_KINDS = (
    (_inspect.isgeneratorfunction, "a generator function"),
    (_inspect.iscoroutinefunction, "a coroutine function"),
    (_inspect.isasyncgenfunction, "an async generator function"),
)
"""Kinds of functions whose body runs after the call: a test, and the kind."""


def _called_function(function):
    """Returns the function that a `functools.partial` calls."""
    while isinstance(function, _functools.partial):
        function = function.func
    return function


def _refuse_uncountable(function):
    """Raises an exception if a function can't be decorated."""
    if _inspect.isclass(_called_function(function)):
        raise TypeError(
            f"{_called_function(function).__name__} is a class: a call of it only makes an object\nDecorate its methods."
        )
    _refuse_later_body(
        function,
        "Put `with perfmon.count(...)` into it, around code without `await` and `yield`: the thread's other tasks and the "
        "caller, which run there meanwhile, count too.",
    )


def _refuse_later_body(function, advice):
    """Raises an exception if a call of the function runs nothing of its body."""
    called = _called_function(function)
    # The method that a call of an object runs.
    method = getattr(type(called), "__call__", None)
    for is_kind, kind in _LATER_KINDS:
        if is_kind(called) or (is_kind(method) and not _inspect.isclass(called)):
            name = getattr(called, "__name__", repr(called))
            raise TypeError(f"{name} is {kind}: {_RUNS_LATER}\n{advice}")


def _is_text(value):
    """Returns whether the string can be encoded in UTF-8, that is, has no lone surrogates."""
    return not any("\ud800" <= c <= "\udfff" for c in value)


def _kind(value):
    """Returns the type of the value with its article: `a list`."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _attribute(event):
    """Returns the name as an attribute: `branch_misses` for `branch-misses:u`."""
    return "".join(c if c.isalnum() else "_" for c in event.partition(":")[0])


def list(pattern="*"):
    """Returns the names of the events that this CPU can count and that match the pattern.

    The pattern is a glob, in which case does not matter: ``*branch*``, ``L1-?cache-*``.
    """
    if not isinstance(pattern, str):
        raise TypeError(f'a pattern is a string: perfmon.list("*branch*"), not {_kind(pattern)}')
    lower_pattern = pattern.lower()
    return [name for name in _names() if _fnmatch.fnmatchcase(name.lower(), lower_pattern)]


def check():
    """Does nothing if events can be counted here; raises an exception with the reason if they can't."""
    _Block._open_probe()


def available():
    """Returns whether events can be counted here; `check` raises the reason if they can't."""
    try:
        check()
    except Error:
        return False
    return True
