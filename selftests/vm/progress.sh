# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Progress of builds: sourced by cache.sh.

# The lines that the log of a build has in the end, about.
declare -A LOG_LINES=([kernel]=2300 [kernel-debug]=2400 [kernel-stock]=225 [perf]=640 [user]=120 [samply]=10 [deny]=10 [tests]=90)
# The megabytes of entries without a useful log.
declare -A MEGABYTES=([root]=2200 [linux]=450 [debian]=40 [qemu-source]=40)

# how_far KIND NAME DIRECTORY LOG : "QEMU 1204 of 1815", "Linux's perf, static 34 %"
how_far() {
	local kind=$1 steps n all
	printf %s "$2"
	shift
	# kernel-stock-7.3 is as kernel-stock.
	kind=${kind%-[0-9]*}
	steps=$(tail -c 4000 "$3" | grep -oE '\[[0-9]+/[0-9]+\]' | tail -n 1 || true)
	if [ -n "$steps" ]; then
		steps=${steps//[\[\]]/}
		printf ' %s of %s' "${steps%/*}" "${steps#*/}"
		return
	elif [ -n "${LOG_LINES[$kind]-}" ]; then
		n=$(wc -l <"$3") all=${LOG_LINES[$kind]}
	elif [ -n "${MEGABYTES[$kind]-}" ]; then
		n=$({ du -sm "$2" 2>/dev/null || true; } | cut -f1) all=${MEGABYTES[$kind]}
	else
		return
	fi
	n=$((n * 100 / all))
	printf ' %d %%' $((n < 99 ? n : 99))
}

# watch PARENT COMMAND... : until PARENT ends, says how far it is, which COMMAND
# prints: on a terminal in one line that is written anew each few seconds, else
# in a line every 30 seconds. With PERFMON_STATUS it goes into the file of this
# name, so that one process can show several builds.
watch() {
	local parent=$1 start=$SECONDS every=2 n=0 line
	shift
	[ -n "${PERFMON_STATUS-}" ] || [ -t 2 ] || every=30
	# A sleep that is left over is a short one.
	while sleep 1 && kill -0 "$parent" 2>/dev/null; do
		n=$((n + 1))
		[ $((n % every)) = 0 ] || continue
		line=$("$@")
		# Nothing is being built at this moment.
		[ -n "$line" ] || continue
		if [ -n "${PERFMON_STATUS-}" ]; then
			echo "$line" >"$PERFMON_STATUS"
		elif [ -t 2 ]; then
			printf '\r\033[K    %s, %s' "$line" "$(span $((SECONDS - start)))" >&2
		else
			say "    $line, $(span $((SECONDS - start)))"
		fi
	done
}

# watched WATCH-ARGUMENT... -- COMMAND... : runs COMMAND, with watch() beside it
watched() {
	local words=() watcher code=0
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	watch $$ "${words[@]}" </dev/null >/dev/null 9>&- &
	watcher=$!
	"$@" || code=$?
	kill "$watcher" 2>/dev/null || true
	wait "$watcher" 2>/dev/null || true
	if [ -n "${PERFMON_STATUS-}" ]; then
		rm -f "$PERFMON_STATUS"
	elif [ -t 2 ]; then
		printf '\r\033[K' >&2
	fi
	return "$code"
}

# together ENTRY... : builds them side by side. Those of a word that are to be
# built one after the other have a comma between them.
together() {
	local status
	status=$(mktemp -d)
	# A background job gets no SIGINT from the terminal.
	trap 'trap "" TERM; kill -TERM 0; exit 130' INT
	local code=0
	watched all_status "$status" -- build_side_by_side "$status" "$@" || code=$?
	trap - INT
	rm -r "$status"
	return "$code"
}

all_status() {
	cat "$1"/* 2>/dev/null | paste -sd, | sed 's/,/, /g' || true
}

build_side_by_side() {
	local status=$1 words pids=() pid code=0
	shift
	for words; do
		# shellcheck disable=SC2086 # to be split
		PERFMON_STATUS=$status/$words "$VM/build" ${words//,/ } >/dev/null &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || code=1
	done
	return "$code"
}
