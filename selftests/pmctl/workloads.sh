#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Compares pmctl's counts with perf's: each tool in turn counts the same work.
#
# Both tools count the task from its exec on, and nothing else, so the numbers are the same. With -a
# pmctl counts the machine, including pmctl's own instructions from the start of the counter to its
# stop. The number of these is constant, so the difference of the two tools is the same for every
# workload.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
# shellcheck source=SCRIPTDIR/../lib/count.sh
. "$here/count.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

# Without random addresses, the work is the same each time.
randomize=/proc/sys/kernel/randomize_va_space
before=$(cat $randomize)
dir=$(mktemp -d)
trap 'rm -rf "$dir" "$counts"; echo "$before" >$randomize' EXIT
echo 0 >$randomize
cd "$dir" || exit 1
seq 1 200000 >numbers

# machine_count COMMAND...: prints the instructions of all tasks in user mode, digits only
machine_count() {
	pmctl stat -a -e instructions:u -x, -o "$counts" -- "$@" >/dev/null 2>&1
	awk -F, '$3 == "instructions:u" { print $1 }' "$counts"
}

# compare NAME COMMAND...
#
# Tries up to ten times, each with one exec more. The number of a program's instructions varies a
# little with its start (the place of its pages, a timer interrupt while the vDSO reads the time),
# which neither tool can change. And -a counts the shell, too, if the shell's CPU stands still
# before the shell waits for pmctl. Each of these causes adds instructions. So the constant is the
# difference of the least counts of ten runs of the first program.
compare() {
	name=$1
	shift
	if [ -z "$constant" ]; then
		for _ in 1 2 3 4 5 6 7 8 9 10; do
			perf_count instructions:u "$here/pmctl_exec" "$@" >>theirs
			machine_count "$here/pmctl_exec" "$@" >>all
		done
		constant=$(($(sort -n all | head -n 1) - $(sort -n theirs | head -n 1)))
	fi
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		set -- "$here/pmctl_exec" "$@"
		theirs=$(perf_count instructions:u "$@")
		ours=$(pmctl_count instructions:u "$@")
		all=$(machine_count "$@")
		echo "# $name: perf $theirs, pmctl $ours, pmctl -a $all = + $constant + $((all - theirs - constant))"
		[ "$theirs $((all - theirs))" != "$ours $constant" ] || break
	done
	is "$name: pmctl counts what perf counts" "$theirs" "$ours"
	is "$name: pmctl -a and perf differ by the constant" "$constant" $((all - theirs))
}

plan 13

# The first comparison defines the constant.
constant=
compare "loop" "$here/pmctl_loop" 30000000
check "the constant is positive and below 10000" [ "$constant" -gt 0 -a "$constant" -lt 10000 ]
compare "longer loop" "$here/pmctl_loop" 90000000
compare "compression" /bin/gzip -c numbers
compare "sorting" /bin/sort -r numbers
compare "checksum" /bin/sha256sum numbers
compare "system calls" /bin/dd if=/dev/zero of=/dev/null bs=1 count=50000 \
	status=none

finish
