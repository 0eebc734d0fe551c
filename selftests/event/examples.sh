#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The examples of events, in C and in Rust: what they count is what perf counts of them.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

out=$(mktemp)
trap 'rm -f "$out"' EXIT

# line NAME: what an example printed behind NAME
line() {
	sed -n "s/^$1: //p" "$out"
}

# between NAME LEAST MOST NUMBER
between() {
	check "$1: $4 is $2 to $3" [ "${4:-0}" -ge "$2" -a "${4:-0}" -le "$3" ]
}

plan 21

a=$("$here/event_count_self")
is "the C example succeeds" 0 $?
is "it counts the same each time" "$a" "$("$here/event_count_self")"
between "it counts its loop" 500000 9000000 "${a%% *}"

"$here/event_count_threads" >"$out"
is "the C example of threads succeeds" 0 $?
between "the first thread's count is of its code" 2000000 2001000 "$(line "thread 0" | cut -d ' ' -f 1)"
between "the second thread's is, too" 2000000 2001000 "$(line "thread 1" | cut -d ' ' -f 1)"

a=$(example_count)
is "the Rust example succeeds" 0 $?
between "it counts its loop" 1000000 9000000 "${a%% *}"

example_regions >"$out"
is "the example of regions succeeds" 0 $?
between "measure() counts the closure" 2000000 2001000 "$(sed -n "s/^measure: instructions //p" "$out")"
is "the user page needs no system call" true "$(line "page without a system call")"
is "the user page is exact" 2000000 "$(line page)"
between "a region adds its passes up" 6000000 6000200 "$(line "region loop" | cut -d ' ' -f 2)"
between "an empty region is almost nothing" 0 100 "$(line "region nothing" | cut -d ' ' -f 2)"
between "each thread has its own" 2000000 2000100 "$(line "region thread" | cut -d ' ' -f 2)"

# 27 levels of Fibonacci: some 7 million instructions, a sample each 100003.
example_profile_self >"$out"
is "the profiler of oneself succeeds" 0 $?
is "it loses nothing" 0 "$(line lost)"
samples=$(awk '!/^lost/ { n += $NF } END { print n + 0 }' "$out")
between "it has a sample each period" 55 85 "$samples"
# How deep depends on how it was compiled: without frame pointers it is cut.
check "samples have call chains" \
	[ "$(awk -F ';' '!/^lost/ && NF > most { most = NF } END { print most + 0 }' "$out")" -ge 2 ]

"$here/pmctl_loop" 100000000000 &
loop=$!
example_histogram $loop 2 >"$out"
is "the histogram succeeds" 0 $?
kill $loop
check "a loop is in one or two lines of the cache" [ "$(wc -l <"$out")" -le 8 -a -s "$out" ]

finish
