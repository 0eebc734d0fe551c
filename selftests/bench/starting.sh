#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# What it costs to count a command that does nothing, from the start of pmctl or perf to
# its end, with all that the kernel does for it. Prints a tab-separated line for each way
# to count: its name, the instructions of the command alone in thousands, those with pmctl
# stat, those with perf stat. To be run on one CPU under icount.

# cost NAME OPTION...
cost() {
	name=$1
	shift
	printf '%s\t%s\t%s\t%s\n' "$name" "$(bench_elapsed /bin/busybox true)" \
		"$(bench_elapsed pmctl stat "$@" -- /bin/busybox true)" \
		"$(bench_elapsed perf stat "$@" -- /bin/busybox true)"
}

cost "stat"
cost "stat, 1 event" -e instructions
cost "stat, 3 events" -e instructions,cycles,branches
cost "stat, JSON" -j -e instructions,cycles
