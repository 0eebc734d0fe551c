#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# test-export.py READERS FILES : opens the exports of one recording, and compares what each
# reader finds with `pmctl report`. The program has two functions with half of the samples
# each: one of code that is made at run time, and `outer`. Into `outer`, `inner` of origins.c
# is inlined, and into `inner`, `loop` of loop.h.

import json
import os
import re
import subprocess
import sys
import time

import jsonschema

readers, files = sys.argv[1:]
node = f"{readers}/js/node"
modules = f"{readers}/js/node_modules"
here = os.path.dirname(os.path.realpath(__file__))
MADE = "made at run time"
failures = 0


def check(description, ok, value):
    global failures
    print(f"{'ok' if ok else 'not ok'} - {description}" + ("" if ok else f": {value}"))
    failures += not ok


def run(*words, **more):
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, **more).stdout


def read(name):
    with open(f"{files}/{name}") as f:
        return f.read()


# The first table of the report has the samples of the time base.
first = read("report").split("Samples: ")[1]
total = int(first.split(" ")[0].replace(",", ""))
samples = {
    row[2]: int(row[1].replace(",", ""))
    for row in re.findall(r"^ +([\d.]+)% +([\d,]+)  \[[.k]\] (.*)$", first, re.M)
}
print(f"# {total} samples: {samples}")
check("the recording has both functions", samples["outer"] > 100 and samples[MADE] > 100, samples)


class Firefox:
    """The Firefox Profiler's own program, with a file open."""

    def __init__(self, name):
        # The viewer's server gets half a second to start, too short for a busy machine: try again.
        for attempt in range(5):
            self.name = f"{name}-{attempt}"
            try:
                self.query("load", f"{files}/{name}")
                return
            except subprocess.CalledProcessError:
                time.sleep(5)
                subprocess.run(self.command("stop"), check=False)
        raise SystemExit(f"{name} can't be loaded")

    def command(self, *words):
        cli = f"{modules}/@firefox-devtools/profiler-cli/dist/profiler-cli.js"
        return node, cli, *words, "--session", self.name

    def query(self, *words):
        return run(*self.command(*words))

    def json(self, *words):
        return json.loads(self.query(*words, "--json"))

    def functions(self):
        found = self.json("thread", "functions", "--limit", "1000")["functions"]
        return {function["name"]: function for function in found}


firefox = Firefox("firefox")
functions = firefox.functions()
for name in "outer", MADE:
    found = functions[name]["totalSamples"]
    check(f"firefox: samples of {name}", found == samples[name], found)
check("firefox: inlined functions", functions["inner"]["totalSamples"] > 0, functions)
check("firefox: what is inlined has no samples of its caller", functions["outer"]["selfSamples"] < samples["outer"], functions)
tree = firefox.query("thread", "samples-top-down")
check("firefox: callers", re.search(r"main.*\n.*turn.*\n(.*\n)*.*outer.*\n.*inner", tree), tree)
firefox.query("stop")

firefox = Firefox("perf-script")
functions = firefox.functions()
for name in "outer", MADE:
    found = functions[name]["totalSamples"]
    check(f"firefox, of perf script: samples of {name}", found == samples[name], found)
tree = firefox.query("thread", "samples-top-down")
check("firefox, of perf script: callers", re.search(r"main.*\n.*turn.*\n(.*\n)*.*outer", tree), tree)
firefox.query("stop")
# The viewer can show lines only with a symbol server, so this looks into the file.
lines = set()
for thread in json.loads(read("firefox"))["threads"]:
    names, frames, functions = thread["stringArray"], thread["frameTable"], thread["funcTable"]
    for function, line in zip(frames["func"], frames["line"]):
        name, source = functions["name"][function], functions["fileName"][function]
        lines.add((names[name], source and names[source].split("/")[-1], line and line > 0))
check("firefox: lines", {("inner", "origins.c", True), ("loop", "loop.h", True)} <= lines, lines)

# The number of counts of each event in the other recording, where each sample has a count of each
# event.
counts = {event.rstrip(":"): int(n) for n, event in (line.split() for line in read("counts").splitlines())}
check("both events have counts", counts["branches:u"] == counts["instructions:u"] > 100, counts)
firefox = Firefox("firefox-counts")
info = firefox.json("profile", "info", "--all")
tracks = [c for p in info["processes"] for c in p.get("counters", [])]
check("firefox: the counts of the other event are a track", {c["name"] for c in tracks} == {"branches:u"}, tracks)
check("firefox: a count for each sample", sum(c["rangeSampleCount"] for c in tracks) == counts["branches:u"], tracks)
firefox.query("stop")

chrome = Firefox("chrome")
trace = json.loads(read("chrome"))["traceEvents"]
slices = [event for event in trace if event["ph"] == "X"]
markers = chrome.json("thread", "markers", "--limit", "1000")
found = markers["totalMarkerCount"]
check("chrome: all slices are there", found == len(slices) > 0, (found, len(slices)))
names = {row["markerName"] for row in markers["byType"]}
check("chrome: functions", {"main", "turn", "outer", "inner", MADE} <= names, names)
chrome.query("stop")

collapsed = Firefox("collapsed")
functions = collapsed.functions()
outer_percentage = functions["outer"]["totalPercentage"]
check("collapsed: share of outer", abs(outer_percentage - 100 * samples["outer"] / total) < 0.01, outer_percentage)
collapsed.query("stop")

# Prints the sums of each value, for each outermost inlined function at a sampled address.
PPROF = """
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { Profile } from '%s/pprof-format/dist/esm/index.js'
const p = Profile.decode(gunzipSync(readFileSync('%s')))
const text = (n) => p.stringTable.strings[Number(n)]
const by = (list) => new Map(list.map((thing) => [Number(thing.id), thing]))
const [functions, locations, mappings] = [p.function, p.location, p.mapping].map(by)
const result = { types: p.sampleType.map((t) => text(t.type)), sums: {}, stacks: [], lines: [], labels: [] }
for (const sample of p.sample) {
  const stack = sample.locationId.map((id) => locations.get(Number(id)))
  if (stack.some((location) => !mappings.has(Number(location.mappingId)))) throw new Error('no mapping')
  const name = (line) => text(functions.get(Number(line.functionId)).name)
  const outermost = name(stack[0].line.at(-1))
  const sums = (result.sums[outermost] ??= sample.value.map(() => 0))
  sample.value.forEach((value, i) => { sums[i] += Number(value) })
  result.stacks.push(stack.flatMap((location) => location.line.map(name)))
  for (const line of stack[0].line)
    result.lines.push(`${text(functions.get(Number(line.functionId)).filename)}:${line.line}`)
  result.labels.push(sample.label.map((label) => text(label.key)))
}
console.log(JSON.stringify(result))
"""


def decode(name):
    return json.loads(run(node, "--input-type=module", "--eval", PPROF % (modules, f"{files}/{name}")))


pprof = decode("pprof-counts")
check("pprof: values", pprof["types"] == ["instructions:u", "branches:u", "samples"], pprof["types"])
branches = sum(sums[1] for sums in pprof["sums"].values())
found = pprof["sums"]["share_60"]
check("pprof: counts of both events", found[0] == found[2] * 100003 and 0 < found[1] < found[0], found)
pprof = decode("pprof")
instructions = {name: sums[0] for name, sums in pprof["sums"].items()}
for name in "outer", MADE:
    found = pprof["sums"][name]
    check(f"pprof: samples of {name}", found[1] == samples[name], found)
    check(f"pprof: counts of {name}", found[0] >= found[1] * 100003, found)
check("pprof: callers", any(stack[:5] == ["loop", "inner", "outer", "turn", "main"] for stack in pprof["stacks"]), pprof["stacks"][:9])
check("pprof: lines", any(re.search(r"/loop\.h:[1-9]", line) for line in pprof["lines"]), pprof["lines"][:9])
check("pprof: tasks", all(label == ["comm", "pid", "tid"] for label in pprof["labels"]), pprof["labels"][:3])

# A profile that `pmctl serve` has made.
pprof = decode("pprof-served")
check("served pprof: values", pprof["types"] == ["instructions:u", "samples"], pprof["types"])
shares = {part: pprof["sums"].get(f"share_{part}", [0, 0])[1] for part in (10, 30, 60)}
check("served pprof: samples", sum(shares.values()) > 300, shares)
for part, found in shares.items():
    check(f"served pprof: share of share_{part}", abs(100 * found / sum(shares.values()) - part) < 8, shares)


def perfetto(name, *queries):
    """Returns the JSON that each query finds in a trace that Perfetto has opened."""
    found = run(node, f"{here}/test-export-perfetto.mjs", f"{readers}/perfetto", f"{files}/{name}", *queries)
    return [json.loads(line) for line in found.splitlines()]


# The functions of the samples as perf finds them. perf prints microseconds, rounded down: one
# microsecond later is after the sample, by at most two, and before the next one.
perf_samples = re.findall(r"^\S.* (\d+)\.(\d{6}): .*\n\s+[0-9a-f]+ (.*?)(?:\+0x[0-9a-f]+)? \(", read("perf-script"), re.M)
perf_samples = [(int(second + micro), name) for second, micro, name in perf_samples]
start = min(perf_samples)[0]
perf_samples = [((time - start + 1) * 1000, name) for time, name in perf_samples]
times = ",".join(f"({time})" for time, name in perf_samples)
WARNINGS = "SELECT json_group_array(name) FROM stats WHERE severity != 'info' AND value > 0"
warnings, number, tracks, callers, lines, found = perfetto(
    "chrome",
    WARNINGS,
    "SELECT json_array(count(*)) FROM slice",
    "SELECT json_group_array(DISTINCT thread.name) FROM slice JOIN thread_track AS t ON t.id = track_id JOIN thread USING (utid)",
    "SELECT json_group_array(DISTINCT s.name || ' in ' || caller.name) FROM slice AS s JOIN slice AS caller ON caller.id = s.parent_id",
    "SELECT json_group_array(DISTINCT name || ' at ' || EXTRACT_ARG(arg_set_id, 'args.source')) FROM slice",
    f"""SELECT json_group_array(json_array(time, name)) FROM (
        WITH sample(time) AS (VALUES {times})
        SELECT time, name FROM sample JOIN slice ON ts <= time AND time < ts + dur WHERE name IN ('outer', '{MADE}')
    )""",
)
check("perfetto: no warnings", not warnings, warnings)
check("perfetto: all slices are there", number == [len(slices)], number)
check("perfetto: a track for the thread", tracks == ["pmctl_origins"], tracks)
check("perfetto: callers", {"turn in main", "outer in turn", f"{MADE} in turn"} <= set(callers), callers)
inlined = {pair for pair in callers if re.search(r"\b(inner|loop)\b", pair)}
check("perfetto: inlined functions", inlined == {"inner in outer", "loop in inner"}, callers)
for line in r"inner at .*/origins\.c:[1-9]", r"loop at .*/loop\.h:[1-9]":
    check(f"perfetto: {line}", any(re.match(line, pair) for pair in lines if pair), lines)
for name in "outer", MADE:
    count = sum(name == other for time, other in found)
    check(f"perfetto: samples of {name}", count == samples[name], count)
differ = {tuple(pair) for pair in found} ^ {pair for pair in perf_samples if pair[1] in ("outer", MADE)}
check("perfetto: each sample is in its function", not differ, sorted(differ)[:9])
warnings, found = perfetto(
    "chrome-counts",
    WARNINGS,
    """SELECT json_group_array(json_array(name, n, sum)) FROM (
        SELECT name, count(*) AS n, sum(value) AS sum FROM counter JOIN track ON track.id = track_id GROUP BY track_id
    )""",
)
check("perfetto: no warnings for counts", not warnings, warnings)
check("perfetto: a track of counts, with the thread", len(found) == 1 and re.match(r"branches:u id: \d", found[0][0]), found)
check("perfetto: a count for each sample", found[0][1] == counts["branches:u"], found)
check("perfetto: the sum of the counts", found[0][2] == branches, (found, branches))


def speedscope(name):
    """Returns the threads' profiles, and their frames, that speedscope's importer makes of a file."""
    profiles = json.loads(run(node, f"{here}/test-export-speedscope.mjs", f"{modules}/speedscope/dist/release", f"{files}/{name}"))
    return profiles, [frame for profile in profiles for frame in profile["frames"]]


def check_counts(what, frames):
    for name in "outer", MADE:
        found = sum(frame["total"] for frame in frames if frame["name"] == name)
        check(f"{what}: counts of {name}", found == instructions[name], found)


with open(f"{modules}/speedscope/dist/release/file-format-schema.json") as f:
    jsonschema.validate(json.loads(read("speedscope")), json.load(f))
check("speedscope: the file matches the schema", True, "")
profiles, frames = speedscope("speedscope")
check("speedscope: the event", all(p["name"].endswith("(instructions:u)") for p in profiles), [p["name"] for p in profiles])
check("speedscope: the sum", sum(p["total"] for p in profiles) == sum(instructions.values()), instructions)
check_counts("speedscope", frames)
chains = [chain for p in profiles for chain in p["chains"]]
check("speedscope: callers", any(chain[-5:] == ["main", "turn", "outer", "inner", "loop"] for chain in chains), chains[:9])
lines = {(frame["name"], frame["file"].split("/")[-1], frame.get("line", 0) > 0) for frame in frames}
check("speedscope: lines", {("inner", "origins.c", True), ("loop", "loop.h", True)} <= lines, lines)
check_counts("speedscope, of collapsed", speedscope("collapsed")[1])

# perf itself, on the exported perf.data.
percentages = {name: float(percentage) for percentage, name in re.findall(r"^ +([\d.]+)% +\[[.k]\] (\S+)", read("perf").split("# Samples")[1], re.M)}
check("perf: share of outer", abs(percentages.get("outer", 0) - 100 * samples["outer"] / total) < 0.1, percentages)

sys.exit(failures > 0)
