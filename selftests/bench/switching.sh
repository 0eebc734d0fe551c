#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Measures the time of a program that switches between two processes, in one cgroup or in two, while
# an event of each cgroup counts. Prints a tab-separated line for each case: name, and the
# microseconds of two switches without events, with pmctl stat and with perf stat: each number is
# the least of several runs; the runs of the three cases alternate. Runs on Debian's kernel, because
# in the project's kernel perf has no events of cgroups. Does not run under icount, because it
# measures the host's time.

cgroups=/tmp/cgroup
mkdir $cgroups && mount -t cgroup2 none $cgroups && cd $cgroups || exit 1
# perf finds a cgroup of version 2 only after some controller was enabled.
echo +pids >cgroup.subtree_control
for number in $(seq 0 499); do
	mkdir "b$number"
done
out=$(mktemp)

# least A B : prints the lesser number; B, if A is empty
least() { printf '%s\n' "$1" "$2" | sort -n | grep . | head -n 1; }

# run CGROUPS COMMAND... : prints the microseconds of an operation of the program in CGROUPS, which
# COMMAND counts. The module gives the counters back a second after the last event.
run() {
	pair=$1
	shift
	sleep 2
	"$@" perf bench sched pipe -l "${ROUNDS:-5000}" -G "$pair" 2>"$out" |
		awk '/usecs\/op/ { print $1; found = 1 } END { exit !found }' || cat "$out" >&2
}

# cost NAME CGROUPS OBSERVED : prints the line NAME, of a program in the cgroups CGROUPS, with events of
# the first OBSERVED cgroups (a number)
cost() {
	list=$(seq 0 $(($3 - 1)) | sed 's/^/b/' | tr '\n' ,)
	list=${list%,}
	alone='' ours='' perfs=''
	for _ in 1 2 3 4 5; do
		alone=$(least "$alone" "$(run "$2" env)")
		ours=$(least "$ours" "$(run "$2" pmctl stat -a -o /dev/null -e instructions -G "$list" --)")
		perfs=$(least "$perfs" "$(run "$2" perf stat -a -o /dev/null -e instructions --for-each-cgroup "$list" --)")
	done
	printf '%s\t%s\t%s\t%s\n' "$1" "$alone" "${ours:-failed}" "${perfs:-failed}"
}

cost "within a cgroup, of 500" b0,b0 500
cost "between two of 10" b0,b1 10
cost "between two of 500" b0,b1 500
