#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests samples of chosen cgroups, and samples that name their cgroup: by pmctl record and report,
# by perf under pmctl wrap, and by perf as a reader of pmctl's files.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

root=$(mktemp -d)
loop=$here/pmctl_loop
inside=$here/pmctl_inside
# An iteration of the loop has 2 instructions, so the loop has 200 samples.
period=100003
passes=10000300
# shellcheck disable=SC2034 # for the end
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
# shellcheck disable=SC2034 # for the end
mode=$(stat -c %a /dev/perfmon)
# shellcheck disable=SC2016 # it is evaluated at the end
at_end='echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid; chmod "$mode" /dev/perfmon; rmdir "$root/a/b" "$root"/* 2>/dev/null; echo "-$controller" >"$root/cgroup.subtree_control"; umount "$root"; rmdir "$root"'

# record OPTION... : samples instructions in user mode, into the file data
record() { pmctl record -q -o data -e instructions:u -c $period "$@"; }

# This command for a shell executes a loop in a/b, and a loop of half the length in c.
in_both="$inside $root/a/b/cgroup.procs $loop $passes; $inside $root/c/cgroup.procs $loop $((passes / 2))"

# samples CGROUP [FILE] : prints how many samples of the cgroup pmctl's report has
samples() { pmctl report --stdio -i "${2-data}" --sort cgroup 2>/dev/null | awk -v cgroup="$1" '$3 == cgroup { print $2 }' | tr -d ,; }

# theirs CGROUP FILE : prints how many samples of the cgroup perf's report has
theirs() { perf report -i "$2" --stdio --sort cgroup -n 2>/dev/null | awk -v cgroup="$1" '$3 == cgroup { print $2 }'; }

# is_near NAME EXPECTED NUMBER : passes if NUMBER differs from EXPECTED by at most 30. A counter of
# a CPU continues in other programs: each program that runs in the middle of a loop, or moves the
# loop to the other CPU, adds a sample to those of the loop or takes one away. pmctl runs ten times a
# second, and on a busy host a loop takes many seconds; the number is still far from that of another
# cgroup, 100 more or less.
is_near() { check "$1 ($3)" [ "${3:-0}" -ge $(($2 - 30)) -a "${3:-0}" -le $(($2 + 30)) ]; }

# perf's own samples are compared if the kernel counts cgroups, as Debian's does.
of_kernel=$(grep -c '^perf_event' /proc/cgroups)
plan $((45 + 4 * of_kernel))

try pmctl record -q --all-cgroups -- true
is "without cgroups none is recorded" 125 $?
says "it says why" "$errors" 'no cgroups are mounted'
mount -t cgroup2 none "$root"
controller=$(awk '{ print $1 }' "$root/cgroup.controllers")
echo "+$controller" >"$root/cgroup.subtree_control"
mkdir "$root/a" "$root/c"
echo "+$controller" >"$root/a/cgroup.subtree_control"
mkdir "$root/a/b"

# Each sample names its cgroup.
record -a --all-cgroups -- sh -c "$in_both; mkdir $root/new; $inside $root/new/cgroup.procs $loop $passes"
is_near "a cgroup has its samples" 200 "$(samples /a/b)"
is_near "another one has its own" 100 "$(samples /c)"
is_near "one that was made meanwhile has a name" 200 "$(samples /new)"
is "what it is in has none" "" "$(samples /a)"
check "the root has what is in no other" [ "$(samples /)" -gt 0 ]
is "perf reads the same" "$(samples /a/b) $(samples /c) $(samples /new)" \
	"$(theirs /a/b data) $(theirs /c data) $(theirs /new data)"
says "rows may have other keys, too" "$(pmctl report --stdio -i data --sort cgroup,comm)" ' /c +pmctl_loop'
pmctl record -q -o task -e instructions:u -c $period --all-cgroups -- "$inside" "$root/c/cgroup.procs" "$loop" $passes
is_near "a command's samples have theirs" 200 "$(samples /c task)"
rmdir "$root/new"
pmctl record -q -o - -a -e instructions:u -c $period --all-cgroups -- sh -c "$in_both" >stream
is_near "a stream has the names" 200 "$(samples /a/b stream)"
pmctl record -q -o files -a -e instructions:u -c $period --all-cgroups --overwrite -- sh -c "$in_both"
is_near "so has a flight recorder" 200 "$(samples /a/b files)"
pmctl record -q -o callers -g -a -e instructions:u -c $period --all-cgroups -- sh -c "$in_both"
is_near "call chains stand in front of it" 200 "$(samples /a/b callers)"
try pmctl top --stdio --iterations 1 --delay 1 -e instructions:u --sort cgroup >table
is "top shows cgroups" 0 $?
says "its table has them" "$(cat table)" 'overhead +samples +cgroup'

# pmctl top --cgroups shows counts while the programs run.
"$inside" "$root/a/b/cgroup.procs" "$loop" 100000000000 &
busy=$!
wait_until "grep -q . $root/a/b/cgroup.procs"
# has_both_tables: writes two tables; succeeds if both have counts of the loop, whose CPU may stand still
# for a second
# shellcheck disable=SC2317 # comes_true calls it
has_both_tables() {
	try pmctl top --stdio --cgroups --delay 1 --iterations 2 >table
	code=$?
	[ "$(grep -cE '^ *[0-9,]{8,} +[0-9,]{8,} .* /a/b$' table)" = 2 ]
}
comes_true has_both_tables
is "top --cgroups ends after its tables" 0 "$code"
# On a terminal each table takes the place of the previous one, until the terminal hangs up and the next
# table can't be written. The key has no effect; the second wait is for a later table.
output=$(pmctl_terminal 24 80 -w ' /a/b' -k x -w ' /a/b' -o screen -h 100 -- pmctl top --cgroups --delay 0.5 2>&1)
is "top --cgroups ends when it can't write to its terminal" 1 $?
echo "$output" | sed 's/^/# /'
check "each table begins on an empty screen" [ "$(grep -o '.\[H.\[2J' screen | wc -l)" -ge 2 ]
is "each line of a screen fits" "" "$(tr -d '\r' <screen | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | grep -E '.{81}')"
says "the screen has the rows of the tables" "$(tr -d '\r' <screen)" '^ *[0-9,]{8,} +[0-9,]{8,} +[0-9.]+  /a/b$'
kill $busy
wait $busy 2>/dev/null
sed 's/^/# /' table
is "it has a table for each second" 2 "$(grep -c 'instructions +cycles +IPC +cgroup' -E table)"
says "its rows are cgroups with what they execute" "$(cat table)" '^ *[0-9,]{8,} +[0-9,]{8,} +[0-9.]+  /a/b$'
says "with those that they are in" "$(cat table)" '^ *[0-9,]{8,} +[0-9,]{8,} +[0-9.]+  /a$'
is "what executes nothing has no row" 0 "$(grep -c '/c$' table)"
try pmctl top --stdio --cgroups='c,a/*' --delay 0.1 --iterations 1 >table
says "forms choose cgroups" "$(cat table)" ', 2 cgroups, 0 with events$'
# Counts that are missing because perf has all counters are not shown as 0. perf opens and closes events
# to find out what the kernel can do: all of its own events are open when its program begins.
perf stat -a -e instructions:u -- sh -c 'echo $$ >begun; exec sleep 300' >/dev/null 2>&1 &
perf=$!
wait_until '[ -s begun ]'
try pmctl top --stdio --cgroups='c,a/*' --delay 0.1 --iterations 1 >table
is "top --cgroups without free counters ends" 0 $?
kill "$(cat begun)"
wait $perf
says "it says how many cgroups are not counted" "$(cat table)" ', 2 cgroups, 0 with events, 2 not counted: no counter'
is "they have rows without numbers" 2 "$(grep -cE '<not counted> +<not counted> +- +/(c|a/b)$' table)"

# Only some cgroups are sampled.
record -G a --all-cgroups -- sh -c "$in_both"
is_near "-G samples a cgroup and those in it" 200 "$(samples /a/b)"
is "and no other one" "" "$(samples /c)"
says "the report says what was sampled" "$(pmctl report --stdio -i data)" '^Recorded: cgroup a on all CPUs'
counted=$(pmctl report --stdio -i data | sed -n 's/.*; counted: \([0-9,]*\).*/\1/p' | tr -d ,)
check "and what was counted" [ "$((${counted:-0} / 2000060))" = 10 ]
pmctl record -q -o two -e instructions:u,instructions:u -c $period -G a,c -- sh -c "$in_both"
pmctl report --stdio -i two --sort comm >text
says "each event has its cgroup" "$(cat text)" "instructions:u \(a\)"
is "the first has its samples, and the second" "200 100" \
	"$(awk '$3 == "pmctl_loop" { n = int(($2 + 30) / 100) * 100; printf "%s%d", sep, n; sep = " " }' text)"
pmctl record -q -o one -e instructions:u -c $period -C "0-$(($(nproc) - 1))" -G c -- sh -c "$in_both"
is_near "CPUs add up" 100 "$(pmctl report --stdio -i one --sort comm | awk '$3 == "pmctl_loop" { print $2 }')"

# perf samples with the driver's events.
pmctl wrap -v -- perf record -q -a -o perfs -e instructions:u -c $period -G a -- sh -c "$in_both" 2>log
is "perf record -G runs unchanged" 0 $?
says "its events are the driver's" "$(cat log)" "perf_event_open\((rc0|instructions):u, .*: an event of the driver's"
is_near "it has the samples of the cgroup" 200 "$(perf script -i perfs -F comm 2>/dev/null | grep -c pmctl_loop)"
pmctl wrap -v -- perf record -q -a --all-cgroups -o perfs -e instructions:u -c $period -- sh -c "$in_both" >log 2>&1
is "perf record --all-cgroups runs unchanged" 0 $?
is_near "perf reads its cgroups" 200 "$(theirs /a/b perfs)"
is_near "and so does pmctl" 200 "$(samples /a/b perfs)"
if [ "$of_kernel" = 1 ]; then
	perf record -q -a --all-cgroups -o own -e instructions:u -c $period -- sh -c "$in_both" >log 2>&1
	is "perf records cgroups by itself" 0 $?
	is_near "it has the same samples" "$(samples /a/b perfs)" "$(theirs /a/b own)"
	is_near "pmctl reads its files" 200 "$(samples /a/b own)"
	is_near "with each cgroup" 100 "$(samples /c own)"
fi

# Some recordings and options are refused.
record -- true
try pmctl report --stdio -i data --sort cgroup
is "a recording without cgroups has no rows of them" 2 $?
try pmctl record -q -G none -- true
says "a cgroup that does not exist is refused" "$errors" "can't open cgroup $root/none: there is no such cgroup"
try pmctl record -q -G a,c -- true
says "so are more cgroups than events" "$errors" 'Write an event for each'
echo 2 >/proc/sys/kernel/perf_event_paranoid
chmod 666 /dev/perfmon
chmod 755 "$root"
cd / || exit
try "$here/pmctl_as" -4711 pmctl record -q -o - -G a -- true >/dev/null
says "a user without rights samples no cgroup" "$errors" 'to sample a cgroup, run it as root or with CAP_PERFMON'
finish
