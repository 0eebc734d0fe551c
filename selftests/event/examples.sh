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

plan 12

a=$("$here/event_count_self")
is "the C example succeeds" 0 $?
is "it counts the same each time" "$a" "$("$here/event_count_self")"
between "it counts its loop" 500000 9000000 "${a%% *}"

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

finish
