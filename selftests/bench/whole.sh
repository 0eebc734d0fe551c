#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Measures the cost of recording a command, from the start of pmctl or perf to its end, including
# the kernel's work. Prints a tab-separated line for each command: its name, and
# the instructions, in thousands, without a recorder, under pmctl record, and under perf record. For
# one CPU under icount.

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
# The options of both recorders: see Documentation/performance.rst.
options="-e instructions -c 100003 -o $dir/data ${OPTIONS-}"

# Makes the same text each time.
awk 'BEGIN { for (i = 0; i < 20000; i++) { n = (n * 69069 + 1) % 4294967296; print n, "line", i } }' >text
mkdir tree
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	mkdir "tree/$i"
	for k in 1 2 3 4 5 6 7 8 9 10; do echo "$i $k" >"tree/$i/$k"; done
done
cat >programs <<'END'
i=0
while [ $i -lt 40 ]; do
	/bin/busybox true
	i=$((i + 1))
done
END
# Keeps perf from lowering its rate because PMIs take long.
echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent

# cost NAME COMMAND... : prints the line of a command
cost() {
	name=$1
	shift
	# The options are split into words.
	# shellcheck disable=SC2086
	printf '%s\t%s\t%s\t%s\n' "$name" "$(bench_elapsed "$@")" \
		"$(bench_elapsed pmctl record $options -- "$@")" "$(bench_elapsed perf record -q $options -- "$@")"
}

cost "a program that ends" /bin/busybox true
cost "ls -lR" /bin/busybox ls -lR tree /sys/bus /proc/sys
cost "gzip" /bin/busybox gzip -c text
cost "sort" /bin/busybox sort text
cost "tar" /bin/busybox tar cf - tree text
cost "40 programs" /bin/busybox sh programs
