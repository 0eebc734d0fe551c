#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl stat: exact counts of a program whose count is known, and the exit
# code of its child.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
# shellcheck source=SCRIPTDIR/../lib/count.sh
. "$here/count.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

# The program executes 2 instructions in each iteration.
loop=$here/pmctl_loop

# exit_code COMMAND...: pmctl's exit code
exit_code() {
	pmctl stat -e instructions:u -- "$@" >/dev/null 2>&1
	echo $?
}

# count_on CPU N: what CPU counts while CPU 0 does all work, the loop too
count_on() {
	taskset 1 pmctl stat -C "$1" -e instructions:u -x, -o "$counts" -- \
		"$loop" "$2" >/dev/null 2>&1
	awk -F, '$3 == "instructions:u" { print $1 }' "$counts"
}

cpus=$(nproc)
plan $((28 + (cpus > 1)))

for event in instructions:u r00c0:u; do
	a=$(pmctl_count $event "$loop" 1000000)
	b=$(pmctl_count $event "$loop" 2000000)
	check "$event counts the loop" [ "${a:-0}" -gt 2000000 ]
	is "$event is exact" 2000000 $((${b:-0} - ${a:-0}))
	is "$event gives the same again" "$a" \
		"$(pmctl_count $event "$loop" 1000000)"
done

# Each event is another number for the loop: the clocks of the virtual PMU have
# constant rates of their own. At each way into the kernel and out of it a fraction
# of a cycle is rounded, and interrupts come when they like.
for rate in cycles:u=2500000,100 branches:u=1000000,0; do
	event=${rate%=*} wanted=${rate#*=}
	a=$(pmctl_count "$event" "$loop" 1000000)
	b=$(pmctl_count "$event" "$loop" 2000000)
	counted=$((${b:-0} - ${a:-0}))
	distance=$((counted - ${wanted%,*}))
	echo "# $event: $counted"
	check "$event is counted, and no other event" [ "${distance#-}" -le "${wanted#*,}" ]
done

k=$(pmctl_count instructions:k "$loop" 90000000)
check "instructions:k counts the kernel" [ "${k:-0}" -gt 0 ]
check "instructions:k does not count the loop" [ "${k:-180000000}" -lt 180000000 ]

a=$(count_on 0 1000000)
b=$(count_on 0 2000000)
check "-C counts the loop on its CPU" [ "${a:-0}" -gt 2000000 ]
is "-C is exact" 2000000 $((${b:-0} - ${a:-0}))
if [ "$cpus" -gt 1 ]; then
	is "-C counts nothing of the other CPU's" 0 "$(count_on 1 1000000)"
fi

is "stat exits with 0 if the child succeeds" 0 "$(exit_code true)"
is "stat exits with the code of the child" 42 "$(exit_code "$loop" 42 exit)"
# shellcheck disable=SC2016 # the inner shell expands it
is "stat exits with 137 if the child is killed" 137 "$(exit_code sh -c 'kill -9 $$')"
is "stat exits with 127 if there is no such program" 127 \
	"$(exit_code /nonexistent/program)"

# Numbers that can't be written are no success.
pmctl stat -e instructions:u -- true 2>&-
is "stat exits with 125 if standard error is closed" 125 $?
pmctl stat -e instructions:u -- true 2>/dev/full
is "stat exits with 125 if standard error is full" 125 $?
pmctl stat -e instructions:u -o "$counts" -- true 2>&-
is "stat needs no standard error with -o" 0 $?

# An event that the CPU lacks does not keep the others from being counted.
absent=
for event in cache-misses branch-misses bus-cycles; do
	if pmctl encode $event 2>&1 | grep -q 'does not have'; then absent=$event; fi
done
if [ "$absent" ]; then
	pmctl stat -e "instructions:u,$absent" -x, -o "$counts" -- true 2>/dev/null
	is "stat exits with 125 if the CPU lacks an event" 125 $?
	says "the event is told as not supported" "$(cat "$counts")" "^<not supported>,,$absent"
	says "the other event is counted" "$(cat "$counts")" '^[1-9][0-9]*,,instructions:u'
else
	pmctl stat -e instructions:u,cache-misses,branch-misses -x, -o "$counts" -- true 2>/dev/null
	is "stat exits with 0 if the CPU has all events" 0 $?
	is "no event is told as not supported" 0 "$(grep -c 'not supported' "$counts")"
	says "the other event is counted" "$(cat "$counts")" '^[1-9][0-9]*,,instructions:u'
fi

is "the command ignores no other signals than without pmctl" \
	"$(grep SigIgn /proc/self/status)" \
	"$(pmctl stat -e instructions:u -- grep SigIgn /proc/self/status 2>/dev/null)"

pmctl stat -I 100 -e instructions:u,cycles:u -- sleep 1 2>"$counts"
is "an interval has no ratio" 1 "$(grep -c 'insn per cycle' "$counts")"
says "the total has one" "$(tail -n 15 "$counts")" "insn per cycle"

# Interrupted, as by Ctrl-C: the command decides, and without one it is the end.
timeout -s INT 1 pmctl stat -e instructions:u -- sleep 60 >/dev/null 2>&1
is "stat exits with 130 if the child is interrupted" 130 $?
timeout -s INT 1 pmctl stat -a -e instructions:u -x, -o "$counts" >/dev/null 2>&1
is "stat without a command exits with 0 when interrupted" 0 $?
check "stat shows the counts when interrupted" grep -q instructions:u "$counts"

finish
