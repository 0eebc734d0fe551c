// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `perf stat`.

use super::Hint;

/// What `perf stat` has, of version 7.3, and a value for those that take one.
pub(super) const OPTIONS: &str = "-a -A -B -C=0 -D=10 -d -e=cycles -G=x -I=100 -i -j -M=insn_per_cycle -n -o=x -p=1 -r=2 -S -t=1 -T \
    -v -x=, --affinity --all-cpus --all-kernel --all-user --append --big-num --cgroup=x --control=fd:3 --cpu=0 --cputype=core \
    --delay=10 --detailed --event=cycles --field-separator=, --filter=x --for-each-cgroup=x --hide-zero-events \
    --hybrid-merge --interval-clear --interval-count=2 --interval-print=100 --iostat --json-output --log-fd=2 \
    --metric-no-group --metric-no-merge --metric-no-threshold --metric-only --metrics=insn_per_cycle --no-aggr \
    --no-csv-summary --no-inherit --no-merge --null --output=x --per-cache --per-cluster --per-core --per-die --per-node \
    --per-socket --per-thread --percore-show-thread --pid=1 --pmu-filter=cpu --post=x --pre=x --quiet --record-tpebs \
    --repeat=2 --scale --smi-cost --summary --sync --table --td-level=1 --tid=1 --timeout=100 --topdown --tpebs-mode=mean \
    --transaction --verbose";

const PARTS: &str =
    "`--per-socket`, `--per-core` and `-A` have the same numbers in larger and in smaller parts.";
const GROUPS: &str = "The driver knows no control groups. Count the processes of one: \
                      `pmctl stat -p $(xargs </sys/fs/cgroup/NAME/cgroup.procs | tr ' ' ,)`.";
const VERBOSE: &str = "`pmctl stat -a --explain` shows what is written to the counters.";
const TRANSACTIONS: &str =
    "The driver counts no transactions apart: it does not set the bits of event selects for them.";
const ALWAYS: &str = "Leave it out: it is always so.";
const TPEBS: &str = "The driver has no precise samples, which tell latencies of retirement.";
const KIND: &str = "On a processor with two kinds of cores, -C names the CPUs of one: \
                    `pmctl stat -C $(cat /sys/devices/cpu_core/cpus)`.";
const UNCORE: &str =
    "The driver counts what cores do. `perf stat` counts what is outside of them, beside pmctl.";
const SHELL: &str = "Write it into the command: `pmctl stat -- sh -c 'BEFORE; COMMAND; AFTER'` counts all three, and \
                     `BEFORE; pmctl stat -- COMMAND; AFTER` the command alone.";

const SMI: &str =
    "The register with the number of SMIs is no counter: `perf stat --smi-cost` reads it.";

/// Answers without a way of pmctl's.
pub(super) const NOT: [&str; 4] = [TRANSACTIONS, TPEBS, UNCORE, SMI];

pub(super) const HINTS: [Hint; 37] = [
    (
        "--metric-no-group",
        "Leave it out: metrics share a run if the counters are enough, and none is scaled.",
    ),
    (
        "--metric-no-merge",
        "Leave it out: metrics share a run if the counters are enough, and none is scaled.",
    ),
    (
        "--metric-no-threshold",
        "Leave it out: no event is counted for a threshold alone.",
    ),
    ("--smi-cost", SMI),
    ("-T", TRANSACTIONS),
    ("--transaction", TRANSACTIONS),
    ("--no-merge", PARTS),
    ("--percore-show-thread", PARTS),
    ("--per-node", PARTS),
    ("--per-die", PARTS),
    ("--per-cluster", PARTS),
    ("--per-cache", PARTS),
    ("--verbose", VERBOSE),
    ("-v", VERBOSE),
    ("--pre", SHELL),
    ("--post", SHELL),
    ("--table", "`--json=v1` has the counts of each run."),
    ("-G", GROUPS),
    ("--cgroup", GROUPS),
    ("--for-each-cgroup", GROUPS),
    ("--affinity", ALWAYS),
    ("--no-affinity", ALWAYS),
    (
        "--hybrid-merge",
        "Leave it out: an event is counted on all CPUs, whatever their kind.",
    ),
    (
        "--no-csv-summary",
        "Leave it out: the totals of --summary have no word in front.",
    ),
    ("--cputype", KIND),
    ("--pmu-filter", KIND),
    (
        "--filter",
        "It limits tracepoints and other events of the kernel: `pmctl wrap -- perf stat` has them.",
    ),
    ("--iostat", UNCORE),
    ("--record-tpebs", TPEBS),
    ("--tpebs-mode", TPEBS),
    (
        "--control",
        "`-D MS` begins later, `--timeout MS` ends earlier; the library starts and stops at any moment.",
    ),
    (
        "--no-children",
        "`-i` does not count what the command creates.",
    ),
    ("--duration", "`--timeout MS` ends after a time."),
    (
        "--call-graph",
        "`pmctl record -g` samples with call chains.",
    ),
    (
        "-g",
        "`pmctl record -g` samples with call chains. Groups of metrics are -M GROUP.",
    ),
    ("-F", "`pmctl record -F` samples at a frequency."),
    ("-c", "`pmctl record -c` samples each so many events."),
];
