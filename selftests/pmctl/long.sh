#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl record of all CPUs at 4 kHz, while programs run: no sample is lost, and memory does
# not grow. LENGTH in the environment is the number of seconds, PAGES the size of a ring.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

seconds=${LENGTH:-40}
frequency=4000
# A ring has room for the samples of nine seconds, because a busy host may hold pmctl up for so
# long. The whole recording has four times as many samples.
pages=${PAGES:-512}
dir=$(mktemp -d)
loads=
trap 'kill $loads 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# These programs run, call the kernel, sleep, and begin and end.
cpus=$(nproc)
for _ in $(seq "$cpus"); do
	"$here/pmctl_loop" 1000000000000 &
	loads="$loads $!"
done
dd if=/dev/zero of=/dev/null bs=4k 2>/dev/null &
loads="$loads $!"
while sleep 0.2; do "$here/pmctl_loop" 100000; done &
loads="$loads $!"

# memory PID: prints the resident memory of the process, in KiB; nothing if it has ended
# shellcheck disable=SC2317 # is_measured calls it
memory() {
	awk '/^VmRSS/ { print $2 }' "/proc/$1/status" 2>/dev/null
}

# is_measured: makes the recording, and reads pmctl's memory twice; fails if pmctl has ended by the
# second time, as may happen on a busy host
# shellcheck disable=SC2317 # comes_true calls it
is_measured() {
	rm -f long.data
	pmctl record -a -F "$frequency" -m "$pages" -o long.data --duration "$seconds" 2>record.log &
	record=$!
	wait_until '[ -s long.data ]'
	# By then pmctl has allocated what a recording needs from the beginning.
	sleep $((seconds / 4))
	early_kib=$(memory "$record")
	sleep $((seconds / 2))
	later_kib=$(memory "$record")
	wait "$record"
	code=$?
	[ "$code" != 0 ] || [ "$later_kib" ]
}

plan 6
comes_true is_measured
sed 's/^/# /' record.log
is "record succeeds" 0 "$code"
says "record has no losses" "$(grep -c LOST record.log)" '^0$'
samples=$(pmctl script -i long.data -F ip 2>/dev/null | wc -l)
lost=$(perf script -i long.data --show-lost-events 2>/dev/null | grep -c PERF_RECORD_LOST)
is "perf finds no losses either" 0 "$lost"
wanted=$((seconds * frequency * cpus))
echo "# $samples samples of $wanted in $seconds s on $cpus CPUs; memory: $early_kib KiB, later $later_kib KiB"
# An emulated CPU of a busy host takes fewer samples in the same time.
check "there are samples" [ "$samples" -ge $((wanted / 20)) ]
check "there are no more samples than the frequency gives" [ "$samples" -le $((wanted * 12 / 10)) ]
# A page of a ring is counted as pmctl's memory once it has been used.
check "memory does not grow" [ "$later_kib" -le $((early_kib + 1024 + cpus * pages * 4)) ]
finish
