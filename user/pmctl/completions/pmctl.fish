# SPDX-License-Identifier: MIT OR Apache-2.0
# Made by `cargo xtask pmctl`: not to be edited.
# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_pmctl_global_optspecs
    string join \n h/help V/version
end

function __fish_pmctl_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_pmctl_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_pmctl_using_subcommand
    set -l cmd (__fish_pmctl_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c pmctl -n "__fish_pmctl_needs_command" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_needs_command" -s V -l version -d 'Print version'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "info" -d 'Show the CPU\'s counters, and the events that all CPUs may have'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "list" -d 'List the events of this CPU, or of another model'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "doctor" -d 'Check whether counting works here, and tell how to mend it'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "stat" -d 'Count events of a command, of processes, or of the whole system'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "bench" -d 'Compare commands by any counter, over several runs'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "record" -d 'Sample a command or the whole system'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "report" -d 'Show which programs and functions the samples are of'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "top" -d 'Show live which programs and functions the samples are of'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "script" -d 'Print the samples one by one'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "flamegraph" -d 'Draw the samples as a flame graph'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "annotate" -d 'Show instructions and source lines of a function, with their samples'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "diff" -d 'Compare two or three recordings, function by function'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "export" -d 'Write a recording for another viewer: Firefox Profiler, pprof, Perfetto, speedscope, ...'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "serve" -d 'Serve counters for Prometheus, and profiles, over HTTP'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "wrap" -d 'Run perf, or another program that opens perf events, on the driver\'s counters'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "vm" -d 'Run stat, record, bench or wrap in a virtual machine with a PMU, on this machine\'s files'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "encode" -d 'Show an event\'s encoding'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "regs" -d 'Show what the counters\' registers hold (root only)'
complete -c pmctl -n "__fish_pmctl_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c pmctl -n "__fish_pmctl_using_subcommand info" -l replay -d 'Look at another machine: FOLDER has copies of its proc/, sys/ and dev/, and the output of `cpuid -1 -r` as the file cpuid' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand info" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand list" -s m -l model -d 'List the events of this CPU model' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand list" -l replay -d 'Look at another machine: FOLDER has copies of its proc/, sys/ and dev/, and the output of `cpuid -1 -r` as the file cpuid' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand list" -s a -l all -d 'List also events that the driver can\'t count, and outdated names'
complete -c pmctl -n "__fish_pmctl_using_subcommand list" -s d -l desc -d 'Show descriptions, too, of /usr/share/perfmon/events/MODEL/*.json'
complete -c pmctl -n "__fish_pmctl_using_subcommand list" -s j -l json -d 'Print JSON: an array with an object for each event and metric, or with the names of metric groups'
complete -c pmctl -n "__fish_pmctl_using_subcommand list" -l raw -d 'Print names only, one on a line'
complete -c pmctl -n "__fish_pmctl_using_subcommand list" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand doctor" -l replay -d 'Look at another machine: FOLDER has copies of its proc/, sys/ and dev/, and the output of `cpuid -1 -r` as the file cpuid' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s e -l event -d 'Count these events, separated by commas; may be repeated' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s M -l metrics -d 'Count what these metrics need, and show them: names, or groups, separated by commas; may be repeated' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l td-level -d 'Count this level of --topdown' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s p -l pid -d 'Count these processes, separated by commas. Without a command, stop when they have ended' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s t -l tid -d 'Count these threads, separated by commas. Without a command, stop when they have ended' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s C -l cpu -d 'Count all that runs on these CPUs, as 0-2,5. Without a command, stop at Ctrl-C' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s G -l cgroup -d 'Count only in these cgroups, separated by commas: one for each event of -e, in the same order, or one for all events' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l for-each-cgroup -d 'Count each event in each of these cgroups, separated by commas; `*` stands for any text and `?` for one byte, both within a level of a name, `**` for any number of levels' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s D -l delay -d 'Start to count MS milliseconds after the start' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l timeout -d 'End after MS milliseconds; a command gets SIGTERM' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s r -l repeat -d 'Run the command N times, and show the mean and its standard error. If there are too few counters, run it more often, so that each event is counted N times. With 0, run until Ctrl-C, and show each run' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s I -l interval -d 'Print the counts every MS milliseconds' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l interval-count -d 'End after N intervals of -I; a command gets SIGTERM' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s x -l field-separator -d 'Print a line for each event, with perf\'s fields separated by SEP' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s j -l json -d 'Print JSON: an object for each event with perf\'s keys; `--json=v1`: one object with all numbers' -r -f -a "perf\t''
v1\t''"
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s o -l output -d 'Write the counts to FILE instead of standard error; - is standard output' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l record -d 'Write the counts also to FILE, for --report: the object of --json=v1' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l report -d 'Show the counts of FILE, of --record or --json=v1, in any form' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l log-fd -d 'Write the counts to this descriptor, after what is there' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l metric-only -d 'Show the metrics of -M without the counts'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l topdown -d 'Count the top-down method\'s first level: `-M TopdownL1`, or `-M PipelineL1` of AMD\'s'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s n -l null -d 'Count nothing: show the times'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l all-user -d 'Count events without a modifier in user mode only'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l all-kernel -d 'Count events without a modifier in the kernel only'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s a -l all-cpus -d 'Count the whole system. Without a command, stop at Ctrl-C'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s i -l no-inherit -d 'Don\'t count what the command or the tasks create'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s A -l no-aggr -d 'Show each CPU of -a or -C'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l per-core -d 'Show each core of -a or -C'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l per-socket -d 'Show each socket of -a or -C'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l per-thread -d 'Show each thread of -p or -t'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s d -l detailed -d 'Count the first and the last level of the data cache, too'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l multiplex -d 'If the counters are too few, let the events take turns, and estimate their counts; each is followed by the share of the time in which it was counted'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s S -l sync -d 'Write what is in memory to the disks before each run, as sync(1)'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l interval-clear -d 'Clear the screen before each interval of -I'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l summary -d 'With -I and -x or --json, print the totals, too'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l append -d 'Append to the FILE of -o instead of replacing it'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l hide-zero-events -d 'Hide events whose count is 0'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l no-big-num -d 'Show numbers without commas'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s B -l big-num -d 'Accepted from users of perf, without effect'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s q -l quiet -d 'Don\'t print counts'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -l explain -d 'With -a or -C, show what is written to each counter, and what the driver and the registers hold'
complete -c pmctl -n "__fish_pmctl_using_subcommand stat" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -s e -l event -d 'Count these events, as for `pmctl stat`, except those of the kernel and energy [default: instructions:u and, where the CPU has them, cycles,branches,branch-misses; in `pmctl vm` instructions:u,branches:u]' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -s r -l repeat -d 'Run each command N times' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -s w -l warmup -d 'Run each command N times before, without counting' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -l prepare -d 'Run this with `sh -c` before each run, without counting' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -l save -d 'Write all numbers to FILE, for --baseline: the JSON of --export. The file of --baseline is not overwritten if a CONDITION holds' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -l baseline -d 'Compare with FILE of --save, in place of the first command' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -l fail-if -d 'Exit with 1 if this holds; may be given several times' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -l suite -d 'Show the numbers of FILE, which `--save` of pmctl or of a suite in Rust or Python wrote, in place of running commands. With several files, the oldest first, changes are from the first one' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -l export -d 'Print the numbers in this format, in place of the table; html and svg are for --suite' -r -f -a "json\t''
csv\t''
markdown\t''
html\t'A page with plots'
svg\t'A plot of the changes of the first event'"
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -l shell -d 'Run each COMMAND with `sh -c`; the shell is counted, too'
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -s i -l ignore-failure -d 'Go on when a command fails'
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -l emulated -d 'Leave out what an emulated machine says nothing about: `pmctl vm` adds this option'
complete -c pmctl -n "__fish_pmctl_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s e -l event -d 'Sample by these events, separated by commas; may be repeated [default: cycles, precise if possible]' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s c -l period -d 'Take a sample every N events [default: 1000003; of page faults, switches and migrations: 1]' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s F -l freq -d 'Take about HZ samples per second instead of one every N events; `max`: as many as the module allows' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l call-graph -d 'Record call chains by frame pointers (fp, as -g), or for programs without them by copies of the stack (dwarf, or dwarf,BYTES [8192]) or the calls that the CPU records (lbr)' -r -f -a "fp\t''
dwarf\t''
lbr\t''"
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s C -l cpu -d 'Sample all programs on these CPUs, as 0-2,5' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s p -l pid -d 'Sample these processes, separated by commas, and the children that they start. Without a command, stop when they have ended or at Ctrl-C' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s t -l tid -d 'Sample these threads, separated by commas, and what they start. Without a command, stop when they have ended or at Ctrl-C' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s G -l cgroup -d 'Sample only the tasks of these cgroups, separated by commas, on all CPUs or on those of -C: one for each event of -e, in the same order, or one for all events' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s j -l branch-filter -d 'Record the last branches of these kinds only, separated by commas: `any`, `any_call`, `any_ret`, `ind_call`, `ind_jmp`, `cond`, `call`, and modes `u`, `k`; `no_flags,no_cycles` leaves out predictions and cycles' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l timebase -d 'Sample by this event only, and count those of --count, by a trace of the whole machine' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l count -d 'Count these events from sample to sample, or read values, as energy-pkg and temperature; may be repeated' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s m -l pages -d 'Size of each CPU\'s ring in pages of 4 KiB, or as 1M (B, K, M, G); rounded up to a power of 2 of pages [default: 64, with stacks or precise samples 512, of a trace 1024, or fewer if the memory limit is lower]' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s D -l delay -d 'Begin to sample MS milliseconds after the start' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l max-size -d 'Stop recording when its records have SIZE, as 100M (B, K, M, G); a command goes on' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l duration -d 'Stop recording after SECS seconds; a command goes on' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s o -l output -d 'Write the recording to FILE; - is standard output, as a stream for `-i -`' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l switch-output -d 'Begin a new file, FILE.<time>, at SIGUSR2 (signal), after a time (10m: s, m, h, d) or with a size (100M: B, K, M, G)' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l switch-max-files -d 'Keep the last N files of --switch-output' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s g -d 'Record call chains, by frame pointers'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l user-callchains -d 'Record call chains of programs only; with -g'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l kernel-callchains -d 'Record call chains of the kernel only; with -g'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l all-user -d 'Sample user mode only, as `:u` after each event'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l all-kernel -d 'Sample the kernel only, as `:k` after each event'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s a -l all-cpus -d 'Sample all programs. Without a command, stop at Ctrl-C'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l all-cgroups -d 'Record the cgroup of each sample, for `pmctl report --sort cgroup`'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s i -l no-inherit -d 'Don\'t sample what the command or the tasks create'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s b -l branches -d 'Record the last branches before each sample'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s d -l data -d 'Record the address of the data that each sample reads or writes, and where it came from; with precise events, as -e NAME:pp'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s W -l weight -d 'Record the latency of the memory access of each sample, in cycles; with precise events, as -e NAME:pp'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l rotate -d 'Trace the whole machine, and replace the buffers when one is nearly full: only the moment of the exchange is lost, not all that follows'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l overwrite -d 'Keep the newest samples only, as many as the rings have room for; write them at the end, or as --switch-output says'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s q -l quiet -d 'Print no summary'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s N -l no-buildid-cache
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s B -l no-buildid
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s T -l timestamp
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s P -l sample-period
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s R -l raw-samples
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l sample-cpu
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l sample-identifier
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l timestamp-boundary
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l no-buffering
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -l emulated -d 'Sample instructions by default, since cycles of an emulated machine say nothing: `pmctl vm` adds this option'
complete -c pmctl -n "__fish_pmctl_using_subcommand record" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -s i -l input -d 'Read the recording in FILE; - is standard input' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -s s -l sort -d 'Group samples by these keys, separated by commas; `overhead` and `samples` are always shown, and may be named' -r -f -a "comm\t''
pid\t''
tid\t''
dso\t''
symbol\t''
cpu\t''
srcline\t''
cgroup\t''
mem\t'The cache or memory that the data came from'
tlb\t'The translation of the data\'s address'
locked\t'The instruction was locked'
snoop\t'The answer of other caches'
blocked\t'The reason why a load waited for an earlier store'
local_weight\t'The latency of a sample'
weight\t'The sum of the latencies of a row\'s samples'
symbol_daddr\t'The variable of the data, or its address'
dso_daddr\t'The file or the memory that has the data'"
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -s g -l call-graph -d 'Show under each row the call chains of `pmctl record -g`: from the function to its callers (callee), or from the outermost caller inward (caller, as -g alone); a number after a comma hides smaller percentages' -r -f -a "caller\t''
callee\t''"
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l max-stack -d 'Show at most N functions of a call chain' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l limit -d 'Show the first N rows of each table' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l percent-limit -d 'Show rows with an overhead of at least PERCENT' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l width -d 'Cut lines after COLUMNS characters' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l comms -d 'Show samples of tasks with these names only, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l pid -d 'Show samples of these processes only, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l tid -d 'Show samples of these threads only, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -s C -l cpu -d 'Show samples on these CPUs only, as 0-2,5' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l time -d 'Show samples from START to STOP only, in seconds as `pmctl script` shows them; one may be left out' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -s S -l symbols -d 'Show samples in these functions only, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l dsos -d 'Show samples in these programs and libraries only, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l branches -d 'Show the branches of `pmctl record -b`: from where to where, how often, how often mispredicted'
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -s G -l inverted -d 'The same as -g caller, as perf has it'
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l inline -d 'Show functions that were inlined, from debug information, in call chains'
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l no-inline -d 'Accepted from users of perf, without effect: inlined functions are looked up only with --inline'
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l children -d 'Count a sample for each function of its call chain, and sort by that; with -g caller, show what a function calls'
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l no-children -d 'Accepted from users of perf, without effect: children are counted only with --children'
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l no-pager -d 'Don\'t use a pager ($PAGER or less) on a terminal'
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -s n -l show-nr-samples -d 'Accepted from users of perf, without effect: the number of samples is always shown'
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -l stdio -d 'Print text also on a terminal, where the report has the whole screen and keys'
complete -c pmctl -n "__fish_pmctl_using_subcommand report" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s e -l event -d 'Sample by these events, separated by commas; may be repeated [default: cycles, precise if possible]' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s F -l freq -d 'Take about HZ samples per second; `max`: as many as the module allows' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s c -l period -d 'Take a sample every N events instead' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s C -l cpu -d 'Sample all programs on these CPUs, as 0-2,5' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s p -l pid -d 'Sample these processes, separated by commas, and the children that they start' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s t -l tid -d 'Sample these threads, separated by commas, and what they start' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s d -l delay -d 'Show a table every SECS seconds, from 0.1 to 3600' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s s -l sort -d 'Group samples by these keys, separated by commas; `overhead` and `samples` are always shown, and may be named' -r -f -a "comm\t''
pid\t''
tid\t''
dso\t''
symbol\t''
cpu\t''
srcline\t''
cgroup\t''
mem\t'The cache or memory that the data came from'
tlb\t'The translation of the data\'s address'
locked\t'The instruction was locked'
snoop\t'The answer of other caches'
blocked\t'The reason why a load waited for an earlier store'
local_weight\t'The latency of a sample'
weight\t'The sum of the latencies of a row\'s samples'
symbol_daddr\t'The variable of the data, or its address'
dso_daddr\t'The file or the memory that has the data'"
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -l cgroups -d 'Count instructions and cycles in each cgroup instead, or in those whose names have one of these forms, separated by commas: `*` stands for any text and `?` for one byte, both within a level, `**` for any number of levels' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -l iterations -d 'End after N tables' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s E -l entries -d 'Print the first N rows of each table, with --stdio' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s g -d 'Record call chains, by frame pointers: Enter shows who called a function'
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s a -l all-cpus -d 'Sample all programs, as without -C, -p and -t'
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -l stdio -d 'Print the tables as text'
complete -c pmctl -n "__fish_pmctl_using_subcommand top" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -s i -l input -d 'Read the recording in FILE; - is standard input' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -s F -l fields -d 'Print these fields of each sample, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -l comms -d 'Show samples of tasks with these names only, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -l pid -d 'Show samples of these processes only, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -l tid -d 'Show samples of these threads only, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -s C -l cpu -d 'Show samples on these CPUs only, as 0-2,5' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -l time -d 'Show samples from START to STOP only, in seconds as `pmctl script` shows them; one may be left out' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -s S -l symbols -d 'Show samples in these functions only, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -l dsos -d 'Show samples in these programs and libraries only, separated by commas' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -l inline -d 'Show functions that were inlined, from debug information, in call chains'
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -l no-inline -d 'Accepted from users of perf, without effect: inlined functions are looked up only with --inline'
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -l no-pager -d 'Don\'t use a pager ($PAGER or less) on a terminal'
complete -c pmctl -n "__fish_pmctl_using_subcommand script" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand flamegraph" -s i -l input -d 'Read the recording in FILE; - is standard input' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand flamegraph" -s o -l output -d 'Write the picture to FILE; - is standard output' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand flamegraph" -s e -l event -d 'Draw this event [default: the first]' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand flamegraph" -l folded -d 'Print the stacks as text instead, each with its event count, for other tools'
complete -c pmctl -n "__fish_pmctl_using_subcommand flamegraph" -l inline -d 'Show functions that were inlined, from debug information'
complete -c pmctl -n "__fish_pmctl_using_subcommand flamegraph" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand annotate" -s i -l input -d 'Read the recording in FILE; - is standard input' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand annotate" -s e -l event -d 'Show the samples of this event [default: the first]' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand annotate" -s M -l syntax -d 'Write instructions in this syntax' -r -f -a "att\t''
intel\t''"
complete -c pmctl -n "__fish_pmctl_using_subcommand annotate" -l no-source -d 'Show instructions only'
complete -c pmctl -n "__fish_pmctl_using_subcommand annotate" -l no-pager -d 'Don\'t use a pager ($PAGER or less) on a terminal'
complete -c pmctl -n "__fish_pmctl_using_subcommand annotate" -l stdio -d 'Accepted from users of perf, without effect: the output is always text'
complete -c pmctl -n "__fish_pmctl_using_subcommand annotate" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand diff" -s s -l sort -d 'Group samples by these keys, separated by commas, as `pmctl report` does' -r -f -a "comm\t''
pid\t''
tid\t''
dso\t''
symbol\t''
cpu\t''
srcline\t''
cgroup\t''
mem\t'The cache or memory that the data came from'
tlb\t'The translation of the data\'s address'
locked\t'The instruction was locked'
snoop\t'The answer of other caches'
blocked\t'The reason why a load waited for an earlier store'
local_weight\t'The latency of a sample'
weight\t'The sum of the latencies of a row\'s samples'
symbol_daddr\t'The variable of the data, or its address'
dso_daddr\t'The file or the memory that has the data'"
complete -c pmctl -n "__fish_pmctl_using_subcommand diff" -s e -l event -d 'Compare this event only' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand diff" -l limit -d 'Show the first N rows of each table' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand diff" -l fail-if -d 'Exit with 1 if this holds; may be given several times' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand diff" -s j -l json -d 'Print JSON: an array with an object for each event'
complete -c pmctl -n "__fish_pmctl_using_subcommand diff" -l no-pager -d 'Don\'t use a pager ($PAGER or less) on a terminal'
complete -c pmctl -n "__fish_pmctl_using_subcommand diff" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand export" -s i -l input -d 'Read the recording in FILE; - is standard input' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand export" -l to -d 'Write this format' -r -f -a "firefox\t''
pprof\t''
chrome\t''
speedscope\t''
collapsed\t''
perf-data\t''"
complete -c pmctl -n "__fish_pmctl_using_subcommand export" -s o -l output -d 'Write to FILE instead of the usual one; - is standard output' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand export" -s e -l event -d 'Export the stacks of this event [default: the first; in pprof and speedscope all]' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand export" -l no-inline -d 'Leave out inlined functions and source lines, which are read from debug information'
complete -c pmctl -n "__fish_pmctl_using_subcommand export" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand serve" -s l -l listen -d 'Listen at this address and port, or at a port of 127.0.0.1; port 0 takes a free one' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand serve" -s e -l event -d 'Count these events, separated by commas; may be repeated' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand serve" -s C -l cpu -d 'Count and sample on these CPUs only, as 0-2,5' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand serve" -l cgroups -d 'Count the events also in each cgroup whose name has this form, separated by commas: `*` stands for any text and `?` for one byte, both within a level, `**` for any number of levels; may be repeated' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand serve" -l max-cgroups -d 'Count in no more than N cgroups' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand serve" -l max-seconds -d 'Make no profile longer than SECS seconds' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand serve" -l max-hz -d 'Take no more than HZ samples per second for a profile' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand serve" -l allow-remote -d 'Let --listen be an address that other machines can reach: their users see the counters, and the names of programs and functions'
complete -c pmctl -n "__fish_pmctl_using_subcommand serve" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand wrap" -l exact -d 'Refuse events for which no counter is free, instead of letting events take turns'
complete -c pmctl -n "__fish_pmctl_using_subcommand wrap" -s v -l verbose -d 'Show each call that opens an event, and its answer'
complete -c pmctl -n "__fish_pmctl_using_subcommand wrap" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l cpu -d 'Emulate a CPU and PMU of this vendor' -r -f -a "intel\t''
amd\t''"
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l cpus -d 'Give the machine N CPUs' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l memory -d 'Give the machine MB megabytes of memory' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l env -d 'Pass the variable NAME on, or set it; may be repeated' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l out -d 'Copy FILE, which the command writes, to the same place here; may be repeated' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l write -d 'Let the command change the files in DIR here; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l image -d 'Use the virtual machine in DIR [default: `$PERFMON_VM`, or that of the package perfmon-vm]' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l exact -d 'Let time advance with the executed instructions, so that the kernel\'s counts vary less; slower, and with one CPU only'
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l no-snapshot -d 'Boot the machine instead of restoring its snapshot, which the first run saves in ~/.cache/perfmon-vm'
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l aslr -d 'Let addresses be random, as they are on most systems'
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l env-all -d 'Pass all variables on'
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -l run -d 'Run COMMAND itself; pmctl and the device are there'
complete -c pmctl -n "__fish_pmctl_using_subcommand vm" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand encode" -s m -l model -d 'Show them for this CPU model, as of `pmctl list --model`' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand encode" -l replay -d 'Look at another machine: FOLDER has copies of its proc/, sys/ and dev/, and the output of `cpuid -1 -r` as the file cpuid' -r -F
complete -c pmctl -n "__fish_pmctl_using_subcommand encode" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand regs" -l cpu -d 'Show the registers of this CPU only' -r
complete -c pmctl -n "__fish_pmctl_using_subcommand regs" -s h -l help -d 'Print help'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "info" -d 'Show the CPU\'s counters, and the events that all CPUs may have'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "list" -d 'List the events of this CPU, or of another model'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "doctor" -d 'Check whether counting works here, and tell how to mend it'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "stat" -d 'Count events of a command, of processes, or of the whole system'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "bench" -d 'Compare commands by any counter, over several runs'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "record" -d 'Sample a command or the whole system'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "report" -d 'Show which programs and functions the samples are of'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "top" -d 'Show live which programs and functions the samples are of'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "script" -d 'Print the samples one by one'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "flamegraph" -d 'Draw the samples as a flame graph'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "annotate" -d 'Show instructions and source lines of a function, with their samples'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "diff" -d 'Compare two or three recordings, function by function'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "export" -d 'Write a recording for another viewer: Firefox Profiler, pprof, Perfetto, speedscope, ...'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "serve" -d 'Serve counters for Prometheus, and profiles, over HTTP'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "wrap" -d 'Run perf, or another program that opens perf events, on the driver\'s counters'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "vm" -d 'Run stat, record, bench or wrap in a virtual machine with a PMU, on this machine\'s files'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "encode" -d 'Show an event\'s encoding'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "regs" -d 'Show what the counters\' registers hold (root only)'
complete -c pmctl -n "__fish_pmctl_using_subcommand help; and not __fish_seen_subcommand_from info list doctor stat bench record report top script flamegraph annotate diff export serve wrap vm encode regs help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
