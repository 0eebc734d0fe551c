#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Linux's perf(1) beside us: refused in words while we count, working before
# and after.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

loop=$here/pmctl_loop

# perf_count N: what perf counts in user mode for N iterations of the loop
perf_count() {
	perf stat -x, -e instructions:u -- "$loop" "$1" 2>&1 |
		awk -F, '$3 ~ /^instructions:u/ { print $1 }'
}

plan 6

before=$(perf_count 1000000)
check "perf counts before" [ "${before:-0}" -gt 2000000 ]

# pmctl counts as long as its child lives. The child tells when it runs.
mkfifo /tmp/go /tmp/end
pmctl stat -e instructions:u -- sh -c 'echo >/tmp/go; read -r _ </tmp/end' \
	>/dev/null 2>&1 &
pmctl=$!
read -r _ </tmp/go

refused=$(perf stat -e instructions:u -- "$loop" 1000000 2>&1)
is "perf has no count while we count" "" "$(perf_count 1000000 | grep '^[0-9]')"
check "perf says so" [ "${refused#*not counted}${refused#*not supported}" != "$refused$refused" ]

echo >/tmp/end
wait "$pmctl"
is "we were not disturbed" 0 $?
is "perf counts the same afterwards" "$before" "$(perf_count 1000000)"

rmmod perfmon
is "perf counts the same without the module" "$before" "$(perf_count 1000000)"
insmod /lib/modules/perfmon.ko
rm -f /tmp/go /tmp/end

finish
