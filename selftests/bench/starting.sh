#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Measures the cost of counting a command that does nothing, from the start of pmctl or perf to its
# end, including the kernel's work. Prints a tab-separated line for each way to count: name, and the
# thousands of instructions of the command alone, with pmctl stat and with perf stat. For one CPU
# under icount.

# cost NAME OPTION... : prints the line of a way to count
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
