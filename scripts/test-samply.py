#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# test-samply.py FILES : checks the profiles that samply has made. A recording that it has imported
# has as many samples and frames as pmctl shows. Profiles that samply has recorded under `pmctl
# wrap`, with the driver's counters, and without `pmctl wrap` show the same: the functions of
# pmctl_shares, which have 10, 30 and 60 percent of the samples, with their callers. The exit code
# is 75 if samples are missing, as after a pause of the machine; else 1 if a check failed.

import collections
import json
import re
import sys

files = sys.argv[1]
PROGRAM = "pmctl_shares"
SHARES = {"share_10": 10, "share_30": 30, "share_60": 60}
# The number of samples that the guest asks for: the rate, times the seconds of sampling.
REQUESTED_SAMPLES = 20 * 20
failures = 0
samples_are_missing = False


def check(description, ok, value):
    global failures
    print(f"{'ok' if ok else 'not ok'} - {description}: {value}")
    failures += not ok


def check_complete(description, ok, value):
    """Like check, for a condition that also fails if the machine stands still for a while."""
    global samples_are_missing
    check(description, ok, value)
    samples_are_missing |= not ok


def read(name):
    with open(f"{files}/{name}") as file:
        return file.read()


class Profile:
    """The program's thread in a profile of samply's."""

    def __init__(self, name):
        self.name = name
        self.profile = json.loads(read(f"{name}.json"))
        threads = [t for t in self.profile["threads"] if t["name"] == PROGRAM]
        self.thread = threads[0] if len(threads) == 1 else None
        check(f"{name}: a thread of the program", self.thread, len(threads))

    def stacks(self):
        """Yields the frames of each sample, the innermost first."""
        stacks = self.thread["stackTable"]
        for stack in self.thread["samples"]["stack"]:
            frames = []
            while stack is not None:
                frames.append(stacks["frame"][stack])
                stack = stacks["prefix"][stack]
            yield frames

    def read_symbols(self):
        """Reads the names that samply has found, by library and address."""
        symbols = json.loads(read(f"{self.name}.syms.json"))
        strings = symbols["string_table"]
        self.symbols = {
            (library["debug_name"], address): strings[library["symbol_table"][index]["symbol"]]
            for library in symbols["data"]
            for address, index in library["known_addresses"]
        }

    def function(self, frame):
        """Returns the name of a frame's function; None if samply has found none."""
        thread = self.thread
        resource = thread["funcTable"]["resource"][thread["frameTable"]["func"][frame]]
        if resource is None or resource < 0:
            return None
        library = self.profile["libs"][thread["resourceTable"]["lib"][resource]]
        return self.symbols.get((library["debugName"], thread["frameTable"]["address"][frame]))


def check_import(name):
    samples, frames = (int(word) for word in read(f"{name}.expected").split())
    stacks = list(Profile(name).stacks())
    found = len(stacks), sum(map(len, stacks))
    check(f"{name}: samples and frames as in the recording", found == (samples, frames), found)
    check(f"{name}: many samples", samples > 100, samples)
    return round(frames / samples, 2)


def check_recording(name):
    """Checks a profile, and returns the number of its samples."""
    lost = re.findall("^Lost .*", read(f"{name}.words"), re.M)
    check_complete(f"{name}: nothing is lost", not lost, lost)
    profile = Profile(name)
    profile.read_symbols()
    own, callers = collections.Counter(), collections.Counter()
    stacks = list(profile.stacks())
    for frames in stacks:
        names = [profile.function(frame) for frame in frames]
        own[names[0]] += 1
        callers[names[0]] += "main" in names[1:]
    for function, percent in SHARES.items():
        share = 100 * own[function] / len(stacks)
        check(f"{name}: percent of samples in {function}", abs(share - percent) < 12, round(share, 1))
        check(f"{name}: samples of {function} with its caller", callers[function] == own[function],
              f"{callers[function]} of {own[function]}")
    return len(stacks)


def check_pair(kind):
    driver, kernel = f"{kind}.driver", f"{kind}.kernel"
    calls = re.findall(r"perf_event_open\((.*)\): (.*)", read(f"{driver}.words"))
    answers = collections.Counter(answer for _, answer in calls)
    check(f"{driver}: all events are the driver's", list(answers) == ["an event of the driver's"], dict(answers))
    check(f"{driver}: they count cycles", all(call.startswith("cycles,") for call, _ in calls), calls[:1])
    driver_samples, kernel_samples = check_recording(driver), check_recording(kernel)
    check_complete(f"{driver}: as many samples as are asked for", 2 / 3 < driver_samples / REQUESTED_SAMPLES < 3 / 2, driver_samples)
    # Linux assumes that ticks come at regular times. It takes fewer samples where they come late,
    # as in an emulated machine whose host is busy.
    check_complete(f"{kernel}: about as many samples", 1 / 5 < kernel_samples / driver_samples < 3 / 2, kernel_samples)


check_import("plain")
frames = check_import("callers")
# All samples have callers, except those before the program's first function.
check("callers: frames of a sample", frames > 1.5, frames)
check_pair("launched")
check_pair("attached")
counted = {name: "cycles" in read(f"attached.{name}.perf") for name in ("driver", "kernel")}
check("attached: perf counts beside the kernel's events only", counted == {"driver": False, "kernel": True}, counted)
sys.exit(75 if samples_are_missing else failures > 0)
