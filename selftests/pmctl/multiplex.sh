#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# More events than counters: with pmctl stat --multiplex, and for programs under pmctl wrap, the
# events take turns, with the same output as that of perf stat. Without the option, stat refuses
# these events.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
# shellcheck source=SCRIPTDIR/../lib/count.sh
. "$here/count.sh"
in_own_dir
# shellcheck disable=SC2016 # it is expanded at the end
at_end='rm -f "$counts"'

loop=$here/pmctl_loop
turns=150000000	# LOOP_INSNS each, of which one is a branch
branches=c4
grep -q AuthenticAMD /proc/cpuinfo && branches=c2

# Only general counters can count these events: the first event counts the branches of the loop, the
# others have a counter mask.
many=r00$branches:u
for i in 1 2 3 4 5 6 7 8 9 a b; do
	many=$many,r${i}0000$branches:u
done

# field N FILE [EVENT]: prints the field of the event's line, or of the first event's
field() {
	awk -F, -v n="$1" -v event="${3:-r00$branches:u}" '$3 == event { print $n }' "$2"
}

# is_near PERCENT EXPECTED GOT: succeeds if the two differ by at most PERCENT
# shellcheck disable=SC2317 # comes_true calls it
is_near() {
	awk -v e="$2" -v g="$3" -v p="$1" \
		'BEGIN { exit !(g != "" && g >= e * (1 - p / 100) && g <= e * (1 + p / 100)) }'
}

# near NAME PERCENT EXPECTED GOT: passes if the two differ by at most PERCENT
near() {
	check "$1: $4 for $3" is_near "$2" "$3" "$4"
}

# A CPU that stands still in the turn of an event adds to the event's time, but not to its count, so
# that the share and the estimate are wrong. On a busy host this happens to perf and to pmctl: each
# of the functions below counts the loop once more, and comes_true calls it until the numbers are
# near. A host that is always busy needs the larger tolerance; with EVEN, where time is counted in
# instructions (run --icount), no CPU stands still.
tolerance=${EVEN:+5}
tolerance=${tolerance:-40}

# estimates EXPECTED FILE COMMAND... : succeeds if COMMAND, which writes FILE, estimates so many branches
# shellcheck disable=SC2317 # comes_true calls it
estimates() {
	estimates_expected=$1 estimates_file=$2
	shift 2
	"$@" -o "$estimates_file" -- "$loop" "$turns"
	is_near "$tolerance" "$estimates_expected" "$(field 1 "$estimates_file")"
}

# shellcheck disable=SC2317 # comes_true calls it
has_perfs_share() {
	estimates "$turns" perf.csv perf stat -x, -e "$many" &&
		estimates "$turns" pmctl.csv pmctl stat --multiplex -x, -e "$many" &&
		is_near "$tolerance" "$(field 5 perf.csv)" "$(field 5 pmctl.csv)"
}

# shellcheck disable=SC2317 # comes_true calls it
wrapped_has_perfs_share() {
	estimates "$turns" wrapped.csv pmctl wrap -- perf stat -x, -e "$many" &&
		is_near "$tolerance" "$(field 5 perf.csv)" "$(field 5 wrapped.csv)"
}

# shellcheck disable=SC2317 # comes_true calls it
part_is_near() {
	taskset 1 pmctl stat --multiplex -a -A -x, -e "$many" -o parts.csv -- "$loop" "$turns"
	is_near "$tolerance" "$turns" "$(of_cpu CPU0)"
}

# shellcheck disable=SC2317 # comes_true calls it
intervals_are_near() {
	taskset 1 pmctl stat --multiplex -C 0 -I 300 -x, -e "$many" -o intervals.csv -- "$loop" "$turns"
	is_near "$tolerance" "$turns" "$(sum_of_intervals)"
}

# of_cpu CPU: prints the count of the first event on a CPU
of_cpu() { awk -F, -v cpu="$1" -v event="r00$branches:u" '$1 == cpu && $4 == event { print $2 }' parts.csv; }

# sum_of_intervals: prints the sum of the counts of the first event
sum_of_intervals() { awk -F, -v event="r00$branches:u" '$4 == event { sum += $2 } END { print sum }' intervals.csv; }

plan $((31 + ($(nproc) > 1)))

pmctl stat --multiplex -x, -e "$many" -o pmctl.csv -- "$loop" "$turns"
is "stat --multiplex succeeds" 0 $?
comes_true has_perfs_share
is "stat --multiplex shows all events" 12 "$(grep -cE "r(00|.0000)$branches:u" pmctl.csv)"
near "the share of the time is perf's" "$tolerance" "$(field 5 perf.csv)" "$(field 5 pmctl.csv)"
check "the share of the time is less than 100" [ "$(field 5 pmctl.csv | cut -d. -f1)" -lt 100 ]
near "perf estimates the branches" "$tolerance" "$turns" "$(field 1 perf.csv)"
near "pmctl estimates the branches" "$tolerance" "$turns" "$(field 1 pmctl.csv)"

pmctl stat --multiplex -e "$many" -o table -- "$loop" "$turns"
says "the table marks estimates" "$(cat table)" "^ +[0-9,]+ +r00$branches:u +\([0-9]+\.[0-9]{2}%\)$"
pmctl stat --multiplex --json -e "$many" -o json -- "$loop" "$turns"
says "JSON marks estimates" "$(cat json)" "\"event\":\"r00$branches:u\".*\"pcnt-running\":[1-9][0-9]\.[0-9]"
pmctl stat --multiplex --json=v1 -e "$many" -o v1.json -- "$loop" "$turns"
pmctl stat --report v1.json -o again
says "a report of recorded counts marks estimates" "$(cat again)" "r00$branches:u +\([0-9]+\.[0-9]{2}%\)$"
pmctl stat --multiplex -e instructions:u -o whole -- "$loop" 1000
is "an event with a counter of its own is no estimate" 0 "$(grep -c % whole)"
is "an event with a counter of its own is exact" "$(pmctl_count instructions:u "$loop" 1000)" \
	"$(awk '$2 == "instructions:u" { gsub(",", "", $1); print $1 }' whole)"
pmctl stat --multiplex -I 300 -x, -e "$many" -o intervals.csv -- "$loop" "$turns"
check "each interval has shares of its own" [ "$(awk -F, '$4 == "r00'$branches':u" && $6 < 100' intervals.csv | wc -l)" -ge 1 ]

# When a short program ends, some events have had no turn, unless the program's CPU stood still
# meanwhile.
# shellcheck disable=SC2317 # comes_true calls it
ends_before_all_turns() {
	try pmctl stat --multiplex -x, -e "$many" -o short.csv -- "$loop" 1000
	status=$?
	[ "$status" != 0 ]
}
comes_true ends_before_all_turns
is "stat fails if an event had no turn" 125 "$status"
says "an event that had no turn has no number" "$(cat short.csv)" '^<not counted>,,r.*,0,0.00'
says "stat says why an event had no turn" "$errors" 'ended before each event had its turn'

try pmctl stat -e "$many" -- "$loop" 1000
is "without the option they are refused" 125 $?
says "pmctl names several runs" "$errors" '.-r 1. runs it [0-9]+ times'
says "and turns" "$errors" '.--multiplex. lets the events take turns'

# Counts events of CPUs. Each CPU has its own turns: one CPU executes the loop, the other does
# little.
taskset 1 pmctl stat --multiplex -a -x, -e "$many" -o all.csv -- "$loop" "$turns"
is "stat --multiplex -a succeeds" 0 $?
# shellcheck disable=SC2016 # it is evaluated later
comes_true 'estimates $turns perf.csv taskset 1 perf stat -a -x, -e "$many"'
# shellcheck disable=SC2016 # it is evaluated later
comes_true 'estimates $turns all.csv taskset 1 pmctl stat --multiplex -a -x, -e "$many"'
check "its share of the time is less than 100" [ "$(field 5 all.csv | cut -d. -f1)" -lt 100 ]
near "perf -a estimates the branches" "$tolerance" "$turns" "$(field 1 perf.csv)"
near "so does pmctl -a" "$tolerance" "$turns" "$(field 1 all.csv)"
comes_true part_is_near
near "-A estimates those of the CPU" "$tolerance" "$turns" "$(of_cpu CPU0)"
[ "$(nproc)" = 1 ] || check "and few of the other" [ "$(of_cpu CPU1)" -lt $((turns / 100)) ]
comes_true intervals_are_near
near "intervals of -C add up" "$tolerance" "$turns" "$(sum_of_intervals)"
pmctl stat --multiplex -a -x, -e instructions:u,branches:u -o whole.csv -- "$loop" 1000000
is "what fits has all of the time" 100.00 "$(field 5 whole.csv instructions:u)"
check "and is exact" [ "$(field 1 whole.csv instructions:u)" -ge 2000000 ]
try pmctl stat --multiplex -a --explain -e instructions:u -- true
is "their counters are not shown" 2 $?
try pmctl stat --multiplex -a -e instructions:u:PMC1 -- true
says "nor chosen" "$errors" 'the driver chooses the counters of events that take turns'

comes_true wrapped_has_perfs_share
near "a wrapped perf has the same share" "$tolerance" "$(field 5 perf.csv)" "$(field 5 wrapped.csv)"
near "a wrapped perf estimates the branches" "$tolerance" "$turns" "$(field 1 wrapped.csv)"
pmctl wrap --exact -- perf stat -x, -e "$many" -o exact.csv -- "$loop" 1000 2>log
says "wrap --exact refuses an event" "$(cat exact.csv)" "^<not supported>,,rb0000$branches:u"

finish
