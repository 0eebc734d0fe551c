#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl's counts beside perf's, for the same work, one after the other.
#
# perf counts the task from its exec on. pmctl counts the machine, so it has its
# own instructions in it, from the start of the counter to its stop. They are a
# constant: the difference of the two tools is the same for every workload.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

dir=$(mktemp -d)
randomize=/proc/sys/kernel/randomize_va_space
before=$(cat $randomize)
trap 'rm -rf "$dir"; echo "$before" >$randomize' EXIT
cd "$dir" || exit 1
seq 1 200000 >numbers

# Work that is the same each time: no random addresses.
echo 0 >$randomize

# pmctl_count COMMAND..., perf_count COMMAND...: instructions in user mode
pmctl_count() {
	pmctl stat -x, -e instructions:u -o count -- "$@" >/dev/null 2>&1
	cut -d, -f1 count
}

perf_count() {
	perf stat -x, -e instructions:u -o count -- "$@" >/dev/null 2>&1
	grep -v '^#' count | cut -d, -f1 | tr -d '\n'
}

# compare NAME COMMAND...
compare() {
	name=$1
	shift
	theirs=$(perf_count "$@")
	ours=$(pmctl_count "$@")
	echo "# $name: perf $theirs, pmctl $ours"
	is "$name: apart by the constant" "$constant" $((ours - theirs))
}

plan 6

theirs=$(perf_count "$here/pmctl_loop" 1)
ours=$(pmctl_count "$here/pmctl_loop" 1)
constant=$((${ours:-0} - ${theirs:-0}))
echo "# a program that does nothing: perf $theirs, pmctl $ours"
check "both count" [ "${theirs:-0}" -gt 0 -a "$constant" -gt 0 ]

compare "loop" "$here/pmctl_loop" 50000000
compare "compression" gzip -c numbers
compare "sorting" sort -r numbers
# shellcheck disable=SC2016 # awk expands it
compare "interpreter" awk '{ n += $1 * 7 % 13 } END { print n }' numbers
compare "system calls" dd if=/dev/zero of=/dev/null bs=1 count=50000

finish
