#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Measures how fast pmctl and perf read and print a recording: the same file, with a line for each
# sample. Prints a tab-separated line for each command: name, instructions per sample, samples per
# second of CPU time, memory.

file=$(mktemp)
out=$(mktemp)
trap 'rm -f "$file" "$out"' EXIT

pmctl record -e instructions:u -c 1009 -m 4096 -o "$file" -- pmctl_loop 20000000 >"$out" 2>&1 ||
	{ cat "$out" >&2; exit 1; }
samples=$(perf script -i "$file" -F ip 2>/dev/null | grep -c .)

# cost NAME COMMAND... : prints the line of COMMAND, which runs once before to be in the cache
cost() {
	name=$1
	shift
	"$@" >/dev/null 2>&1
	perf stat -x, -e instructions:u,task-clock -o "$out" -- "$@" >/dev/null 2>&1
	memory=$(command time -v "$@" 2>&1 >/dev/null | awk '/Maximum resident/ { print $NF }')
	awk -F, -v name="$name" -v samples="$samples" -v memory="$memory" '
		$3 == "instructions:u" { insns = $1 }
		$3 == "task-clock" { ms = $1 }
		END { printf "%s\t%d\t%d\t%d\n", name, insns / samples, samples / ms * 1000, memory }' "$out"
}

cost "pmctl script" pmctl script -i "$file"
cost "perf script" perf script -i "$file"
cost "pmctl report" pmctl report -i "$file"
cost "perf report" perf report --stdio -i "$file"
