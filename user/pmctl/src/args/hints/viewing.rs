// SPDX-License-Identifier: MIT OR Apache-2.0
//! What perf's commands that look at samples have, and pmctl's have not.

use super::Hint;

const SCREEN: &str =
    "On a terminal the report has the whole screen and keys; --stdio or --no-pager prints text.";
const FILTERS: &str = "`pmctl report` and `pmctl script` have the options that choose samples: --comms, --dsos, -S, --pid, \
                       --tid, -C, --time.";
const HEADER: &str = "The first line of `pmctl report` says what was recorded, and where. perf reads the file, too: \
                      `perf report --header-only -i FILE` shows all.";
const NAMES: &str = "Leave it out: the names of functions are in the recording, which `pmctl record` looks up itself.";
const VERBOSE: &str =
    "Leave it out: what is missing in a recording, and why, is said in front of what is shown.";
const RECORDS: &str = "perf reads the file, too: `perf report --stats -i FILE` counts its records, `perf script -D -i FILE` \
                       shows them.";
const FOR_PROGRAMS: &str = "For programs there are `pmctl script -F FIELDS`, `pmctl diff --json` and \
                            `pmctl export --to collapsed -o -`.";
const EVENTS: &str = "Each event has a table of its own. `pmctl annotate -e EVENT` and `pmctl flamegraph -e EVENT` show one.";
const RANKED: &str = "Rows with a significant difference come first, the largest first; `pmctl diff --json` has all \
                      numbers for another order.";

pub(super) const REPORT: [Hint; 36] = [
    (
        "-F",
        "`--sort KEYS` chooses the columns; overhead and samples are always there.",
    ),
    (
        "--fields",
        "`--sort KEYS` chooses the columns; overhead and samples are always there.",
    ),
    (
        "-U",
        "Functions without a name are `[unknown]`; the lines NO SYMBOLS say what gives them names.",
    ),
    (
        "--hide-unresolved",
        "Functions without a name are `[unknown]`; the lines NO SYMBOLS say what gives them names.",
    ),
    ("--header", HEADER),
    ("--header-only", HEADER),
    ("-I", HEADER),
    ("--show-info", HEADER),
    ("--stats", RECORDS),
    ("--tasks", RECORDS),
    ("--mmaps", RECORDS),
    ("-D", RECORDS),
    ("--dump-raw-trace", RECORDS),
    ("-c", "It is `--comms NAMES`."),
    ("-d", "It is `--dsos NAMES`."),
    ("-b", "It is `--branches`, of `pmctl record -b`."),
    (
        "--branch-stack",
        "It is `--branches`, of `pmctl record -b`.",
    ),
    ("-q", VERBOSE),
    ("--quiet", VERBOSE),
    ("-v", VERBOSE),
    ("--verbose", VERBOSE),
    ("-e", EVENTS),
    ("--event", EVENTS),
    ("--group", EVENTS),
    ("--tui", SCREEN),
    ("--gtk", SCREEN),
    ("-w", "`--width COLUMNS` cuts lines."),
    ("--column-widths", "`--width COLUMNS` cuts lines."),
    ("-t", FOR_PROGRAMS),
    ("--field-separator", FOR_PROGRAMS),
    ("-T", "`--sort tid,comm,symbol` has a row for each thread."),
    (
        "--threads",
        "`--sort tid,comm,symbol` has a row for each thread.",
    ),
    (
        "--total-period",
        "The event count is above each table; a row's part is its overhead.",
    ),
    ("-k", NAMES),
    ("--vmlinux", NAMES),
    ("--kallsyms", NAMES),
];

pub(super) const SCRIPT: [Hint; 17] = [
    (
        "-s",
        "perf reads the file, too: `perf script -s FILE -i RECORDING` runs scripts.",
    ),
    (
        "--script",
        "perf reads the file, too: `perf script -s FILE -i RECORDING` runs scripts.",
    ),
    ("--header", HEADER),
    ("--header-only", HEADER),
    (
        "-G",
        "Call chains stand behind the samples that have some; without -g `pmctl record` records none.",
    ),
    (
        "--hide-call-graph",
        "Call chains stand behind the samples that have some; without -g `pmctl record` records none.",
    ),
    ("-D", RECORDS),
    ("--dump-raw-trace", RECORDS),
    ("--show-mmap-events", RECORDS),
    ("--show-task-events", RECORDS),
    ("-c", "It is `--comms NAMES`."),
    ("-v", VERBOSE),
    ("--verbose", VERBOSE),
    ("-q", VERBOSE),
    ("-k", NAMES),
    ("--vmlinux", NAMES),
    ("--kallsyms", NAMES),
];

pub(super) const ANNOTATE: [Hint; 18] = [
    ("-s", "The function stands alone: `pmctl annotate SYMBOL`."),
    (
        "--symbol",
        "The function stands alone: `pmctl annotate SYMBOL`.",
    ),
    (
        "-l",
        "Source lines are shown if there is debug information; --no-source leaves them out.",
    ),
    (
        "--print-line",
        "Source lines are shown if there is debug information; --no-source leaves them out.",
    ),
    (
        "--source",
        "Source lines are shown if there is debug information; --no-source leaves them out.",
    ),
    ("-d", FILTERS),
    ("--dsos", FILTERS),
    ("-C", FILTERS),
    ("--time", FILTERS),
    (
        "--tui",
        "The keys of `pmctl report` on a terminal: `a` shows the instructions of a function.",
    ),
    ("-q", VERBOSE),
    ("-v", VERBOSE),
    ("--verbose", VERBOSE),
    ("-D", RECORDS),
    (
        "-n",
        "The number of samples is in the first line; each instruction has its percentage.",
    ),
    ("--header", HEADER),
    ("-k", NAMES),
    ("--vmlinux", NAMES),
];

pub(super) const TOP: [Hint; 22] = [
    ("-K", "`pmctl top -e cycles:u` samples programs only."),
    (
        "--hide_kernel_symbols",
        "`pmctl top -e cycles:u` samples programs only.",
    ),
    ("-U", "`pmctl top -e cycles:k` samples the kernel only."),
    (
        "--hide_user_symbols",
        "`pmctl top -e cycles:k` samples the kernel only.",
    ),
    (
        "-z",
        "Leave it out: each table has the samples since the one before.",
    ),
    (
        "--zero",
        "Leave it out: each table has the samples since the one before.",
    ),
    (
        "-u",
        "Sample the user's processes: `-p $(pgrep -d, -u USER)`.",
    ),
    (
        "--uid",
        "Sample the user's processes: `-p $(pgrep -d, -u USER)`.",
    ),
    (
        "--call-graph",
        "`pmctl top -g` records call chains by frame pointers.",
    ),
    (
        "-m",
        "The rings have the size that `pmctl record` gives them.",
    ),
    (
        "--mmap-pages",
        "The rings have the size that `pmctl record` gives them.",
    ),
    ("--comms", FILTERS),
    ("--dsos", FILTERS),
    ("--symbols", FILTERS),
    ("-H", "`--sort tid,comm,symbol` has a row for each thread."),
    (
        "--tui",
        "Leave it out: on a terminal it has the whole screen; --stdio prints tables.",
    ),
    (
        "--children",
        "`pmctl record -g` and `pmctl report --children` count callers, too.",
    ),
    ("-w", "Lines are as wide as the terminal."),
    ("-v", VERBOSE),
    ("--verbose", VERBOSE),
    ("-k", NAMES),
    ("--vmlinux", NAMES),
];

pub(super) const DIFF: [Hint; 20] = [
    ("-c", RANKED),
    ("--compute", RANKED),
    ("-o", RANKED),
    ("--order", RANKED),
    ("-b", RANKED),
    ("--baseline-only", RANKED),
    ("-C", FILTERS),
    ("--comms", FILTERS),
    ("-d", FILTERS),
    ("--dsos", FILTERS),
    ("-S", FILTERS),
    ("--symbols", FILTERS),
    ("--time", FILTERS),
    ("--pid", FILTERS),
    ("--tid", FILTERS),
    ("-t", FOR_PROGRAMS),
    ("--field-separator", FOR_PROGRAMS),
    ("-q", VERBOSE),
    ("-v", VERBOSE),
    ("--verbose", VERBOSE),
];
