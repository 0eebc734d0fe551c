# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts functions, stores the counts in files, and compares them: the part of the fixture `exact` without pytest.

The files have the format of `pmctl bench --save`.
"""

import contextlib
import fcntl
import gc
import inspect
import json
import math
import os
import re
import secrets

import perfmon

EVENTS = ("instructions:u", "branches:u")

SCHEMA = "pmctl-bench-v1"

MAX_PASSES = 40
"""The largest number of passes, if no three in a row are equal. The interpreter adapts in about ten passes."""


LATER_ADVICE = "Pass a function that runs it, such as `lambda: list(f())` or `lambda: asyncio.run(f())`."


def refuse_later_body(function):
    """Raises an exception if a call of the function only makes an object, whose body runs later."""
    perfmon._refuse_later_body(function, LATER_ADVICE)


def refuse_later_result(function, result):
    """Raises an exception if a call has returned an object whose body runs later. Closes the object, so that it causes no warning."""
    is_later = inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)
    if is_later:
        if hasattr(result, "close"):
            result.close()
        name = getattr(function, "__name__", repr(function))
        raise TypeError(f"{name} returns a {type(result).__name__}: its body runs after the call\n{LATER_ADVICE}")


def passes_of(function, args, kwargs, setup=None):
    """Returns the counts of two passes, if three in a row are equal, or else of all passes but the first.

    The function is called with the result of `setup`, if there is one, before its other arguments. Neither `setup` nor
    dropping a result is counted. The garbage collector is disabled meanwhile, because the time when it runs depends on
    the code before.
    """
    refuse_later_body(function)
    block = perfmon.count(*EVENTS)
    passes = []
    was_gc_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        while len(passes) < MAX_PASSES:
            arguments = (setup(), *args) if setup else args
            with block:
                result = function(*arguments, **kwargs)
            passes.append([block[event] for event in EVENTS])
            if len(passes) == 1:
                refuse_later_result(function, result)
            result = arguments = None
            # Two equal passes are not enough, because the interpreter may adapt its bytecode in the next one.
            if len(passes) > 2 and passes[-1] == passes[-2] == passes[-3]:
                return passes[-2:]
    finally:
        if was_gc_enabled:
            gc.enable()
    return passes[1:]


class Condition:
    """A condition `EVENT:LIMIT%`, `EVENT>LIMIT` or `EVENT<LIMIT`. A limit with % is a change from the baseline."""

    def __init__(self, text):
        self.text = text
        self.above = "<" not in text
        operator = ">" if ">" in text else "<" if "<" in text else ":"
        event, _, limit = text.rpartition(operator)
        self.is_relative = limit.endswith("%")
        if operator == ":" and not self.is_relative:
            raise ValueError(f"{text!r} is not of the form EVENT:LIMIT%, EVENT>LIMIT or EVENT<LIMIT")
        self.limit = float(limit.rstrip("%"))
        if not math.isfinite(self.limit) or (not self.is_relative and limit[:1] in "+-"):
            raise ValueError(f"{text!r}: the limit has to be a number; with a sign it is a change and needs %")
        self.event = event if ":" in event else f"{event}:u"
        if self.event not in EVENTS:
            raise ValueError(f"{text!r}: {event!r} is not counted; the counted events are {', '.join(EVENTS)}")

    def is_met(self, before, after):
        """Returns whether the numbers are beyond the limit. A limit of a change never holds if `before` is None."""
        value = after
        if self.is_relative:
            if before is None:
                return False
            # A growth from 0 is infinite.
            value = 100 * (after - before) / before if before else float("inf") if after else 0.0
        return value > self.limit if self.above else value < self.limit


class Numbers:
    """The passes of functions by name, and the name of the processor that counted them."""

    def __init__(self, machine=None):
        self.machine = machine
        self.passes = {}
        self.has_other_events = False

    @classmethod
    def read(cls, path):
        """Reads a file; raises ValueError if it has another format or lacks an event."""
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            if not isinstance(document, dict) or document.get("schema") != SCHEMA:
                raise ValueError(f"{path} is not a file of --exact-save")
            events = document["events"]
            if not set(EVENTS) <= set(events):
                raise ValueError(f"{path} lacks the events {' and '.join(EVENTS)}")
            numbers = cls(document["machine"])
            numbers.has_other_events = list(events) != list(EVENTS)
            indices = [events.index(event) for event in EVENTS]
            for entry in document["commands"]:
                name = entry["command"]
                if name in numbers.passes:
                    raise ValueError(f"{path} has several commands called {name}: measure each of them into a file of its own")
                numbers.passes[name] = list(zip(*(entry["values"][index] for index in indices)))
            return numbers
        except (KeyError, IndexError, TypeError, UnicodeDecodeError, json.JSONDecodeError):
            raise ValueError(f"{path} is not a file of --exact-save") from None

    @classmethod
    def read_to_extend(cls, path):
        """Reads the file to which counts are saved; returns no counts if there is no file.

        Raises ValueError if the new counts can't be added: the counts in the file must not be lost.
        """
        try:
            old = cls.read(path)
        except FileNotFoundError:
            return cls(machine())
        if old.has_other_events:
            raise ValueError(f"{path} has other events than {' and '.join(EVENTS)}, which would be lost: remove it first")
        if old.machine != machine():
            raise ValueError(
                f"{path} has counts of another processor, {old.machine}, which would be lost; this is {machine()}: "
                "take another name, or remove it first"
            )
        return old

    def write(self, path):
        """Writes the file. If it fails, an old file is unchanged.

        Functions of an old file that were not counted now keep their counts. Raises ValueError as `read_to_extend`.
        """
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with _locked_folder(path):
            old = Numbers.read_to_extend(path)
            commands = [
                {"command": name, "values": [list(values) for values in zip(*passes)]}
                for name, passes in {**old.passes, **self.passes}.items()
            ]
            document = {"schema": SCHEMA, "machine": old.machine, "events": list(EVENTS), "commands": commands}
            _replace_file(path, json.dumps(document, indent=2) + "\n")

    def smallest_counts(self, name):
        """Returns the smallest count of each event, or None if the function was not counted."""
        passes = self.passes.get(name)
        return [min(values) for values in zip(*passes)] if passes else None

    def format_spread(self, name):
        """Returns the range of the first event's counts as text: "exact", or a percentage of the smallest."""
        values = [passes[0] for passes in self.passes[name]]
        return "exact" if min(values) == max(values) else f"+{100 * (max(values) - min(values)) / min(values):.3g}%"


@contextlib.contextmanager
def _locked_folder(path):
    """Locks the folder of a file, as the harness for Rust does, so that two runs at once don't lose each other's counts."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        # Some file systems have no locks.
        with contextlib.suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _replace_file(path, text):
    """Writes a file. If it fails, an old file is unchanged. If the path is a symbolic link, its file is replaced."""
    path = os.path.realpath(path)
    # The name is random, and the file is new: another user may have made a link in a shared folder.
    temporary = f"{path}.{secrets.token_hex(8)}"
    with open(temporary, "x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def machine():
    """Returns the name of the processor."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
        return next(names, "unknown")


def is_lost_in_machine(path):
    """Returns whether this is the virtual machine of `pmctl vm`, whose end would delete a file at the path."""
    path = os.path.realpath(path)
    kind = options = mount_point = ""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            # Blanks are escaped.
            candidate = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), fields.split()[4])
            is_above = path == candidate or path.startswith(candidate.rstrip("/") + "/")
            if is_above and len(candidate) >= len(mount_point):
                mount_point, (kind, _, options) = candidate, rest.split()[:3]
    return kind == "overlay" and "lowerdir=/lower,upperdir=/changes/upper" in options


def format_difference(before, after):
    """Returns the change of a number as text."""
    if before is None:
        return "new"
    if after == before:
        return "none"
    part = f" ({100 * (after - before) / before:+.3g}%)" if before else ""
    return f"{after - before:+,}{part}"
