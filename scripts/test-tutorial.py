#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Executes the commands of a page and compares their output with the page.

test-tutorial.py prepare PAGE FOLDER: copies the files that the page includes into FOLDER,
applies the page's diffs to them, runs its gcc commands, and writes the other commands to the
script FOLDER/steps.

test-tutorial.py compare PAGE PRINTED MACHINE: compares the output of the script with the page.

On the page, a line `...` stands for any lines. A number must be equal, with three exceptions.
Times, versions and addresses are ignored, and so are shares of single instructions, which have
few samples. Counts (of samples, or with a comma or a point) may differ a little, because they
depend on compiler and processor. Shares may differ by half a percent.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys

MARK = "--- step"
# Tolerances: of counts, of counts of a function's samples, and of shares in percent.
TOLERANCE = 0.02
FEW_TOLERANCE = 0.3
SHARE_TOLERANCE = 0.5


def blocks(page):
    """Yields (directive, argument, first line's number, lines) of each block of the page."""
    with open(page, encoding="utf-8") as file:
        lines = file.read().split("\n")
    at = 0
    while at < len(lines):
        match = re.fullmatch(r"\.\. (code-block|literalinclude):: (\S+)", lines[at])
        at += 1
        if not match:
            continue
        while at < len(lines) and re.fullmatch(r"   :.*|", lines[at]):
            at += 1
        first, body = at + 1, []
        while at < len(lines) and (not lines[at] or lines[at].startswith("   ")):
            body.append(lines[at][3:])
            at += 1
        while body and not body[-1]:
            body.pop()
        yield match[1], match[2], first, body


def commands(page):
    """Yields (command, number of its line, the lines of its output) of each command."""
    for _, kind, first, body in blocks(page):
        if kind != "console":
            continue
        command = None
        for number, line in enumerate(body, first):
            if line.startswith("$ "):
                if command:
                    yield command
                command = (line[2:], number, [])
            else:
                command[2].append(line)
        yield command


def prepare(page, folder):
    """Writes the files and the script for the machine."""
    home = "/root"
    versions = 0
    script = []

    def keep_version(name):
        """Keeps this version of a file for the step in which it is made."""
        nonlocal versions
        versions += 1
        shutil.copy(f"{folder}/{name}", f"{folder}/{name}.{versions}")
        script.append(f"cp {name}.{versions} {name}")

    step = 0
    for directive, kind, _, body in blocks(page):
        if directive == "literalinclude":
            shutil.copy(os.path.join(os.path.dirname(page), kind), folder)
            keep_version(os.path.basename(kind))
        elif kind == "diff":
            patch = ["patch", "--no-backup-if-mismatch", "--fuzz=0", "-p0"]
            subprocess.run(patch, cwd=folder, input="\n".join(body) + "\n", text=True, check=True, stdout=subprocess.DEVNULL)
            keep_version(re.match(r"\+\+\+ (\S+)", body[1])[1])
        elif kind == "console":
            for line in body:
                if not line.startswith("$ "):
                    continue
                command = line[2:]
                script.append(f"echo '{MARK} {step}'")
                step += 1
                if command.startswith("gcc "):
                    words = shlex.split(command)
                    subprocess.run(words + [f"-fdebug-prefix-map={os.path.realpath(folder)}={home}"], cwd=folder, check=True)
                    keep_version(words[words.index("-o") + 1])
                else:
                    script.append(command)
    with open(f"{folder}/steps", "w", encoding="utf-8") as file:
        file.write("\n".join(script) + "\n")


# Patterns whose values are ignored, and their replacement. Blanks before a number align it.
IGNORED = [
    (r"\s*\d+\.\d+ (seconds time elapsed|seconds user|seconds sys)$", r" T \1"),
    (r"( in )\d+\.\d+ s\b", r"\1T s"),
    # Exact numbers are kept: they have 0.00.
    (r"\( \+- +(?!0\.00)\d+\.\d\d% \)", "( +- T% )"),
    # The part of a period before the end of the program.
    (r"\([\d,]+ in no sample\)", "(N in no sample)"),
    (r"\bLinux \d+\S*", "Linux V"),
    (r"\b[0-9a-f]{5,}(?=:| <|$)", "A"),
    (r"\b0x[0-9a-f]+(?=\(%rip\))", "A"),
    (r"^ *\d+\.\d\d : ", "P : "),
]
NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?%?"
# A count that includes the kernel also has timer ticks, whose number depends on the load of the
# host: a run that took 26 s instead of 1 s counted 2% more.
WITH_KERNEL = r"^ *[\d,]+ +(instructions|cycles|branches)( |$)"
KERNEL_FACTOR = 2


def line_agrees(expected, got):
    """Returns whether a line of output agrees with the page."""
    for pattern, text in IGNORED:
        expected, got = (re.sub(pattern, text, line) for line in (expected, got))
    # Blanks that align columns depend on the width of numbers.
    rest = [re.sub(r"\s+", " ", re.sub(NUMBER, "#", line)).strip() for line in (expected, got)]
    if rest[0] != rest[1]:
        return False
    tolerance = FEW_TOLERANCE if "[.]" in expected else TOLERANCE
    for old, new in zip(re.findall(NUMBER, expected), re.findall(NUMBER, got)):
        if old == new:
            continue
        counted = re.search("[.,]", old) or "[.]" in expected or re.search(rf"\b{re.escape(old)} (samples|KiB)", expected)
        if not counted:
            return False
        share = SHARE_TOLERANCE if old.endswith("%") else 0
        old, new = (float(number.strip("%").replace(",", "")) for number in (old, new))
        if re.search(WITH_KERNEL, expected) and old < new <= old * KERNEL_FACTOR:
            continue
        if abs(old - new) > max(abs(old) * tolerance, share):
            return False
    return True


def lines_agree(expected, got):
    """Returns whether the lines of output agree with the page."""
    if not expected:
        return not got
    if expected[0] == "...":
        return any(lines_agree(expected[1:], got[skip:]) for skip in range(len(got) + 1))
    return bool(got) and line_agrees(expected[0], got[0]) and lines_agree(expected[1:], got[1:])


def trim(lines):
    """Returns the lines without trailing blanks, and without empty lines at both ends."""
    return "\n".join(line.rstrip() for line in lines).strip("\n").split("\n")


def compare(page, printed, machine):
    """Prints differences; returns the number of commands whose output differs."""
    with open(printed, encoding="utf-8") as file:
        parts = re.split(rf"^{MARK} \d+\n", file.read(), flags=re.M)[1:]
    steps = list(commands(page))
    if not steps or len(parts) != len(steps):
        print(f"{os.path.basename(page)}: {len(parts)} of {len(steps)} commands were run on {machine}")
        return 1
    failed = 0
    for (command, number, expected), got in zip(steps, parts):
        got = trim(got.split("\n"))
        if lines_agree(trim(expected), got):
            continue
        failed += 1
        print(f"{os.path.basename(page)}:{number}: the output differs on {machine}:")
        print("\n".join(["   $ " + command] + ["   " + line for line in got]))
    print(f"{os.path.basename(page)}: {len(steps) - failed} of {len(steps)} commands agree with the page on {machine}")
    return failed


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    if sys.argv[1] == "prepare":
        prepare(*sys.argv[2:])
    else:
        sys.exit(compare(*sys.argv[2:]) > 0)
