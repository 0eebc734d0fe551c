// SPDX-License-Identifier: MIT OR Apache-2.0
//! What users of perf type, and what to type instead where pmctl has no such option or command.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// An option and what to type instead.
type Hint = (&'static str, &'static str);

const METRICS: &str =
    "Metrics are not there yet; ratios of two events, as `insn per cycle`, stand beside them.";
const PARTS: &str =
    "`--per-socket`, `--per-core` and `-A` have the same numbers in larger and in smaller parts.";
const GROUPS: &str = "The driver knows no control groups: count processes with `-p`.";
const COMMAS: &str = "Numbers for people have commas always; `-x,` and `--json` are for programs.";
const SCALING: &str = "Leave it out: no count is scaled, for no counter is shared.";
const MODES: &str =
    "Write `:u` (user) or `:k` (kernel) behind each event: `-e instructions:u,cycles:u`.";
const VERBOSE: &str = "`pmctl stat -a --explain` shows what is written to the counters.";
const NULL: &str = "`time COMMAND` tells the times alone.";
const SYNC: &str = "Write `sync` before it.";

/// Those of `perf stat`.
const STAT: [Hint; 32] = [
    ("--metric-no-group", METRICS),
    ("--smi-cost", METRICS),
    ("-T", METRICS),
    ("--transaction", METRICS),
    ("--no-merge", PARTS),
    ("--no-big-num", COMMAS),
    ("--scale", SCALING),
    ("--no-scale", SCALING),
    ("--all-user", MODES),
    ("--all-kernel", MODES),
    ("--verbose", VERBOSE),
    ("--null", NULL),
    ("--sync", SYNC),
    ("--pre", "Write the command before it."),
    ("--post", "Write the command behind it."),
    (
        "--interval-count",
        "`--timeout MS` ends after a time: 10 intervals of `-I 1000` are `--timeout 10000`.",
    ),
    ("--table", "`--json=v1` has the counts of each run."),
    ("--log-fd", "`-o /dev/fd/N` writes to descriptor N."),
    ("--topdown", METRICS),
    ("--per-node", PARTS),
    ("--per-die", PARTS),
    ("--per-cluster", PARTS),
    ("--per-cache", PARTS),
    ("-G", GROUPS),
    ("--cgroup", GROUPS),
    ("--for-each-cgroup", GROUPS),
    ("-B", COMMAS),
    ("--big-num", COMMAS),
    ("-v", VERBOSE),
    (
        "--append",
        "`-o - >>FILE` appends what goes to standard output.",
    ),
    ("-n", NULL),
    ("-S", SYNC),
];

const ADDRESSES: &str = "The driver records where the program is, and not the data that it uses (PEBS, IBS): \
                         `perf record -d` does, on the kernel's counters.";
const REGISTERS: &str = "No registers are recorded. The events have them: PERF_SAMPLE_REGS_USER, PERF_SAMPLE_REGS_INTR.";
const CGROUPS: &str = "The driver knows no control groups. Sample the processes of one: \
                       `pmctl record -p $(paste -sd, /sys/fs/cgroup/NAME/cgroup.procs)`.";
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

/// Those of `perf record`.
const RECORD: [Hint; 58] = [
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
    ("--aux-sample", KERNEL_ONLY),
    (
        "--no-bpf-event",
        "Leave it out: programs of BPF are told to who records the machine, and cost nothing.",
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
        "Sample the user's processes: `pmctl record -p $(pgrep -d, -u USER)`.",
    ),
    (
        "--uid",
        "Sample the user's processes: `pmctl record -p $(pgrep -d, -u USER)`.",
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
    (
        "--switch-events",
        "The switches between tasks are not in the file; `perf record -e dummy --switch-events` has them.",
    ),
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
        "Leave it out: names come from the files themselves.",
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

/// Returns the message about a mistake of one who knows perf, in the options of `command`; `None` if it is none.
pub(crate) fn instead(answer: &clap::Error, command: &str) -> Option<String> {
    if is_twice_detailed(answer) {
        return Some(TWICE_DETAILED.to_owned());
    }
    if let Some((name, instead)) = perfs_option(answer, command) {
        return Some(format!("there is no option `{name}`.\n{instead}"));
    }
    let (name, instead) = perfs_command(answer)?;
    Some(format!("there is no command `{name}`.\n{instead}"))
}

const TWICE_DETAILED: &str = "-d: once is all, since the further events of perf's `-d -d` would have to share counters. Name those that \
                              you want: `pmctl stat -e dTLB-load-misses,iTLB-load-misses -- COMMAND`.";

/// Returns whether the mistake is `stat -d -d`, which perf takes.
fn is_twice_detailed(answer: &clap::Error) -> bool {
    let again = answer.get(ContextKind::InvalidArg);
    answer.kind() == ErrorKind::ArgumentConflict
        && matches!(again, Some(ContextValue::String(name)) if name == "--detailed")
}

/// Returns an option that perf has and pmctl has not, and what to type instead, if that is the mistake.
fn perfs_option(answer: &clap::Error, command: &str) -> Option<Hint> {
    if answer.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let hints: &[Hint] = match command {
        "stat" => &STAT,
        "record" => &RECORD,
        _ => return None,
    };
    let Some(ContextValue::String(name)) = answer.get(ContextKind::InvalidArg) else {
        return None;
    };
    hints.iter().copied().find(|(known, _)| known == name)
}

/// Returns a command that perf has and pmctl has not, and what to type instead, if that is the mistake.
fn perfs_command(answer: &clap::Error) -> Option<Hint> {
    const COMMANDS: [Hint; 2] = [
        (
            "top",
            "For a report of five seconds: `pmctl record -a --duration 5; pmctl report`.",
        ),
        ("version", "The version is shown by `pmctl -V`."),
    ];
    let Some(ContextValue::String(name)) = answer.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    COMMANDS.into_iter().find(|(known, _)| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    /// What `perf record` has, of version 7.3, and a value for those that take one.
    const OF_RECORD: &str = "-a -b -B -c=1 -C=0 -d -D=1 -e=cycles -F=99 -F=max -g -G=x -i -I -j=any,u -k=mono -m=8 -N -n -o=x \
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
        --verbose --vmlinux=x --weight";

    fn parsed(command: &str, words: &[&str]) -> Option<clap::Error> {
        Cli::try_parse_from([&["pmctl", command], words, &["true"]].concat()).err()
    }

    #[test]
    fn an_option_of_perf_record_works_or_has_a_hint() {
        for option in OF_RECORD.split_whitespace() {
            let word = match option.split_once('=') {
                Some((name, value)) if !name.starts_with("--") => format!("{name}{value}"),
                _ => option.to_owned(),
            };
            if let Some(error) = parsed("record", &[&word]) {
                assert!(instead(&error, "record").is_some(), "{option}: {error}");
            }
        }
    }

    #[test]
    fn no_hint_is_for_what_there_is() {
        for (command, hints) in [("record", &RECORD[..]), ("stat", &STAT)] {
            for (name, _) in hints {
                let error = parsed(command, &[name]).expect(name);
                let message = instead(&error, command).unwrap_or_default();
                assert!(
                    message.contains(&format!("no option `{name}`")),
                    "{name}: {error}"
                );
            }
        }
    }
}
