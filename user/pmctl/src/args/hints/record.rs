// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `perf record`.

use super::Hint;

/// What `perf record` has, of version 7.3, and a value for those that take one.
pub(super) const OPTIONS: &str = "-a -b -B -c=1 -C=0 -d -D=1 -e=cycles -F=99 -F=max -g -G=x -i -I -j=any,u -k=mono -m=8 -N -n -o=x \
    -P -p=1 -q -R -r=1 -S -s -t=1 -T -u=root -v -W -z --affinity=node --aio --all-cgroups --all-cpus --all-kernel \
    --all-user --aux-sample --branch-any --branch-filter=any --buildid-all --buildid-mmap --call-graph=fp --cgroup=x \
    --clockid=mono --code-page-size --compression-level=1 --control=fd:3 --cpu=0 --data --data-page-size --debuginfod \
    --delay=1 --dry-run --event=cycles --exclude-perf --filter=x --freq=99 --group --intr-regs --kcore \
    --kernel-callchains --max-size=1M --mmap-flush=1 --namespaces --no-bpf-event --no-buffering --no-buildid \
    --no-buildid-cache --no-inherit --no-samples --num-thread-synthesize=1 --off-cpu --output=x --overwrite \
    --per-thread --phys-data --pid=1 --proc-map-timeout=1 --quiet --raw-samples --realtime=1 --running-time \
    --sample-cpu --sample-identifier --snapshot --stat --strict-freq --switch-events --switch-output \
    --switch-output=signal --switch-output=10s --switch-output-event=x --synth=no --tail-synthesize --threads --tid=1 \
    --timestamp --timestamp-boundary --timestamp-filename --transaction --uid=root --user-callchains --user-regs \
    --verbose --vmlinux=x --weight --data-mmap --latency --off-cpu-thresh=1 --sample-mem-info --setup-filter=pin \
    --switch-max-files=2 --mmap-pages=8";

const ADDRESSES: &str = "The driver records where the program is, and not the data that it uses (PEBS, IBS): \
                         `perf record -d` does, on the kernel's counters.";
const REGISTERS: &str = "No registers are recorded. The events have them: PERF_SAMPLE_REGS_USER, PERF_SAMPLE_REGS_INTR.";
const CGROUPS: &str = "The driver knows no control groups. Sample the processes of one: \
                       `pmctl record -p $(xargs </sys/fs/cgroup/NAME/cgroup.procs | tr ' ' ,)`.";
const FEWER: &str = "Leave it out: pmctl streams the samples of all CPUs to one file, and loses none unless it says so.";
const SYNTHESIS: &str =
    "Leave it out: what is mapped is written before the samples, for all tasks that are sampled.";
const ZSTD: &str = "Compress what goes to standard output: `pmctl record -o - -- COMMAND | zstd >FILE`, and read it \
                    with `zstd -dc FILE | pmctl report -i -`.";
const FLIGHT: &str = "A flight recorder is `pmctl record --overwrite --switch-output`: `kill -USR2` writes what it has.";
const CONTROL: &str =
    "`-D MS` begins later, --duration ends it, and --switch-output=signal makes a file at SIGUSR2.";
const KERNEL_ONLY: &str =
    "The driver records no such things; `perf record` does, on the kernel's counters.";

const SWITCHES: &str = "The switches between tasks are not in the file; `perf record -e dummy --switch-events` has them.";

/// Answers without a way of pmctl's.
pub(super) const NOT: [&str; 4] = [ADDRESSES, REGISTERS, KERNEL_ONLY, SWITCHES];

/// The hints for options of `perf record`.
pub(super) const HINTS: [Hint; 63] = [
    ("-d", ADDRESSES),
    ("--data", ADDRESSES),
    ("--phys-data", ADDRESSES),
    ("--data-page-size", ADDRESSES),
    ("--code-page-size", ADDRESSES),
    ("-W", ADDRESSES),
    ("--weight", ADDRESSES),
    ("--transaction", ADDRESSES),
    ("-I", REGISTERS),
    ("--intr-regs", REGISTERS),
    ("--user-regs", REGISTERS),
    ("-G", CGROUPS),
    ("--cgroup", CGROUPS),
    ("--all-cgroups", CGROUPS),
    ("--aio", FEWER),
    ("--threads", FEWER),
    ("--affinity", FEWER),
    ("--mmap-flush", FEWER),
    ("-r", FEWER),
    ("--realtime", FEWER),
    ("--num-thread-synthesize", SYNTHESIS),
    ("--proc-map-timeout", SYNTHESIS),
    ("--synth", SYNTHESIS),
    ("--tail-synthesize", SYNTHESIS),
    ("--buildid-mmap", SYNTHESIS),
    ("--buildid-all", SYNTHESIS),
    ("--kcore", SYNTHESIS),
    ("-z", ZSTD),
    ("--compression-level", ZSTD),
    ("-S", FLIGHT),
    ("--snapshot", FLIGHT),
    ("--switch-output-event", FLIGHT),
    ("--control", CONTROL),
    ("--filter", KERNEL_ONLY),
    ("--exclude-perf", KERNEL_ONLY),
    ("--off-cpu", KERNEL_ONLY),
    ("--namespaces", KERNEL_ONLY),
    ("--off-cpu-thresh", KERNEL_ONLY),
    ("--setup-filter", KERNEL_ONLY),
    (
        "--latency",
        "`pmctl diff` and `pmctl report` show shares of the samples; which threads ran beside each other is in the \
     times of `pmctl script -F tid,time`.",
    ),
    ("--data-mmap", ADDRESSES),
    ("--sample-mem-info", ADDRESSES),
    ("--aux-sample", KERNEL_ONLY),
    (
        "--no-bpf-event",
        "Leave it out: programs of BPF that are loaded while the machine is recorded are told, and cost nothing.",
    ),
    (
        "-k",
        "Leave it out: the times are those of perf's own clock, as of `perf record` without -k.",
    ),
    (
        "--clockid",
        "Leave it out: the times are those of perf's own clock, as of `perf record` without -k.",
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
        "-s",
        "`pmctl stat -p PID --per-thread` counts each thread; `pmctl script -F tid,period` has the thread of each sample.",
    ),
    (
        "--stat",
        "`pmctl stat -p PID --per-thread` counts each thread; `pmctl script -F tid,period` has the thread of each sample.",
    ),
    ("-n", "`pmctl stat` counts without samples."),
    ("--no-samples", "`pmctl stat` counts without samples."),
    (
        "--per-thread",
        "Leave it out: each sample names its thread, and children are sampled, too, unless you say -i.",
    ),
    (
        "--group",
        "Leave it out: all events are sampled all the time. `--timebase EVENT --count EVENTS` counts others at each \
         sample.",
    ),
    ("--switch-events", SWITCHES),
    (
        "--timestamp-filename",
        "The files of --switch-output have times in their names.",
    ),
    (
        "--strict-freq",
        "Leave it out: a frequency above the module's limit is refused.",
    ),
    (
        "--running-time",
        "Leave it out: an event counts all the time that it is enabled.",
    ),
    (
        "--dry-run",
        "`pmctl encode EVENTS` shows what the events are.",
    ),
    (
        "--vmlinux",
        "Leave it out: the kernel's functions have the names that it has itself (/proc/kallsyms).",
    ),
    (
        "--debuginfod",
        "Leave it out: names come from the files and from debug files, also from those that debuginfod-find has fetched.",
    ),
    (
        "-v",
        "`pmctl doctor` tries all that sampling needs, and says what is missing.",
    ),
    (
        "--verbose",
        "`pmctl doctor` tries all that sampling needs, and says what is missing.",
    ),
];
