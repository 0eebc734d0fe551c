#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Linux's perf(1) beside pmctl: refused with a message while pmctl counts, working
# before and after.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
# shellcheck source=SCRIPTDIR/../lib/count.sh
. "$here/count.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

dir=$(mktemp -d)
trap 'rm -rf "$dir" "$counts"' EXIT
# The loop is long, because perf shows no count if its clock did not move.
loop=$here/pmctl_loop

plan 6

before=$(perf_count instructions:u "$loop" 50000000)
check "perf counts before" [ "${before:-0}" -gt 100000000 ]

# pmctl counts as long as its child lives. The child lives until the file `end` exists.
# shellcheck disable=SC2016 # the inner shell expands it
pmctl stat -e instructions:u -- \
	sh -c '>"$0/running"; until [ -e "$0/end" ]; do sleep 0.1; done' "$dir" \
	>/dev/null 2>&1 &
pmctl=$!
check "pmctl counts" comes_true "[ -e $dir/running ]"

refused=$(perf stat -e instructions:u -- "$loop" 50000000 2>&1)
says "perf is refused in words" "$refused" "busy|<not (counted|supported)>"

: >"$dir/end"
wait "$pmctl"
is "pmctl was not disturbed" 0 $?
is "perf counts the same afterwards" "$before" \
	"$(perf_count instructions:u "$loop" 50000000)"

rmmod perfmon
is "perf counts the same without the module" "$before" \
	"$(perf_count instructions:u "$loop" 50000000)"
load_module

finish
