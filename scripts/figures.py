#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""figures.py [--check] : draws the charts and diagrams of Documentation/pictures.

The numbers come from the tables in Documentation/performance.rst and bench.rst. --check writes
no picture: it exits with 1 if a picture, or a text in its place, differs from the tables.
"""

import os
import re
import sys
from xml.sax.saxutils import escape

DOCUMENTATION = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "Documentation")
PICTURES = os.path.join(DOCUMENTATION, "pictures")
WIDTH = 760
LEFT = 20

# The picture is light or dark, as the viewer prefers, so it has its own background.
STYLE = """
  text { font: 14px system-ui, "DejaVu Sans", sans-serif; fill: #1f2328; }
  .head { font-size: 16px; font-weight: 600; }
  .dim { fill: #59636e; font-size: 13px; }
  .end { text-anchor: end; }
  .middle { text-anchor: middle; }
  .paper { fill: #ffffff; stroke: #d1d9e0; }
  .ours { fill: #0969da; }
  .perf { fill: #8c959f; }
  .box { fill: #f6f8fa; stroke: #59636e; }
  .strong { fill: #ddf4ff; stroke: #0969da; }
  .line { stroke: #59636e; fill: none; stroke-width: 1.5; }
  .thin { stroke: #d1d9e0; }
  .arrow { fill: #59636e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .dim { fill: #9198a1; }
    .paper { fill: #0d1117; stroke: #3d444d; }
    .ours { fill: #4493f8; }
    .perf { fill: #818b98; }
    .box { fill: #151b23; stroke: #9198a1; }
    .strong { fill: #12263f; stroke: #4493f8; }
    .line { stroke: #9198a1; }
    .thin { stroke: #3d444d; }
    .arrow { fill: #9198a1; }
  }
"""


class Picture:
    """A picture of a fixed width."""

    def __init__(self, height, title, description):
        self.height = height
        self.parts = [f"<title>{escape(title)}</title>", f"<desc>{escape(description)}</desc>"]
        self.parts.append(f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>')

    def text(self, x, y, text, kind=""):
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>')

    def box(self, x, y, width, height, kind="box", corner=5):
        self.parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{corner}"/>')

    def line(self, *points, kind="line"):
        text = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}" points="{text}"/>')

    def dot(self, x, y, kind):
        self.parts.append(f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="5"/>')

    def arrow(self, start, end):
        """Draws a horizontal or vertical line with a head at its end."""
        (x, y), (from_x, from_y) = end, start
        dx, dy = (x > from_x) - (x < from_x), (y > from_y) - (y < from_y)
        self.line(start, (x - 6 * dx, y - 6 * dy))
        corners = [(x, y), (x - 9 * dx + 5 * dy, y - 9 * dy + 5 * dx), (x - 9 * dx - 5 * dy, y - 9 * dy - 5 * dx)]
        text = " ".join(f"{a:g},{b:g}" for a, b in corners)
        self.parts.append(f'<polygon class="arrow" points="{text}"/>')

    def __str__(self):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" height="{self.height}" '
            f'viewBox="0 0 {WIDTH} {self.height}">'
        )
        return "\n".join([head, f"<style>{STYLE}</style>", *self.parts, "</svg>", ""])


def read_page(name):
    with open(os.path.join(DOCUMENTATION, name), encoding="utf-8") as file:
        return file.read()


def numbers_in_row(text, label):
    """Returns the numbers in the table row that begins with the label."""
    match = re.search(rf"^ +{re.escape(label)} {{2,}}([ 0-9]+)$", text, re.M)
    if not match:
        sys.exit(f"figures.py: no table has a line `{label}`")
    return [int(word) for word in match[1].split()]


def draw_cost():
    """Draws the cost of a switch and of a sample, compared with perf's."""
    text = read_page("performance.rst")
    switches = []
    for events, label in ((1, "switch, 1 event in each"), (2, "switch, 2 events in each"), (4, "switch, 4 events in each")):
        here, _, _, perf, *_ = numbers_in_row(text, label)
        switches.append((f"{events} event{'s' if events > 1 else ''} in each", here, perf))
    samples = []
    for words, ours, perfs in (
        ("address, task, time", "event: ip,tid,time", "perf: ip,tid,time"),
        ("and 12 callers", "event: and a chain of 12", "perf: and a chain of 12"),
        ("and 6 other counts", "event: and 6 members", "perf: and 6 members"),
        ("and 1 KiB of stack", "event: and 1 KiB of stack", "perf: and 1 KiB of stack"),
    ):
        samples.append((words, numbers_in_row(text, ours)[0], numbers_in_row(text, perfs)[0]))
    description = "; ".join(f"{name}: {ours}, perf {perf}" for name, ours, perf in switches + samples)
    picture = Picture(448, "Instructions of a context switch and of a sample, beside perf's", description)
    y = 32
    picture.box(WIDTH - 232, y - 11, 12, 12, "ours", 2)
    picture.text(WIDTH - 214, y, "perfmon")
    picture.box(WIDTH - 132, y - 11, 12, 12, "perf", 2)
    picture.text(WIDTH - 114, y, "perf")
    most = max(perf for _, _, perf in switches + samples)
    start, room = 190, WIDTH - 190 - 80
    for head, rows in (("A switch between counted programs", switches), ("A sample", samples)):
        picture.text(LEFT, y, head, "head")
        y += 16
        for name, ours, perf in rows:
            picture.text(start - 12, y + 19, name, "end")
            for kind, number in (("ours", ours), ("perf", perf)):
                length = room * number / most
                picture.box(start, y, length, 14, kind, 2)
                picture.text(start + round(length) + 8, y + 12, f"{number:,}")
                y += 17
            y += 12
        y += 28
    picture.text(LEFT, y - 12, "Instructions, user and kernel: fewer are better. Linux 7.3, in the project's virtual machine.", "dim")
    return picture


def alternative_texts():
    """Returns the texts in place of the picture of the cost, with its numbers: each as (page, words)."""
    text = read_page("performance.rst")
    switch, _, _, perfs_switch, *_ = numbers_in_row(text, "switch, 1 event in each")
    sample, perfs_sample = (numbers_in_row(text, f"{whose}: ip,tid,time")[0] for whose in ("event", "perf"))
    return (
        ("performance.rst", f"{switch} to perf's {perfs_switch} with one event, and of samples, {sample} to {perfs_sample} with"),
        (
            "../README.md",
            f"a switch takes {switch:,} instructions, with perf {perfs_switch:,}; a sample {sample:,}, with perf {perfs_sample:,}",
        ),
    )


def percents(text):
    return [float(number) for number in re.findall(r"[+-]?[0-9.]+(?=%)", text)]


def draw_spread():
    """Draws the spread of runs of one program, and the intervals of a change of 2%."""
    table = read_page("bench.rst")
    rows = []
    for name in ("time", "instructions:u", "cycles"):
        match = re.search(rf"^ +{name} +1 +\S+(?: ms)? +(.*)\n +2 +\S+(?: ms)? +(?:± *\S+|exact)(.*)$", table, re.M)
        if not match:
            sys.exit(f"figures.py: bench.rst's table has no `{name}`")
        around = percents(match[1])
        change = percents(match[2])
        rows.append((name, around[0] if around else 0, change[1:3] if len(change) > 2 else change[:1] * 2))
    rows.sort(key=lambda row: -row[1])
    low, high = -40, 40
    start, room = 190, WIDTH - 190 - 40

    def x_of_percent(percent):
        return start + room * (min(max(percent, low), high) - low) / (high - low)

    words = []
    for name, around, (least, most) in rows:
        words.append(f"{name}: runs ±{around}%, change between {least:+}% and {most:+}%")
    picture = Picture(326, "The spread of time, cycles and instructions in five runs", "; ".join(words))
    top, bottom = 46, 272
    for percent in range(low, high + 1, 10):
        picture.line((x_of_percent(percent), top), (x_of_percent(percent), bottom), kind="thin")
        picture.text(round(x_of_percent(percent)), bottom + 18, f"{percent:+}%" if percent else "0", "dim middle")
    y = top - 18
    heads = ("Five runs of one program, around their mean", "The change to a program that executes 2% more")
    for index, head in enumerate(heads):
        picture.text(LEFT, y, head, "head")
        y += 32
        for name, around, change in rows:
            ends = change if index else (-around, around)
            picture.text(start - 12, y + 5, name, "end")
            kind = "ours" if ends[0] == ends[1] else "perf"
            if kind == "ours":
                picture.dot(x_of_percent(ends[0]), y, kind)
                label = f"{ends[0]:+.2f}%" if index else "exact"
            else:
                picture.box(x_of_percent(ends[0]), y - 6, x_of_percent(ends[1]) - x_of_percent(ends[0]), 12, kind, 2)
                label = f"{ends[0]:+g}% to {ends[1]:+g}%" if index else f"±{around:g}%"
            leaves_picture = ends[1] > high
            x = x_of_percent(ends[0]) - 10 if leaves_picture else x_of_percent(ends[1]) + 10
            if leaves_picture:
                # The label is above the bar.
                picture.text(round(x_of_percent(0)), y - 10, label, "middle")
                picture.arrow((x_of_percent(high), y), (x_of_percent(high) + 18, y))
            else:
                picture.text(round(x), y + 5, label)
            y += 28
        y += 18
    picture.text(LEFT, picture.height - 14, "The example of `pmctl bench`: standard deviation of the runs, 95% interval of the change.", "dim")
    return picture


def draw_interfaces():
    """Draws the three interfaces of the device."""
    words = (
        "Counting has the calls of FreeBSD's perfmon(4) and counts all CPUs, for one program at a time. Sampling has those of "
        "Fuchsia's perfmon and writes records of all CPUs into buffers, for one program at a time. Events are those of "
        "perf_event_open(2), of tasks or a CPU, for any number of programs. The module gives each counter of the CPUs to one "
        "user at a time."
    )
    picture = Picture(412, "The three interfaces of /dev/perfmon", words)
    columns = (
        ("Counting", "FreeBSD's perfmon(4)", "PMIOSETUP, PMIOREAD, ...", "all CPUs", "one", "programs for FreeBSD,", "pmctl stat -a"),
        ("Sampling", "Fuchsia's perfmon, version 3", "IOCTL_PERFMON_START, ...", "all CPUs, into buffers", "one", "programs for Fuchsia,", "pmctl record --timebase"),
        ("Events", "perf_event_open(2)", "PERFMON_EVENT_OPEN, ...", "tasks, or a CPU", "many", "pmctl stat, record, top;", "pmctl wrap: programs for perf"),
    )
    width, gap, x = 230, 15, LEFT
    for name, model, call, what, number, *users in columns:
        middle = x + width // 2
        picture.box(x, 20, width, 58)
        for index, line in enumerate(users):
            picture.text(middle, 44 + 20 * index, line, "middle")
        picture.arrow((middle, 78), (middle, 112))
        picture.box(x, 112, width, 126, "strong")
        picture.text(middle, 136, name, "head middle")
        picture.text(middle, 158, model, "middle")
        picture.text(middle, 180, what, "middle")
        picture.text(middle, 202, "one program at a time" if number == "one" else "any number of programs", "middle")
        picture.text(middle, 224, call, "dim middle")
        picture.arrow((middle, 238), (middle, 272))
        x += width + gap
    total_width = 3 * width + 2 * gap
    picture.box(LEFT, 272, total_width, 52)
    picture.text(LEFT + total_width // 2, 294, "/dev/perfmon, the module: who has which counter, permissions, interrupts", "middle")
    picture.text(LEFT + total_width // 2, 314, "a counter has one user at a time; while the module has any, perf has none, and the reverse", "dim middle")
    picture.arrow((LEFT + total_width // 2, 324), (LEFT + total_width // 2, 352))
    count = 6
    counter_width = (total_width - 10 * (count - 1)) // count
    for index in range(count):
        picture.box(LEFT + index * (counter_width + 10), 352, counter_width, 40)
        name = f"counter {index}" if index < 4 else f"fixed {index - 4}"
        picture.text(LEFT + index * (counter_width + 10) + counter_width // 2, 377, name, "middle")
    return picture


def draw_timeline():
    """Draws the steps of a run of `pmctl vm`."""
    seconds = re.search(r"``true`` took ([0-9.]+) s from its start to its end, and ([0-9.]+) s in a machine that boots", read_page("vm.rst"))
    if not seconds:
        sys.exit("figures.py: vm.rst does not say how long `true` takes")
    words = (
        f"pmctl vm starts QEMU. In the first run the machine boots and its state is saved, which with `true` takes {seconds[2]} s "
        f"in all; later runs go on from the saved state, {seconds[1]} s. Then the guest's pmctl mounts the host's files, runs the "
        "command with the host's streams and signals, sends the results, and the machine ends."
    )
    picture = Picture(300, "The time line of pmctl vm", words)
    rows = (
        (
            "The first run",
            f"`true`: {seconds[2]} s",
            (("QEMU", 60, "box"), ("the kernel boots,", 150, "box"), ("saved", 60, "box"), ("files", 56, "box"), ("your command, counted", 190, "strong"), ("results", 70, "box")),
        ),
        (
            "Each later run",
            f"`true`: {seconds[1]} s",
            (("QEMU", 60, "box"), ("restored", 80, "box"), ("files", 56, "box"), ("your command, counted", 190, "strong"), ("results", 70, "box")),
        ),
    )
    y = 34
    for name, time, steps in rows:
        picture.text(LEFT, y, name, "head")
        picture.text(LEFT, y + 36, time, "dim")
        x = 130
        for word, width, kind in steps:
            picture.box(x, y + 12, width, 38, kind)
            if word.endswith(","):
                picture.text(x + width // 2, y + 29, word, "middle")
                picture.text(x + width // 2, y + 45, "loads the module", "middle")
            else:
                picture.text(x + width // 2, y + 36, word, "middle")
            x += width + 4
        picture.line((130, y + 58), (x - 4, y + 58))
        y += 88
    notes = (
        ("saved, restored", "the machine's memory, in ~/.cache/perfmon-vm, before any command"),
        ("files", "the host's are mounted, read-only below what the command writes"),
        ("your command", "has your streams, terminal and signals, and the machine's PMU"),
        ("results", "the recording, files of -o and --out, the exit code; then the machine ends"),
    )
    y += 8
    for name, what in notes:
        picture.text(150, y, name, "dim end")
        picture.text(162, y, what, "dim")
        y += 22
    return picture


FIGURES = {"cost.svg": draw_cost, "spread.svg": draw_spread, "interfaces.svg": draw_interfaces, "vm.svg": draw_timeline}


def main():
    stale = []
    for name, draw in FIGURES.items():
        path, text = os.path.join(PICTURES, name), str(draw())
        if sys.argv[1:] == ["--check"]:
            try:
                with open(path, encoding="utf-8") as file:
                    old = file.read()
            except OSError:
                old = ""
            if old != text:
                stale.append(name)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    if stale:
        sys.exit(f"{', '.join(stale)}: out of date with the tables of the documentation; run scripts/figures.py")
    for name, words in alternative_texts():
        if words not in " ".join(read_page(name).split()):
            sys.exit(f"{name}: the text in place of cost.svg differs from the tables; write `{words}`")


if __name__ == "__main__":
    main()
