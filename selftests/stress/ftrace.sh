#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Hooks all functions of the module that the function tracer can hook, including those of the
# overflow handler, while tests of exact counts run. For a kernel with CONFIG_FUNCTION_TRACER.
# Rust functions can't be hooked.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

tracing=/sys/kernel/tracing
[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"
grep -qw function $tracing/available_tracers || skip_all "this kernel has no function tracer"

log=$(mktemp)
# traced : prints the number of traced calls, including those that the ring has lost
traced() {
	cat $tracing/per_cpu/cpu*/stats |
		awk '/^(entries|overrun):/ { sum += $2 } END { print sum + 0 }'
}

plan 5
awk '/\[perfmon\]/ { print $1 }' $tracing/available_filter_functions >"$log"
hooks=$(wc -l <"$log")
cat "$log" >$tracing/set_ftrace_filter
check "functions of the module can be hooked" [ "$hooks" -gt 10 ]
check "a function of the overflow handler can be hooked" grep -q perfmon_lvtpc_read "$log"
echo function >$tracing/current_tracer

for test in counting_exact trace_nmi; do
	"$here/$test" >"$log" 2>&1
	status=$?
	[ $status = 0 ] || sed 's/^/#   /' "$log"
	is "$test while it is traced" 0 $status
done

calls=$(traced)
check "calls were traced" [ "$calls" -gt 1000 ]
echo "# $hooks functions hooked, $calls calls traced"
echo nop >$tracing/current_tracer
echo >$tracing/set_ftrace_filter
rm "$log"

finish
