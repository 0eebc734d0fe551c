#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl record is killed at random moments: pmctl and perf can read the recording up to a time
# shortly before the kill. ROUNDS and SEED in the environment are the number of kills, and the seed
# of their times.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

rounds=${ROUNDS:-6}
# Two rounds of pmctl may be missing. A round takes at most a tenth of a second, and more on a busy host: so the
# time of two rounds before the kill is added to this limit. Where pmctl's CPU stands still, more is missing, but
# not in each recording.
limit_ms=${LIMIT_MS:-1500}
dir=$(mktemp -d)
load_pids=
trap 'kill $load_pids 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir" || exit 1

"$here/pmctl_loop" 1000000000000 &
load_pids="$!"
while sleep 0.1; do "$here/pmctl_loop" 100000; done &
load_pids="$load_pids $!"

# now: prints the time of the kernel's log, whose clock is that of samples, in microseconds
now() {
	echo "pmctl_killed: now" >/dev/kmsg
	dmesg | awk '/pmctl_killed: now/ { sub(/^.*\[ */, ""); sub(/\].*/, ""); t = $0 } END { sub(/\./, "", t); print t }'
}

# uptime_ms: prints the milliseconds since the machine started, rounded down to 10
uptime_ms() {
	awk '{ printf "%d", $1 * 1000 }' /proc/uptime
}

# has_sample: succeeds if a sample has been written
# shellcheck disable=SC2317 # wait_until calls it
has_sample() {
	[ "$(pmctl script -i killed.data -F time 2>/dev/null | wc -l)" -gt 0 ]
}

# last_sample_time FILE: prints the time of the last sample in a listing of times and call
# chains, in microseconds
last_sample_time() {
	awk 'NF == 1 && /^ *[0-9]+\.[0-9]+:/ { t = $1 } END { sub(/:.*/, "", t); sub(/\./, "", t); print t + 0 }' "$1"
}

plan 6
unread=0 perfs=0 differ=0 late=0 latest=0 empty=0 parts=0 fastest=
for round in $(seq "$rounds"); do
	rm -f killed.data
	pause=$(awk -v seed="$((${SEED:-1} * 1000 + round))" 'BEGIN { srand(seed); printf "%.3f", 3 * rand() * rand() }')
	pmctl record -a -g -F 4000 -o killed.data 2>/dev/null &
	record=$!
	# Most recordings are killed while they record, some while they start.
	limit=$limit_ms
	if [ $((round % 5)) != 0 ]; then
		wait_until has_sample
		begin=$(uptime_ms)
		for _ in 1 2; do
			size=$(stat -c %s killed.data)
			wait_until "[ \$(stat -c %s killed.data) -gt $size ]"
		done
		took=$(($(uptime_ms) - begin))
		if [ -z "$fastest" ] || [ $took -lt "$fastest" ]; then
			fastest=$took
		fi
		limit=$((limit_ms + took))
	fi
	sleep "$pause"
	killed=$(now)
	kill -9 $record
	wait $record 2>/dev/null
	pmctl script -i killed.data -F time >ours 2>ours.log
	code=$?
	samples=$(grep -cE '^ *[0-9]+\.[0-9]+: *$' ours)
	if [ "$samples" = 0 ]; then
		# No sample has been written yet: pmctl says so, or what the file lacks.
		empty=$((empty + 1))
		grep -qiE 'not finished|no such file|not a perf.data file' ours.log ||
			{ unread=$((unread + 1)); sed "s/^/# $round, after $pause s: /" ours.log; }
		continue
	fi
	[ $code = 0 ] || { unread=$((unread + 1)); sed "s/^/# $round, after $pause s: /" ours.log; }
	perf script -i killed.data -F time -G >theirs 2>theirs.log
	perf_code=$?
	grep -qi 'truncated\|failed to process\|incompat' theirs.log && parts=$((parts + 1))
	theirs=$(awk 'NF' theirs | wc -l)
	if [ $perf_code != 0 ] || [ "$theirs" = 0 ]; then
		perfs=$((perfs + 1))
		sed "s/^/# $round, after $pause s: perf: /" theirs.log
	elif [ "$theirs" != "$samples" ]; then
		differ=$((differ + 1))
		echo "# $round: $samples samples for pmctl, $theirs for perf"
	fi
	missing=$(((killed - $(last_sample_time ours)) / 1000))
	[ "$missing" -le "$latest" ] || latest=$missing
	[ "$missing" -le "$limit" ] || { late=$((late + 1)); echo "# $round: the last $missing ms are missing"; }
done
echo "# $rounds kills, $empty before the first sample was written, $parts with a part of a record; at most $latest ms missing"
is "pmctl reads each recording" 0 $unread
is "perf reads each recording" 0 $perfs
is "pmctl and perf find the same samples" 0 $differ
check "most recordings end shortly before the kill" [ $late -le $((rounds / 3)) ]
# A busy host makes rounds long in some recordings, but a fault of pmctl in all of them.
check "two rounds are short in one recording" [ "$fastest" -le "$limit_ms" ]
check "most recordings have samples" [ $empty -le $((rounds / 2)) ]
finish
