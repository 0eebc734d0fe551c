# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Counts by pmctl and perf, for test scripts.
#
# pmctl and perf print to a file: a reader at the other end of a pipe would execute instructions
# while pmctl counts those of the whole machine.

counts=$(mktemp)

# pmctl_count EVENT COMMAND...: prints pmctl's count, in digits only
pmctl_count() {
	count_event=$1
	shift
	pmctl stat -e "$count_event" -- "$@" >/dev/null 2>"$counts"
	awk -v event="$count_event" '
		$2 == event && $1 ~ /^[0-9]/ { gsub(/[^0-9]/, "", $1); print $1 }
	' "$counts"
}

# perf_count EVENT COMMAND...: prints perf's count of the command's tasks
perf_count() {
	count_event=$1
	shift
	perf stat -x, -e "$count_event" -o "$counts" -- "$@" >/dev/null 2>&1
	awk -F, '!/^#/ && $1 ~ /^[0-9]+$/ { print $1 }' "$counts"
}
