# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts of functions, kept in files and compared: what the fixture `exact` does without pytest.

The files are those of `pmctl bench --save`.
"""

import gc
import json
import math
import os

import perfmon

EVENTS = ("instructions:u", "branches:u")

SCHEMA = "pmctl-bench-v1"

MOST_PASSES = 40
"""Passes of a function that never counts the same twice in a row. The interpreter adapts its bytecode in some ten."""


def passes_of(function, args, kwargs):
    """Returns the counts of the last two passes, which are equal, or of all passes but the first.

    Meanwhile the garbage collector rests: when it runs depends on what was there before.
    """
    block = perfmon.count(*EVENTS)
    passes = []
    had_gc = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        while len(passes) < MOST_PASSES:
            with block:
                function(*args, **kwargs)
            passes.append([block[event] for event in EVENTS])
            # Once more than twice: the interpreter may be about to adapt.
            if len(passes) > 2 and passes[-1] == passes[-2] == passes[-3]:
                return passes[-2:]
    finally:
        if had_gc:
            gc.enable()
    return passes[1:]


class Condition:
    """`EVENT:LIMIT%`, or `EVENT>LIMIT` and `EVENT<LIMIT`, where a limit with % is a change from the baseline."""

    def __init__(self, text):
        self.text = text
        self.above = "<" not in text
        sign = ">" if ">" in text else "<" if "<" in text else ":"
        event, _, limit = text.rpartition(sign)
        self.is_relative = limit.endswith("%")
        if sign == ":" and not self.is_relative:
            raise ValueError(f"{text!r} is none of EVENT:LIMIT%, EVENT>LIMIT and EVENT<LIMIT")
        self.limit = float(limit.rstrip("%"))
        if not math.isfinite(self.limit) or (not self.is_relative and limit[:1] in "+-"):
            raise ValueError(f"{text!r}: the limit is a number, and with % a change")
        self.event = event if ":" in event else f"{event}:u"
        if self.event not in EVENTS:
            raise ValueError(f"{text!r}: {event!r} is not counted; counted are {', '.join(EVENTS)}")

    def holds(self, before, after):
        """Returns whether the numbers are beyond the limit; a change from None never is."""
        value = after
        if self.is_relative:
            if before is None:
                return False
            # From nothing, any growth is beyond all limits.
            value = 100 * (after - before) / before if before else float("inf") if after else 0.0
        return value > self.limit if self.above else value < self.limit


class Numbers:
    """The passes of functions by name, and what the processor calls itself that counted them."""

    def __init__(self, machine=None):
        self.machine = machine
        self.passes = {}

    @classmethod
    def read(cls, path):
        """Reads a file; raises ValueError if it is none of these."""
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError(f"{path} is no file of --exact-save")
        if not set(EVENTS) <= set(document["events"]):
            raise ValueError(f"{path} has not the events {' and '.join(EVENTS)}")
        numbers = cls(document["machine"])
        places = [document["events"].index(event) for event in EVENTS]
        for entry in document["commands"]:
            numbers.passes[entry["command"]] = list(zip(*(entry["values"][place] for place in places)))
        return numbers

    def write(self, path):
        """Writes the file: it is whole, or as it was before."""
        commands = [
            {"command": name, "values": [list(values) for values in zip(*passes)]}
            for name, passes in self.passes.items()
        ]
        document = {"schema": SCHEMA, "machine": self.machine or machine(), "events": list(EVENTS), "commands": commands}
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)
            file.write("\n")
        os.replace(f"{path}.new", path)

    def least(self, name):
        """Returns the least count of each event, or None."""
        passes = self.passes.get(name)
        return [min(values) for values in zip(*passes)] if passes else None

    def spread(self, name):
        """Returns how far the passes are apart, in words."""
        values = [passes[0] for passes in self.passes[name]]
        return "exact" if min(values) == max(values) else f"+{100 * (max(values) - min(values)) / min(values):.3g}%"


def machine():
    """Returns what the processor calls itself."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
        return next(names, "unknown")


def difference(before, after):
    """Returns the change of a number, in words."""
    if before is None:
        return "new"
    if after == before:
        return "none"
    part = f" ({100 * (after - before) / before:+.3g}%)" if before else ""
    return f"{after - before:+,}{part}"
