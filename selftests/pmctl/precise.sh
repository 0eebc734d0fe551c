#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl record with precise samples, which the processor takes itself.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

event=instructions:upp
period=1009
n=1000000
loop=$here/pmctl_loop

# record OPTION... : records the rest of the command line, with pmctl's exit code; what it
# prints is in $output
record() {
	rm -f perf.data
	output=$(pmctl record "$@" 2>&1)
}

# all NUMBER: each period of the loop has a sample, but for the part of one on a CPU that it
# has left
# shellcheck disable=SC2317 # check calls it
all() {
	[ "$1" -ge $((count / period - 1)) ] && [ "$1" -le $((count / period)) ]
}

plan 29

count=$(pmctl stat -x, -e instructions:u -- "$loop" $n 2>&1 | cut -d, -f1)
record -e $event -c $period -- "$loop" $n
is "record of precise samples succeeds" 0 $?
samples=$(pmctl script | wc -l)
check "there is a sample for each period" all "$samples"
is "perf reads as many" "$samples" "$(perf script -F ip 2>/dev/null | wc -l)"
says "the event is called as it was written" "$(pmctl report)" "event '$event'"
says "and is a precise one of perf's" "$(perf evlist -v 2>/dev/null)" "precise_ip: 2"

# The samples of a program on several CPUs, and those of what it executes, which other CPUs
# map meanwhile, stand in the order of time. The rings have room for all of them.
record -e $event -c $period -m 2048 -- sh -c "
	for i in 1 2 3 4 5 6 7 8; do
		$loop 3000000 & $loop 3000000
		wait
	done"
is "record of programs on all CPUs succeeds" 0 $?
check "they have all their samples" [ "$(pmctl script | wc -l)" -ge $((16 * 2 * 3000000 / period)) ]
is "they are in the order of time" 0 \
	"$(perf script --ns -F time 2>/dev/null | tr -d ' :' | sort -c -n 2>&1 | wc -l)"
is "each of them is in a program that is known" 0 "$(pmctl report --sort dso | grep -c unknown)"

# As in pmctl_record, by hundredths of a percent.
record -e $event -c $period -m 512 -- "$here/pmctl_shares" 1000000
share() {
	pmctl report --sort symbol 2>/dev/null | awk -v name="$1" '
		$0 ~ name { n += $1 } END { printf "%d", n + 0.5 }'
}
check "a function has its share" [ $(($(share share_10) / 2)) = 5 ]
check "another has its own" [ $((($(share share_30) + 1) / 2)) = 15 ]
check "and so has the third" [ $((($(share share_60) + 1) / 2)) = 30 ]

# Beside others, and by a process.
record -e $event,branches:u -c $period -m 512 -- "$loop" $n
is "precise samples stand beside others" 0 $?
check "and are as many" all "$(pmctl script -F event | grep -c upp)"
"$loop" 3000000000 &
process=$!
record -e instructions:P -c 100003 --duration 0.3 -p $process
is "record -p with :P succeeds" 0 $?
check "it has samples" [ "$(pmctl script | wc -l)" -ge 100 ]
says "they are precise" "$(perf evlist -v 2>/dev/null)" "precise_ip: 2"
kill $process

# refused TEXT OPTION... : pmctl says why not
refused() {
	text=$1
	shift
	record "$@" -- "$loop" 1000
	says "refused: $*" "$? $output" "^2 .*$text"
}

refused "Give -c N in place of -F" -e $event -F 99
refused "Leave -g and --call-graph out" -e $event -g
refused "Leave -b and -j out" -e $event -b
refused "Leave --overwrite out" -e $event --overwrite
record -e $event -a -- true
says "refused: -a" "$? $output" "^2 .*in place of -a and -C"

# With what can't be had, :P is what it is elsewhere.
record -g -e instructions:uP -c 10007 -- "$loop" $n
is ":P with call chains has them" 0 $?
says "and says how they are taken" "$output" "taken by interrupts"

is "a count is the same with the letters" "$count" \
	"$(pmctl stat -x, -e $event -- "$loop" $n 2>&1 | cut -d, -f1)"

# perf asks for the highest precision, and takes what the driver has.
try pmctl wrap -v -- perf record -q -e cycles:uP -F 5000 -o perf.data -- "$loop" 30000000
is "perf record of :P under wrap succeeds" 0 $?
says "its samples are the driver's" "$errors" "cycles.*an event of the driver's"
check "no event of cycles is left to the kernel" [ "$(echo "$errors" | grep -c 'cycles.*left to the kernel')" = 0 ]
says "they are not precise" "$(perf evlist -v 2>/dev/null)" "^cycles:uP?: "

finish
