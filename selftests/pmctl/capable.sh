#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs pmctl as a user with CAP_PERFMON and no other capability: everything works as for root. A
# user without CAP_PERFMON is told by pmctl what to do.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

# The test sets perf_event_paranoid to Linux's default, and lets every user open the device. Both
# are restored at the end.
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
mode=$(stat -c %a /dev/perfmon)
dir=$(mktemp -d)
# shellcheck disable=SC2317 # called by the trap
restore() {
	echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid
	chmod "$mode" /dev/perfmon
	rm -rf "$dir"
}
trap restore EXIT
echo 2 >/proc/sys/kernel/perf_event_paranoid
chmod 666 /dev/perfmon
chmod 777 "$dir"
cd "$dir" || exit 1

loop=$here/pmctl_loop
shares=$here/pmctl_shares

# capable COMMAND... : runs COMMAND as a user with CAP_PERFMON alone
capable() { "$here/pmctl_as" 4711 "$@"; }
# plain COMMAND... : runs COMMAND as a user without a capability
plain() { "$here/pmctl_as" -4711 "$@"; }

# count EVENT N COMMAND... : prints the loop's count by pmctl, which COMMAND runs
count() {
	event=$1 n=$2
	shift 2
	rm -f "$dir/counts"
	"$@" pmctl stat -e "$event" -x, -o "$dir/counts" -- "$loop" "$n" >/dev/null 2>&1
	awk -F, -v event="$event" '$3 == event { print $1 }' "$dir/counts"
}

plan 22

says "the user has CAP_PERFMON alone" "$(capable grep CapEff /proc/self/status)" '\<0000004000000000$'
says "the other user has no capability" "$(plain grep CapEff /proc/self/status)" '\<0000000000000000$'

capable pmctl info >/dev/null 2>&1
is "info succeeds" 0 $?
says "doctor says that the user may count" "$(capable pmctl doctor 2>&1)" 'by its capabilities'

a=$(count instructions:u 1000000 capable)
is "stat counts as for root" "$(count instructions:u 1000000 env)" "${a:-nothing}"
b=$(count instructions:u 2000000 capable)
is "stat is exact" 2000000 $((${b:-0} - ${a:-0}))
k=$(count instructions:k 1000000 capable)
check "stat counts the kernel" [ "${k:-0}" -gt 0 ]

output=$(capable pmctl record -e instructions:u -c 100003 -- "$shares" 2000000 2>&1)
is "record succeeds" 0 $?
samples=$(capable pmctl script 2>/dev/null | wc -l)
check "record has the samples of the period" [ "$samples" -ge $((20 * 2000000 / 100003)) ]
says "report has the functions" "$(capable pmctl report --sort symbol 2>/dev/null)" share_60
output=$(capable pmctl record -a -e instructions:k -c 10007 -- "$loop" 1000000 2>&1)
is "record of the kernel on all CPUs succeeds" 0 $?
check "record of the kernel has samples" [ "$(capable pmctl script 2>/dev/null | wc -l)" -gt 0 ]

# As with perf, every user may count user mode of their own programs.
is "stat without the capability counts user mode" "$a" "$(count instructions:u 1000000 plain)"
output=$(plain pmctl stat -e instructions -x, -o "$dir/counts" -- "$loop" 1000000 2>&1)
is "stat without the capability leaves the kernel out" "$a,,instructions:u" \
	"$(cut -d, -f 1-3 "$dir/counts")"
for kernel in "-e instructions:k" "-a -e instructions:u"; do
	# shellcheck disable=SC2086 # they are options
	output=$(plain pmctl stat $kernel -- "$loop" 1000 2>&1)
	check "stat $kernel without the capability fails" [ $? != 0 ]
	says "stat $kernel without the capability says what to do" "$output" 'perf_event_paranoid|CAP_PERFMON|root'
done
rm -f perf.data
output=$(plain pmctl record -e instructions -c 10007 -- "$loop" 1000000 2>&1)
is "record without the capability samples user mode" 0 $?
says "record without the capability says that it samples user mode only" "$output" 'user mode only'
# A CPU that the loop has left may have counted a part of a period.
check "record without the capability has the samples of the period" \
	[ "$(plain pmctl script 2>/dev/null | wc -l)" -gt $((2 * 1000000 / 10007 - $(nproc))) ]
output=$(plain pmctl record -a -e instructions:u -c 100003 -- "$loop" 1000 2>&1)
check "record -a without the capability fails" [ $? != 0 ]
finish
