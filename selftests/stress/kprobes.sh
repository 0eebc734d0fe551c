#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Probes each of the module's functions that can be probed, including those of the overflow handler,
# while tests of exact counts run. For a kernel with CONFIG_KPROBE_EVENTS; if the kernel also has
# CONFIG_DYNAMIC_FTRACE, it refuses probes in functions without ftrace's hook, which includes all
# Rust functions.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

tracing=/sys/kernel/tracing
[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"
[ -e $tracing/kprobe_events ] || skip_all "this kernel has no kprobes for tracing"

log=$(mktemp)
plan 4
awk '$4 == "[perfmon]" && tolower($2) == "t" { print $3 }' /proc/kallsyms | sort -u >"$log"
functions=$(wc -l <"$log")
probes=0
while read -r f; do
	echo "p:probed/f$probes perfmon:$f" >>$tracing/kprobe_events && probes=$((probes + 1))
done <"$log" 2>/dev/null
check "functions of the module can be probed" [ "$probes" -gt 10 ]
echo 1 >$tracing/events/probed/enable

for test in counting_exact trace_nmi; do
	"$here/$test" >"$log" 2>&1
	status=$?
	[ $status = 0 ] || sed 's/^/#   /' "$log"
	is "$test while it is probed" 0 $status
done

# If an NMI hits a probe while another probe is being handled, the hit is missed, and counted as
# missed.
hits=$(awk '{ sum += $2 } END { print sum + 0 }' $tracing/kprobe_profile)
missed=$(awk '{ sum += $3 } END { print sum + 0 }' $tracing/kprobe_profile)
check "the probes of the module were hit" [ "$hits" -gt 1000 ]
echo "# $probes of $functions functions probed, $hits hits, $missed missed"
echo 0 >$tracing/events/probed/enable
echo >$tracing/kprobe_events
rm "$log"

finish
