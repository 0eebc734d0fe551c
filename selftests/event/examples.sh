#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs the examples of events in C and in Rust. Their counts are the same as perf's counts of the
# same programs.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

out=$(mktemp)
trap 'rm -f "$out"' EXIT

# printed_after TEXT: prints what an example printed after TEXT
printed_after() {
	sed -n "s/^$1: //p" "$out"
}

# is_between NAME LEAST MOST NUMBER : passes if NUMBER is between LEAST and MOST
is_between() {
	check "$1: $4 is $2 to $3" [ "${4:-0}" -ge "$2" -a "${4:-0}" -le "$3" ]
}

plan 33

a=$("$here/event_count_self")
is "the C example succeeds" 0 $?
is "the C example counts the same each time" "$a" "$("$here/event_count_self")"
is_between "the C example counts its loop" 500000 9000000 "${a%% *}"

"$here/event_count_threads" >"$out"
is "the C example of threads succeeds" 0 $?
is_between "the first thread's count is of its code" 2000000 2001000 "$(printed_after "thread 0" | cut -d ' ' -f 1)"
is_between "the second thread's count is of its code" 2000000 2001000 "$(printed_after "thread 1" | cut -d ' ' -f 1)"

a=$(example_count)
is "the Rust example succeeds" 0 $?
is_between "the Rust example counts its loop" 1000000 9000000 "${a%% *}"

example_regions >"$out"
is "the example of regions succeeds" 0 $?
is_between "measure() counts the closure" 2000000 2001000 "$(sed -n "s/^measure: instructions //p" "$out")"
is "the user page needs no system call" true "$(printed_after "page without a system call")"
is "the user page is exact" 2000000 "$(printed_after page)"
is "the pages of a group need no system call" true "$(printed_after "pages without a system call")"
is "the pages of a group are exact" "2000000 1000000" "$(printed_after pages)"
# sums_of TITLE FIELDS: prints sums of a region; the fields are passes, failed passes, instructions, branches
sums_of() {
	printed_after "$1" | cut -d ' ' -f "$2"
}
# If a context switch interrupts a reading, the reading begins anew, which takes some 100
# instructions.
is_between "a region adds up all its passes" 6000000 6000300 "$(sums_of "region loop" 3)"
is_between "a region adds up its branches" 3000000 3000090 "$(sums_of "region loop" 4)"
is_between "an empty region counts almost nothing" 0 300 "$(sums_of "region nothing" 3)"
is_between "an empty region has almost no branches" 0 90 "$(sums_of "region nothing" 4)"
is_between "each thread has counts of its own" 2000000 2000300 "$(sums_of "region thread" 3)"
is_between "each thread has branches of its own" 1000000 1000090 "$(sums_of "region thread" 4)"
is "the events of regions are chosen once" 1 "$(grep -c '^later events: .* call set_events() once' "$out")"

is "the child of the example has ended by itself" 1 "$(grep -c '^child: Ok(Exited(Pid([0-9]*), 0))$' "$out")"
is "a page has no counter in a child" false "$(printed_after "child's page without a system call")"
is_between "a child counts its own passes" 2000000 2000300 "$(sums_of "child's region child" 3)"
is_between "a child counts its own branches" 1000000 1000090 "$(sums_of "child's region child" 4)"
is "a child counts all its passes" "1 0" "$(sums_of "child's region child" 1,2)"
is "a child begins without its parent's passes" 1 "$(grep -c "^child's region" "$out")"

# 27 levels of Fibonacci take some 7 million instructions, with a sample every 100003.
example_profile_self >"$out"
is "the example of profiling itself succeeds" 0 $?
is "the example of profiling itself loses no sample" 0 "$(printed_after lost)"
samples=$(awk '!/^lost/ { n += $NF } END { print n + 0 }' "$out")
is_between "the example of profiling itself has a sample for each period" 55 85 "$samples"
# The depth depends on how the example was compiled: without frame pointers chains are cut.
check "samples have call chains" \
	[ "$(awk -F ';' '!/^lost/ && NF > most { most = NF } END { print most + 0 }' "$out")" -ge 2 ]

"$here/pmctl_loop" 100000000000 &
loop=$!
wait_until "grep -qs pmctl_loop /proc/$loop/comm"
# The CPU of the loop may stand still for two seconds, if the host is busy.
tries=0
until
	example_histogram $loop 2 >"$out"
	status=$?
	[ -s "$out" ] || [ $((tries += 1)) = 10 ]
do
	:
done
is "the histogram succeeds" 0 "$status"
kill $loop
check "a loop is in one or two lines of the cache" [ "$(wc -l <"$out")" -le 8 -a -s "$out" ]

finish
