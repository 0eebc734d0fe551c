#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl on a hybrid processor with a big core and a small one. The event r81d0 of the virtual PMU is
# instructions on big cores; on small ones, where a raw event does not count, it would be branches.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

event=r81d0:u
n=10000000
period=100003
loop=$here/pmctl_loop

# cpu_of PMU: prints the only CPU of Linux's PMU
cpu_of() {
	cat "/sys/bus/event_source/devices/$1/cpus"
}
big=$(cpu_of cpu_core)
small=$(cpu_of cpu_atom)
on_big="taskset -c $big"
on_small="taskset -c $small"

root=$(mktemp -d)
# shellcheck disable=SC2016,SC2034 # ktap.sh evaluates it
at_end='rmdir "$root/a" 2>/dev/null; umount "$root"; rmdir "$root"'
mount -t cgroup2 none "$root"
mkdir "$root/a"

# is_close NUMBER COUNT: succeeds if COUNT is NUMBER and up to a twentieth more
# shellcheck disable=SC2317 # check calls it
is_close() {
	[ "$2" -ge "$1" ] && [ "$2" -lt $(($1 + $1 / 20)) ]
}

# count_of EVENT: prints the event's count in the output of stat -x,
count_of() {
	echo "$errors" | grep ",$1," | cut -d, -f1
}

plan 30

# Both kinds, one after the other, and only one of them.
both="$on_big $loop $n; $on_small $loop $n"

record() {
	rm -f perf.data
	try pmctl record -e $event -c $period "$@"
}

# sampled_cpus: the CPUs that have samples, as one word
sampled_cpus() {
	pmctl script -F cpu | sort -u | tr -dc '0-9\n' | tr '\n' ' '
}

record -- sh -c "$both"
is "record samples an event of big cores" 0 $?
says "record says which CPUs are sampled" "$errors" "$event is sampled on CPUs $big only"
check "each of the event's periods on a big core has a sample" is_close $((2 * n / period - 1)) "$(pmctl script | wc -l)"
is "samples are of the big core" "$(printf '%03d ' "$big")" "$(sampled_cpus)"
record -a -- sh -c "$both"
is "record -a samples an event of big cores" 0 $?
check "record -a has the samples of the big core" [ "$(pmctl script | wc -l)" -ge $((2 * n / period - 1)) ]
record -C "$small" -- true
is "record -C of small cores refuses an event of big ones" 125 $?
says "the refusal names the kinds of cores" "$errors" "cpu_core \(CPUs $big\)"
record -e instructions:u -- sh -c "$both"
is "record samples an event of big cores and one of all" 0 $?
check "the event of all cores has samples of each" \
	is_close $((4 * n / period - 2)) "$(pmctl script -F event | grep -c instructions)"
sh -c "while :; do $both; done" &
process=$!
record -p $process --duration 0.5
is "record -p samples an event of big cores" 0 $?
kill $process

try pmctl stat -x, -e $event -- sh -c "$both"
is "stat counts an event of big cores" 0 $?
check "the count is that of the big core" is_close $((2 * n)) "$(count_of $event)"
# shellcheck disable=SC2086 # the words of a command
try $on_small pmctl stat -x, -e $event,instructions:u -- "$loop" $n
is "stat fails if no task was on a big core" 125 $?
is "an event of big cores was not counted on a small one" '<not counted>' "$(count_of $event)"
says "stat says that no task was on a core that has the event" "$errors" 'no task ran on a core'
check "an event of all cores was counted on a small one" is_close $((2 * n)) "$(count_of instructions:u)"

# Events that pmctl groups by itself.
try pmctl stat -x, -I 10000 -e instructions:u,$event -- sh -c "$both"
is "stat -I counts events of different kinds" 0 $?
check "stat -I has the count of the big core" is_close $((2 * n)) "$(echo "$errors" | grep ",$event," | cut -d, -f2)"
try pmctl stat -d -I 10000 -- true
is "stat -d -I succeeds" 0 $?
try pmctl stat -x, -G a -e instructions:u,$event -- \
	sh -c "echo 0 >$root/a/cgroup.procs; $both"
is "stat -G counts events of different kinds" 0 $?
check "stat -G has the count of the big core" is_close $((2 * n)) "$(count_of $event)"
try pmctl stat -x, -G a -C "$big,$small" -e instructions:u,$event -- \
	sh -c "echo 0 >$root/a/cgroup.procs; $both"
is "stat -G -C counts events of different kinds" 0 $?
check "stat -G -C has the count of the big core" is_close $((2 * n)) "$(count_of $event)"
check "stat -G -C has the count of all cores" is_close $((4 * n)) "$(count_of instructions:u)"

try pmctl stat -x, -a --multiplex -e $event -- sh -c "$both"
is "stat --multiplex counts an event of big cores" 0 $?
check "stat --multiplex has the count of the big core" [ "$(count_of $event)" -ge $((2 * n)) ]
try pmctl stat -x, -A -a --multiplex -e $event,instructions:u -- sh -c "$both"
is "stat -A counts an event of big cores" 0 $?
is "stat -A has a line for the big core" 1 "$(echo "$errors" | grep -c ",$event,")"
try pmctl stat -C "$small" --multiplex -e $event -- true
is "stat -C of small cores refuses an event of big ones" 125 $?

finish
