#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl stat of cgroups: it counts loops of a known length in nested cgroups, and is compared
# with perf.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

root=$(mktemp -d)
loop=$here/pmctl_loop
inside=$here/pmctl_inside
# shellcheck disable=SC2034 # for the end
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
# shellcheck disable=SC2034 # for the end
mode=$(stat -c %a /dev/perfmon)
# shellcheck disable=SC2016 # it is evaluated at the end
at_end='echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid; chmod "$mode" /dev/perfmon; umount "$root/1" 2>/dev/null; rmdir "$root/a/b" "$root"/* 2>/dev/null; umount "$root"; rmdir "$root"'

# stat OPTION... : counts instructions in user mode, into the file csv
stat() { pmctl stat -x, -o csv -e instructions:u "$@"; }

# counted CGROUP [FILE [EVENT]] : prints the cgroup's counts in lines of perf's format of -x,
counted() {
	awk -F, -v cgroup="$1" -v event="${3-instructions:u}" '$3 == event && $4 == cgroup { print $1 }' "${2-csv}"
}

# names : prints the cgroups of the rows, each followed by a comma
names() { awk -F, '{ printf "%s,", $4 }' csv; }

# refused NAME CODE REGEX OPTION... : passes if pmctl stat with these options fails as given
refused() {
	refused_name=$1 refused_code=$2 refused_words=$3
	shift 3
	try pmctl stat "$@" -- true
	is "$refused_name is refused" "$refused_code" $?
	says "$refused_name: stat says why" "$errors" "$refused_words"
}

# perf's own counts of cgroups are compared where the kernel has them, as Debian's does.
of_kernel=$(grep -c '^perf_event' /proc/cgroups)
plan $((57 + 3 * of_kernel))

# is_perfs_version_2 : passes if version 2 has perf's controller. A hierarchy of version 1 ends some
# time after its last cgroup, and another umount(2).
# shellcheck disable=SC2317 # comes_true calls it
is_perfs_version_2() {
	grep -q '^perf_event[[:space:]]*0[[:space:]]' /proc/cgroups && return
	mount -t cgroup -o perf_event none "$root/1" && umount "$root/1"
	return 1
}

refused "a cgroup where none is mounted" 125 'no cgroups are mounted' -G a
mkdir "$root/1"
if mount -t cgroup -o none,name=test none "$root/1"; then
	refused "version 1" 125 'of version 1 can be counted only in perf' -G a
	umount "$root/1"
else
	skip "version 1 is refused" "the kernel has none"
	skip "version 1: stat says why" "the kernel has none"
fi
if [ "$of_kernel" = 1 ]; then
	mount -t cgroup -o perf_event none "$root/1"
	mkdir "$root/1/a"
	stat -G a -- "$inside" "$root/1/a/cgroup.procs" "$loop" 1000000
	few=$(counted a)
	stat -G a -- "$inside" "$root/1/a/cgroup.procs" "$loop" 2000000
	is "perf's cgroups of version 1 are counted" 2000000 $(($(counted a) - few))
	perf stat -a -x, -o perfs -e instructions:u -G a -- "$inside" "$root/1/a/cgroup.procs" "$loop" 2000000
	is "perf counts the same there" "$(counted a)" "$(counted a perfs)"
	rmdir "$root/1/a"
	umount "$root/1"
	wait_until is_perfs_version_2
fi
rmdir "$root/1"
mount -t cgroup2 none "$root"
mkdir -p "$root/a/b" "$root/c" "$root/other"
refused "a cgroup that does not exist" 125 "can.t open cgroup $root/none: there is no such cgroup" -G none
refused "a file in place of a cgroup" 125 'is not the directory of a cgroup' -G cgroup.procs
refused "a pattern that no cgroup matches" 2 'no cgroup below .* has a name of this form' --for-each-cgroup 'n*'
refused "a group of events for two cgroups" 2 'a group is counted in a single cgroup' -e '{instructions,cycles}' -G a,c

# An iteration of the loop has 2 instructions. A few instructions come between the move and the
# loop.
stat --for-each-cgroup a,a/b,c -- "$inside" "$root/a/b/cgroup.procs" "$loop" 1000000
few=$(counted a/b)
stat --for-each-cgroup a,a/b,c -- "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000
many=$(counted a/b)
is "a cgroup counts its loop to the instruction" 2000000 $((many - few))
is "the parent of a cgroup counts the same" "$many" "$(counted a)"
is "a cgroup without the loop counts 0" 0 "$(counted c)"
is "each cgroup has a row" 3 "$(wc -l <csv)"
stat -a --for-each-cgroup a/b -- "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000
is "-a counts the same" "$many" "$(counted a/b)"
stat -C "0-$(($(nproc) - 1))" -G a/b -- "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000
is "the CPUs of -C add up" "$many" "$(counted a/b)"
pmctl stat -x, -o csv -r 3 -e instructions:u -G "$root/a/b" -- "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000
is "each run counts the same" "$many,0.00%" "$(awk -F, '{ print $1 "," $5 }' csv)"
# If the times included those of earlier runs, they would grow with each run.
pmctl stat --json=v1 -o v1.json -r 10 -e instructions:u -G "$root/a/b" -- "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000
grep -o '"running_ns":\[[0-9]*' v1.json | cut -d '[' -f 2 >run_times
is "each run has a running time" 10 "$(wc -l <run_times)"
check "the running time is that of a run alone" sh -c '! sort -n -c run_times 2>sorted'

# Two loops run at once.
stat --for-each-cgroup a,c -- sh -c "$inside $root/a/cgroup.procs $loop 2000000 & $inside $root/c/cgroup.procs $loop 1000000 & wait"
is "the first of two loops at once is in its cgroup's count" "$many" "$(counted a)"
is "the second of two loops at once is in its cgroup's count" "$few" "$(counted c)"

# Counts in intervals. If pmctl is held up for several intervals, they become one, so the command
# waits until the lines of three intervals are there.
rm -f csv
stat -I 50 --for-each-cgroup a,c -- sh -c "$inside $root/a/cgroup.procs $loop 2000000
	until [ \"\$(grep -c instructions csv)\" -ge 6 ]; do sleep 0.05; done; $inside $root/c/cgroup.procs $loop 2000000"
sums=$(awk -F, '{ sum[$5] += $2; lines[$5]++ } END { print sum["a"], sum["c"], (lines["a"] == lines["c"] && lines["a"] > 3) }' csv)
is "intervals add up" "$many $many 1" "$sums"

# Counts some events in some cgroups only, and one event in all programs.
pmctl stat -x, -o csv -e instructions:u,branches:u,instructions:u -G a,,c -- "$inside" "$root/a/cgroup.procs" "$loop" 2000000
is "-G has a cgroup for each event" "a,,c," "$(names)"
is "-G: the first event counts the first cgroup" "$many" "$(counted a)"
check "-G: an event without a cgroup counts all programs" [ "$(counted '' csv branches:u)" -gt 2000000 ]
pmctl stat -x, -o csv -e instructions:u,branches:u,branches:k -G a,c -- true
is "-G: events beyond the cgroups count all programs" "a,c,," "$(names)"
stat --for-each-cgroup '*' -- true
is "a pattern stays within a level" "a,c,other," "$(names)"
stat --for-each-cgroup 'a/**,c,?' -- true
is "a pattern may span levels, and each cgroup has one row" "a,a/b,c," "$(names)"
bytes=$(printf '\376') other_bytes=$(printf '\377')
mkdir "$root/c/$bytes" "$root/c/$other_bytes"
stat --for-each-cgroup 'c/*' -- true
is "names that are not UTF-8 are different" 'c/\xfe,c/\xff,' "$(names)"
rmdir "$root/c/$bytes" "$root/c/$other_bytes"
stat --for-each-cgroup / -- "$loop" 1000000
check "the root cgroup counts all programs" [ "$(counted /)" -gt 2000000 ]

# A cgroup is removed while it is counted.
mkdir "$root/gone"
stat --for-each-cgroup gone -- sh -c "$inside $root/gone/cgroup.procs $loop 2000000; rmdir $root/gone; mkdir $root/gone; $inside $root/gone/cgroup.procs $loop 1000000"
is "a cgroup that is removed keeps its count, and another one of its name has none" "$many" "$(counted gone)"
rmdir "$root/gone"

# Users make cgroups that can't be counted. All other cgroups are still counted.
deep=other
for level in $(seq 34); do
	deep=$deep/$level
done
mkdir -p "$root/$deep"
stat --for-each-cgroup '**' -- "$inside" "$root/a/cgroup.procs" "$loop" 2000000
is "a cgroup that is too deep is no reason to fail" 0 $?
is "a cgroup that is too deep hides no other" "$many" "$(counted a)"
refused "a cgroup that is too deep" 125 'the cgroup is more than 32 levels below the root' -G "$deep"
find "$root/other" -mindepth 1 -depth -type d -exec rmdir {} +

chmod 700 "$root/c"
chmod 755 "$root"
chmod 666 /dev/perfmon
try "$here/pmctl_as" 1000 pmctl stat -x, -e instructions:u --for-each-cgroup '?' -- true
is "an unreadable cgroup is no reason to fail" 0 $?
is "an unreadable cgroup has no row" "a" "$(echo "$errors" | awk -F, '$3 == "instructions:u" { print $4 }')"
says "stat says that the unreadable cgroup is left out" "$errors" '1 cgroup left out: .*/c: Permission denied'
chmod 755 "$root/c"
# shellcheck disable=SC2154 # at_end has it, too
chmod "$mode" /dev/perfmon

# A cgroup is removed after the search, while the events of the cgroups before it are opened.
mkdir "$root/many"
for i in $(seq 100 399); do
	mkdir "$root/many/$i"
done
# removed_meanwhile: passes if the cgroup was removed before its events were open
# shellcheck disable=SC2317 # comes_true calls it
removed_meanwhile() {
	mkdir -p "$root/many/399"
	pmctl stat -x, -o csv --record counts -e instructions:u,branches:u --for-each-cgroup 'many/*' -- true 2>log &
	pid=$!
	until has_ended "$pid" || [ -e "/proc/$pid/fd/300" ]; do :; done
	rmdir "$root/many/399"
	wait "$pid"
	status=$?
	! grep -q many/399 csv
}
comes_true removed_meanwhile
is "a cgroup that is removed meanwhile is no reason to fail" 0 "$status"
is "a cgroup that is removed meanwhile has no row" 598 "$(wc -l <csv)"
says "a cgroup that is removed meanwhile is not in the number of cgroups" "$(cat counts)" '"cgroups":299,'
# more_cgroups_than_files OPTION... : counts with 20 open files as the soft limit
more_cgroups_than_files() { try sh -c 'ulimit -Sn 20 && exec pmctl stat "$@"' sh "$@" -- true; }
more_cgroups_than_files -x, -o csv -e instructions:u --for-each-cgroup 'many/1*'
is "more cgroups than the soft limit of files are counted" "0 100" "$? $(wc -l <csv)"
more_cgroups_than_files -x, -o csv -a -e "$(seq 16 | sed 's|.*|msr/tsc,name=tsc&/|' | tr '\n' ,)task-clock"
is "more events of Linux's PMUs than the soft limit of files are counted" 0 $?
# shellcheck disable=SC2016 # the inner shell expands it
try sh -c 'ulimit -n 20 && exec pmctl stat "$@"' sh -a -e "$(seq 16 | sed 's|.*|msr/tsc,name=tsc&/|' | tr '\n' ,)task-clock" -- true
says "stat says that no file descriptor is free for an event of Linux's PMU" "$errors" "can't count .*tsc.* on CPU [0-9]+: no file descriptor is free"
find "$root/many" -depth -type d -exec rmdir {} +

# A cgroup can share a counter with other tasks only for the same event, so more events are counted
# in two runs.
# events CODE NUMBER : prints NUMBER events that only general counters can count
events() { seq "$2" | sed "s|.*|cpu/event=$1,umask=0,cmask=&/u|" | tr '\n' , | sed 's/,$//'; }
general=$(pmctl info | awk '$1 == "general" { print $2 }')
sleep 1000 &
sleeper=$!
pmctl stat -o /dev/null -e "$(events 0xc4 $((general - 1)))" -p $sleeper &
holder=$!
wait_until "has_events $holder"
try pmctl stat -r 1 -x, -o csv -e "$(events 0xc0 2)" -G a -- true
is "events of a cgroup beside those of other tasks are counted in two runs" 0 $?
kill $sleeper
wait $holder

# Counts without a command, as for the whole system.
# shellcheck disable=SC2016 # a word that is evaluated
interrupt_when 'has_events $pid && "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000' pmctl stat -x, -o csv -e instructions:u -G a/b
is "stat -G without a command counts until Ctrl-C" "$many" "$(counted a/b)"

# Tests the output formats.
pmctl stat -e instructions:u,branches:u --for-each-cgroup a,c -o text -- "$inside" "$root/a/cgroup.procs" "$loop" 2000000
says "the title has the command and the number of cgroups" "$(cat text)" "stats for '.*pmctl_inside .*', 2 cgroups on all CPUs"
check "each row begins with its cgroup" [ "$(grep -c '^[ac] *[0-9,]* *\(instructions\|branches\):u' text)" = 4 ]
pmctl stat -j -o json -e instructions:u --for-each-cgroup a/b -- true
says "perf's JSON has the cgroup" "$(cat json)" '"event":"instructions:u","cgroup":"a/b"'
pmctl stat --record counts -x, -o csv -e instructions:u --for-each-cgroup a,c -- "$inside" "$root/a/cgroup.procs" "$loop" 2000000
pmctl stat --report counts -x, -o again
is "a report of a file has the same rows" "$(cat csv)" "$(cat again)"
pmctl stat -M insn_per_cycle -o text --for-each-cgroup a,c -- "$inside" "$root/a/cgroup.procs" "$loop" 2000000
says "each cgroup has its metrics" "$(cat text)" '^insn_per_cycle +[0-9.]+ +<no value>'

# perf counts with the driver's counters, and with its own.
program="$inside $root/a/b/cgroup.procs $loop 2000000"
# shellcheck disable=SC2086 # words
pmctl wrap -- perf stat -a -x, -o perfs -e instructions:u --for-each-cgroup a,a/b,c -- $program
is "perf counts the same with the driver's counters" "$many $many" "$(counted a perfs) $(counted a/b perfs)"
# shellcheck disable=SC2086 # words
stat --for-each-cgroup a,a/b,c -- $program
is "perf's lines are pmctl's but for the times" "$(grep -v '^#\|^$' perfs | cut -d, -f2-4)" "$(cut -d, -f2-4 csv)"
# The kernel adds perf's part to a cgroup with any controller, such as those that systemd enables.
controller=$(awk '{ print $NF }' "$root/cgroup.controllers")
[ -z "$controller" ] || echo "+$controller" >"$root/cgroup.subtree_control"
if [ "$of_kernel" = 1 ]; then
	# shellcheck disable=SC2086 # words
	perf stat -a -x, -o perfs -e instructions:u --for-each-cgroup a,a/b,c -- $program 2>/dev/null
	is "perf counts the same with its own counters" "$many $many" "$(counted a perfs) $(counted a/b perfs)"
fi

[ -z "$controller" ] || echo "-$controller" >"$root/cgroup.subtree_control"

# Counts as a user without rights.
echo 2 >/proc/sys/kernel/perf_event_paranoid
chmod 666 /dev/perfmon
chmod 755 "$root"
try "$here/pmctl_as" -4711 pmctl stat -G a -- true
is "a user without rights can't count a cgroup" 125 $?
says "stat -G says which rights it needs" "$errors" 'to count a cgroup, run it as root or with CAP_PERFMON'
finish
