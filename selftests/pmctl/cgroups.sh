#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl stat of cgroups: loops of a known length in nested cgroups, beside perf.

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

# counted CGROUP [FILE [EVENT]] : the counts in lines as perf's -x, has them
counted() {
	awk -F, -v cgroup="$1" -v event="${3-instructions:u}" '$3 == event && $4 == cgroup { print $1 }' "${2-csv}"
}

# names : the cgroups of the rows, with a comma behind each
names() { awk -F, '{ printf "%s,", $4 }' csv; }

# refused NAME CODE REGEX OPTION... : pmctl stat with these options counts nothing
refused() {
	refused_name=$1 refused_code=$2 refused_words=$3
	shift 3
	try pmctl stat "$@" -- true
	is "$refused_name is refused" "$refused_code" $?
	says "it says why" "$errors" "$refused_words"
}

# What perf has of its own is shown where the kernel counts cgroups, as Debian's does.
of_kernel=$(grep -c '^perf_event' /proc/cgroups)
plan $((40 + of_kernel))

refused "what is not mounted" 125 'no cgroups are mounted' -G a
mkdir "$root/1"
if mount -t cgroup -o none,name=test none "$root/1"; then
	refused "version 1" 125 'of version 1 can.t be counted' -G a
	umount "$root/1"
else
	skip "version 1 is refused" "the kernel has none"
	skip "it says why" "the kernel has none"
fi
rmdir "$root/1"
mount -t cgroup2 none "$root"
mkdir -p "$root/a/b" "$root/c" "$root/other"
refused "a cgroup that does not exist" 125 "can.t open cgroup $root/none: there is no such cgroup" -G none
refused "a file" 125 'no directory of a cgroup' -G cgroup.procs
refused "a form that no name has" 2 'no cgroup below .* has a name of this form' --for-each-cgroup 'n*'
refused "a group of two cgroups" 2 'a group is counted in a single cgroup' -e '{instructions,cycles}' -G a,c

# A loop of 2 instructions, and a few from the move to its begin.
stat --for-each-cgroup a,a/b,c -- "$inside" "$root/a/b/cgroup.procs" "$loop" 1000000
few=$(counted a/b)
stat --for-each-cgroup a,a/b,c -- "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000
many=$(counted a/b)
is "a cgroup has its loop to the instruction" 2000000 $((many - few))
is "so has the one that it is in" "$many" "$(counted a)"
is "another one has nothing" 0 "$(counted c)"
is "each has a row" 3 "$(wc -l <csv)"
stat -a --for-each-cgroup a/b -- "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000
is "-a changes nothing" "$many" "$(counted a/b)"
stat -C "0-$(($(nproc) - 1))" -G a/b -- "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000
is "the CPUs of -C add up" "$many" "$(counted a/b)"
pmctl stat -x, -o csv -r 3 -e instructions:u -G "$root/a/b" -- "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000
is "runs are the same" "$many,0.00%" "$(awk -F, '{ print $1 "," $5 }' csv)"

# Two at once.
stat --for-each-cgroup a,c -- sh -c "$inside $root/a/cgroup.procs $loop 2000000 & $inside $root/c/cgroup.procs $loop 1000000 & wait"
is "of two at once one has its loop" "$many" "$(counted a)"
is "and the other its own" "$few" "$(counted c)"

# Intervals.
stat -I 50 --for-each-cgroup a,c -- sh -c "$inside $root/a/cgroup.procs $loop 2000000; sleep 0.2; $inside $root/c/cgroup.procs $loop 2000000"
sums=$(awk -F, '{ sum[$5] += $2; lines[$5]++ } END { print sum["a"], sum["c"], (lines["a"] == lines["c"] && lines["a"] > 3) }' csv)
is "intervals add up" "$many $many 1" "$sums"

# Which events are of which cgroups.
pmctl stat -x, -o csv -e instructions:u,branches:u,instructions:u -G a,,c -- "$inside" "$root/a/cgroup.procs" "$loop" 2000000
is "-G has a cgroup for each event" "a,,c," "$(names)"
is "the first counts its event" "$many" "$(counted a)"
check "without a name it is all" [ "$(counted '' csv branches:u)" -gt 2000000 ]
pmctl stat -x, -o csv -e instructions:u,branches:u,branches:k -G a,c -- true
is "further events are of all" "a,c,," "$(names)"
stat --for-each-cgroup '*' -- true
is "a pattern stays within a level" "a,c,other," "$(names)"
stat --for-each-cgroup 'a/**,c,?' -- true
is "patterns of levels, and each cgroup once" "a,a/b,c," "$(names)"
stat --for-each-cgroup / -- "$loop" 1000000
check "the root has all" [ "$(counted /)" -gt 2000000 ]

# Cgroups that go.
mkdir "$root/gone"
stat --for-each-cgroup gone -- sh -c "$inside $root/gone/cgroup.procs $loop 2000000; rmdir $root/gone; mkdir $root/gone; $inside $root/gone/cgroup.procs $loop 1000000"
is "a cgroup that is removed keeps its count, and another one of its name has none" "$many" "$(counted gone)"
rmdir "$root/gone"

# Without a command, as the whole system.
# shellcheck disable=SC2016 # a word that is evaluated
interrupt_when 'has_events $pid && "$inside" "$root/a/b/cgroup.procs" "$loop" 2000000' pmctl stat -x, -o csv -e instructions:u -G a/b
is "without a command it counts until Ctrl-C" "$many" "$(counted a/b)"

# Forms.
pmctl stat -e instructions:u,branches:u --for-each-cgroup a,c -o text -- "$inside" "$root/a/cgroup.procs" "$loop" 2000000
says "the title says what is counted" "$(cat text)" "stats for '.*pmctl_inside .*', 2 cgroups on all CPUs"
check "each row begins with its cgroup" [ "$(grep -c '^[ac] *[0-9,]* *\(instructions\|branches\):u' text)" = 4 ]
pmctl stat -j -o json -e instructions:u --for-each-cgroup a/b -- true
says "perf's JSON has the cgroup" "$(cat json)" '"event":"instructions:u","cgroup":"a/b"'
pmctl stat --record counts -x, -o csv -e instructions:u --for-each-cgroup a,c -- "$inside" "$root/a/cgroup.procs" "$loop" 2000000
pmctl stat --report counts -x, -o again
is "a file has the same rows" "$(cat csv)" "$(cat again)"
pmctl stat -M insn_per_cycle -o text --for-each-cgroup a,c -- "$inside" "$root/a/cgroup.procs" "$loop" 2000000
says "metrics are of each" "$(cat text)" '^insn_per_cycle +[0-9.]+ +<no value>'

# perf, with the driver's counters and with its own.
program="$inside $root/a/b/cgroup.procs $loop 2000000"
# shellcheck disable=SC2086 # words
pmctl wrap -- perf stat -a -x, -o perfs -e instructions:u --for-each-cgroup a,a/b,c -- $program
is "perf counts the same with the driver's counters" "$many $many" "$(counted a perfs) $(counted a/b perfs)"
# shellcheck disable=SC2086 # words
stat --for-each-cgroup a,a/b,c -- $program
is "its lines are the same but for the times" "$(grep -v '^#\|^$' perfs | cut -d, -f2-4)" "$(cut -d, -f2-4 csv)"
# The kernel begins to have perf's part of cgroups with any controller, as systemd does.
controller=$(awk '{ print $NF }' "$root/cgroup.controllers")
[ -z "$controller" ] || echo "+$controller" >"$root/cgroup.subtree_control"
if [ "$of_kernel" = 1 ]; then
	# shellcheck disable=SC2086 # words
	perf stat -a -x, -o perfs -e instructions:u --for-each-cgroup a,a/b,c -- $program 2>/dev/null
	is "perf counts the same with its own" "$many $many" "$(counted a perfs) $(counted a/b perfs)"
fi

[ -z "$controller" ] || echo "-$controller" >"$root/cgroup.subtree_control"

# Rights.
echo 2 >/proc/sys/kernel/perf_event_paranoid
chmod 666 /dev/perfmon
chmod 755 "$root"
try "$here/pmctl_as" -4711 pmctl stat -G a -- true
is "a user without rights counts no cgroup" 125 $?
says "it says why" "$errors" 'to count a cgroup, run it as root or with CAP_PERFMON'
finish
