#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs perf's own tests, `perf test`, without and under pmctl wrap: each case has the same result
# both times, except for the cases listed here.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
in_own_dir

# Each line is a case that may differ: its name, its result without and under pmctl wrap, and the
# reason. Where both results are `*`, they change from run to run.
differences='Perf time to TSC|Ok|Skip|the driver can not read the factors of the clock, so its page has none
Breakpoint overflow sampling|*|*|it expects a number of samples in a time, which the emulation is too slow for
Software clock events period values|*|*|it asks for 500 samples a second, and the kernel allows fewer where interrupts are slow'

# The test leaves out the tables of events and metrics: these are a hundred cases that open no
# event, and take minutes.
skipped=$(perf test list 2>&1 | sed -n 's/^ *\([0-9]*\): PMU JSON event tests.*/\1/p')

# results NUMBERS COMMAND... : prints a line for each case of `perf test`, or of the tests with these
# NUMBERS: the number and name of the case, and its result. COMMAND is what starts perf.
results() {
	numbers=$1
	shift
	# A slow interrupt, as in an emulated machine, lowers the limit, so the next run would find
	# a lower limit.
	echo 100000 >/proc/sys/kernel/perf_event_max_sample_rate
	# shellcheck disable=SC2086 # each number is a word
	"$@" perf test -S -s "$skipped" $numbers 2>&1 | tee -a output |
		sed -nE 's/^ *([0-9.]+): (.*[^ ]) *: (Ok|Skip|FAILED!).*$/\1 \2|\3/p' | sort
}

# differing : prints the cases of the files `without` and `under` whose results differ, except for
# the listed ones
differing() {
	awk -F'|' -v listed="$differences" '
		BEGIN {
			n = split(listed, lines, "\n")
			for (i = 1; i <= n; i++) { split(lines[i], of, "|"); known[of[1]] }
		}
		FILENAME == "without" { without[$1] = $2; next }
		{ name = $1; sub(/^[0-9.]+ /, "", name) }
		$2 != without[$1] && !(name in known) { print $1 ": " without[$1] " without, " $2 " under pmctl wrap" }' without under
}

# result_of CASE FILE: prints the result of a case, which is given without its number
result_of() {
	sed -nE "s/^[0-9.]+ $1\\|(.*)/\\1/p" "$2"
}

plan $((4 + $(echo "$differences" | grep -c .)))

results '' >without
results '' pmctl wrap -- >under
cases=$(wc -l <without)
check "perf test has cases: $cases" [ "$cases" -ge 90 ]
check "most succeed" [ "$(grep -c '|Ok$' without)" -ge 70 ]
is "both runs have the same cases" "$(cut -d'|' -f1 without)" "$(cut -d'|' -f1 under)"

# Some of perf's tests depend on time, and fail now and then with and without pmctl. A case that
# differs is tried three times more. It counts as differing only if its results differ each time.
mkdir again
tries=0
others=$(differing)
while [ -n "$others" ] && [ $tries -lt 3 ]; do
	echo "$others" | sed 's/^/# once more: /'
	numbers=$(echo "$others" | sed 's/[^0-9].*//' | sort -u | tr '\n' ' ')
	results "$numbers" >again/without
	results "$numbers" pmctl wrap -- >again/under
	others=$(cd again && differing | grep -F "$(echo "$others" | sed 's/: .*/:/')")
	tries=$((tries + 1))
done
is "no other case has another result" "" "$others"

while IFS='|' read -r name without under reason; do
	if [ "$without" = '*' ]; then
		check "$name: $reason" grep -q "^[0-9.]* $name|" under
	else
		is "$name: $reason" "$without, then $under" \
			"$(result_of "$name" without), then $(result_of "$name" under)"
	fi
done <<END
$differences
END
[ "$ktap_failed" = 0 ] || sed 's/^/# /' output
finish
