#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The library for Rust on a hybrid processor: a count is an error if a part of the work ran on a core that lacks the
# event. The event r81d0 of the virtual PMU is instructions on big cores; small ones do not count it.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

# cpu_of PMU: prints the only CPU of Linux's PMU
cpu_of() {
	cat "/sys/bus/event_source/devices/$1/cpus"
}
big=$(cpu_of cpu_core)
small=$(cpu_of cpu_atom)
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# printed_after TEXT: prints what the example printed after TEXT
printed_after() {
	sed -n "s/^$1: //p" "$out"
}

plan 13

example_kinds r81d0:u "$big" "$small" >"$out" 2>&1
is "the example succeeds" 0 $?
sed 's/^/# /' "$out"
stayed=$(printed_after stayed)
check "work on a big core is counted: $stayed" [ "${stayed:-0}" -ge 2000000 -a "${stayed:-0}" -le 2001000 ]
lacks='the thread ran on a core that lacks the event, so the count would be too low'
says "a reading on the small core is an error" "$(printed_after 'by a system call')" '^Err\(.*OtherCore'
is "the last reading is by RDPMC" true "$(printed_after 'by RDPMC')"
says "a reading after it is an error" "$(printed_after moved)" "$lacks"
is "only the region's pass on the big core counts" "1 passes, 1 failed" "$(printed_after region)"
sum=$(printed_after sum)
check "the sum is that of this pass: $sum" [ "${sum:-0}" -ge 4000000 -a "${sum:-0}" -le 4010000 ]
says "the error of regions says why" "$(printed_after error)" "$lacks"

# Both kinds have this event.
example_kinds instructions:u "$big" "$small" >"$out" 2>&1
is "the example succeeds with an event of both kinds" 0 $?
moved=$(printed_after moved)
check "all of its work is counted: $moved" [ "${moved:-0}" -ge 6000000 -a "${moved:-0}" -le 6010000 ]
is "and both passes of the region" "2 passes, 0 failed" "$(printed_after region)"
sum=$(printed_after sum)
check "the sum is that of both: $sum" [ "${sum:-0}" -ge 8000000 -a "${sum:-0}" -le 8010000 ]
is "there is no error" "" "$(printed_after error)"
finish
