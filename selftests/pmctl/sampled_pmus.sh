#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl record of events of Linux's PMUs, and compares with perf's samples of the same events.
# Each kernel has `software`, whose event 1 is the time of a task in nanoseconds, and `msr`, which
# can't sample.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
in_own_dir

# shellcheck disable=SC2034 # for the end
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
# shellcheck disable=SC2034 # for the end
mode=$(stat -c %a /dev/perfmon)
# shellcheck disable=SC2016 # it is evaluated at the end
at_end='echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid; chmod "$mode" /dev/perfmon'
loop=$here/pmctl_loop
# The period is so long that a slow machine has time for more than taking samples.
ms=20000000
clock=software/config=0x1,period=$ms/u
plan 40

# samples_of FILE: prints the number of perf's samples of the loop
samples_of() {
	perf script -i "$1" -F comm 2>/dev/null | grep -c pmctl_loop
}

# addresses_of FILE: prints the addresses of perf's samples of the loop
addresses_of() {
	perf script -i "$1" --comm pmctl_loop -F ip 2>/dev/null | tr -d ' ' | sort -u
}

# near A B: succeeds if the two differ by 3 and a tenth at most
# shellcheck disable=SC2317 # check calls it
near() {
	awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && d <= 3 + a / 10) }'
}

# record OPTION... : records with the rest of the command line, and returns pmctl's exit code;
# the output is in $output
record() {
	rm -f perf.data
	output=$(pmctl record "$@" 2>&1)
}

# number REGEX TEXT: prints the number at the group of REGEX, without commas; 0 without a match
number() {
	echo "$2" | sed -nE "s/.*$1.*/\\1/p" | tr -d , | grep . || echo 0
}

# Both sample the same task in the same run.
perf record -q -o theirs -e task-clock:u -c $ms -- \
	pmctl record -e "$clock" -- "$loop" 100000000 >ours 2>&1
is "record succeeds in a program that perf samples" 0 $?
check "it has sampled all the time" sh -c '! grep -q DEGRADED ours'
ours=$(pmctl script | wc -l)
theirs=$(samples_of theirs)
check "there are as many samples as perf's: $ours, $theirs" near "$ours" "$theirs"
is "perf reads all of them" "$ours" "$(samples_of perf.data)"
says "perf knows type, number and period" "$(perf evlist -v 2>/dev/null)" \
	"^$clock: type: 1 .*config: 0x1 .*sample_period, sample_freq }: $ms,"
is "their addresses are perf's" "$(addresses_of theirs)" "$(addresses_of perf.data)"
says "report names the event" "$(pmctl report)" "event '$clock'"
says "report has the loop" "$(pmctl report --sort dso)" '^ *100\.00%.* pmctl_loop'
says "annotate shows the loop" "$(pmctl annotate 2>&1)" '[1-9][0-9.]+ +: +[0-9a-f]+: '
says "export has the samples" "$(pmctl export --to collapsed -o - 2>/dev/null)" '^pmctl_loop'
says "perf reports it" "$(perf report --stdio --sort comm 2>/dev/null)" '100\.00% +pmctl_loop'

# Samples an event that happens a known number of times.
perf record -q -o theirs -e page-faults:u -c 1 -- pmctl record -q -e page-faults:u -c 1 -- "$loop" 1000
ours=$(samples_of perf.data)
check "there are page faults" [ "$ours" -gt 0 ]
is "perf has as many" "$(samples_of theirs)" "$ours"
is "at the same addresses" "$(addresses_of theirs)" "$(addresses_of perf.data)"

# Each sample is in the file, or is reported as lost.
# shellcheck disable=SC2016 # the shell in it expands it
record -c 1 -m 1 -e page-faults -- sh -c 'i=0; while [ $i -lt 50 ]; do (:); i=$((i + 1)); done'
report=$(pmctl report)
counted=$(number 'counted: ([0-9,]+)' "$report")
lost=$(number '; ([0-9,]+) lost' "$output")
check "there are many page faults" [ "$counted" -gt 500 ]
is "samples and lost ones are the count" "$counted" \
	$(($(number 'Event count: ([0-9,]+)' "$report") + lost))

# Samples the driver's events, too, into the same file.
count=$(pmctl stat -x, -e instructions:u -- "$loop" 5000000 2>&1 | cut -d, -f1)
record -e instructions:u,page-faults/period=1/u,branches:u -c 10007 -- "$loop" 5000000
is "events of the driver and of Linux are recorded together" 0 $?
is "perf reads as many samples" "$(pmctl script | wc -l)" "$(perf script -F ip 2>/dev/null | wc -l)"
# A CPU that the loop has left may have counted a part of a period.
missing=$((count / 10007 - $(perf script -F event 2>/dev/null | grep -c instructions:u:)))
check "the driver's samples are complete" [ $missing -ge 0 -a $missing -lt "$(nproc)" ]
check "there are Linux's" [ "$(perf script -F event 2>/dev/null | grep -c page-faults)" -gt 0 ]
is "all samples are in the order of time" 0 \
	"$(perf script --ns -F time 2>/dev/null | tr -d ' :' | sort -c -n 2>&1 | wc -l)"
# The page faults are at the beginning and the instructions follow. Of two clocks, one would be
# hours away.
check "both have the same clock" sh -c "perf script --ns -F time 2>/dev/null |
	awk '{ sub(/:/, \"\"); if (NR == 1) first = \$1; last = \$1 } END { exit !(last - first < 600) }'"

# Samples processes and CPUs. Half a second of the process's own time is 25 periods.
"$loop" 1000000000000 &
process=$!
record -p $process -e task-clock:u -c $ms -- "$here/pmctl_more_ticks" $process 50
is "record -p succeeds" 0 $?
check "it has samples" [ "$(samples_of perf.data)" -gt 0 ]
record -g -p $process -e cpu-clock -F 50 -- "$here/pmctl_more_ticks" $process 50
kill $process
check "-F and -g have samples with callers" [ "$(perf script -F ip 2>/dev/null | grep -c 401)" -gt 0 ]
# samples_all_cpus: succeeds if a recording of a second has samples of each CPU, none of which stood
# still for all of it
# shellcheck disable=SC2317 # comes_true calls it
samples_all_cpus() {
	record -a -e cpu-clock -c "$ms" -- sleep 1
	[ "$(perf script -F cpu 2>/dev/null | sort -u | wc -l)" = "$(nproc)" ]
}
check "-a has samples of all CPUs" comes_true samples_all_cpus
# samples_cpu_0: makes a recording of a second, and puts the CPUs of its samples into $sampled; succeeds if
# there are samples: CPU 0 did not stand still for all of the time
# shellcheck disable=SC2317 # comes_true calls it
samples_cpu_0() {
	record -C 0 -e cpu-clock -c "$ms" -- sleep 1
	sampled=$(perf script -F cpu 2>/dev/null | tr -d ' ' | sort -u)
	[ "$sampled" ]
}
comes_true samples_cpu_0
is "-C has samples of its CPU" "[000]" "$sampled"
streamed=$(pmctl record -q -o - -e page-faults:u -c 1 -- "$loop" 1000 | pmctl script -i - 2>/dev/null | wc -l)
is "a stream has the same samples" "$ours" "$streamed"

# refused CODE NAME REGEX ARGUMENT... : passes if record refuses the arguments with CODE, and with a
# message that matches REGEX
refused() {
	code=$1 name=$2 regex=$3
	shift 3
	try pmctl record "$@" -- true
	is "$name: exit code" "$code" $?
	says "$name is told" "$errors" "$regex"
}
refused 125 "a PMU that can't sample" '.msr. can count but not sample.*pmctl stat -a -e msr/tsc/' -e msr/tsc/
refused 2 "an unknown PMU" 'no PMU .mrs. here' -e mrs/tsc/
refused 125 "a number that Linux lacks" "PMU .software. can.t sample software/config=999/ on CPU" -e software/config=999/
refused 125 "a frequency above the limit" 'sysctl kernel.perf_event_max_sample_rate=200000000' -F 200000000 -e task-clock

# Samples as a user without privileges.
echo 2 >/proc/sys/kernel/perf_event_paranoid
chmod 666 /dev/perfmon
chmod 777 .
try "$here/pmctl_as" -4711 pmctl record -o x -a -e task-clock -- true
says "a user who may not sample all is told why" "$errors" 'kernel.perf_event_paranoid=0'
try "$here/pmctl_as" -4711 pmctl record -o x -e task-clock:k -- true
says "nor the kernel" "$errors" 'perf_event_paranoid is 2.*sysctl kernel.perf_event_paranoid=1'
try "$here/pmctl_as" -4711 pmctl record -o x -e page-faults -c 1 -- "$loop" 1000
says "an own program is sampled in user mode" "$errors" 'DEGRADED.*samples are of user mode only'
is "with its samples" "$ours" "$(pmctl script -i x 2>/dev/null | grep -c pmctl_loop)"
finish
