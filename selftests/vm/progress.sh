# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Progress of builds: sourced by cache.sh.

# The lines that the log of a build has in the end, until one on this machine has shown it.
declare -A LOG_LINES=([kernel]=2380 [kernel-debug]=2400 [kernel-stock]=225 [perf]=640 [tests]=160)
# The megabytes of entries without a useful log.
declare -A MEGABYTES=([root]=2200 [linux]=450 [debian]=40 [qemu-source]=40)

# What a line of a log says of the moment: "[N of ALL]|WHAT". They are lines of cargo,
# ninja, the kernel's make and mmdebstrap.
MOMENT='
	s/.*Building \[[=> ]*\] ([0-9]+)\/([0-9]+)(: ([^,( ]+).*)?/\1 of \2|\4/p
	s/^\[([0-9]+)\/([0-9]+)\] .*[ /]([^ /]+)$/\1 of \2|\3/p
	s/^  [A-Z]+( \[[A-Z]+\])? +(\/usr\/src\/linux\/)?([^ ]+)$/|\3/p
	s/^I: (.+)\.\.\.$/|\1/p'

# how_far KIND KEY NAME : how far the build of this entry is, and what it makes at the
# moment, with a tab between: "QEMU: 1204 of 1815	cpu.c.o", "Linux's perf, static: 34 %"
how_far() {
	local kind=${1%-[0-9]*} log=$CACHE/log/$1-$2 count what n all
	IFS='|' read -r count what < <(tail -c 4000 "$log" 2>/dev/null | tr '\r' '\n' | sed -nE "$MOMENT" | tail -n 1) || true
	if [ -n "$count" ]; then
		:
	elif all=${MEGABYTES[$kind]-} && [ -n "$all" ]; then
		n=$({ du -sm "$CACHE/.tmp-$1-$2" 2>/dev/null || echo 0; } | cut -f1)
		count=$(share "$n" "$all")
	elif read -r _ all < <(cat "$CACHE/took/$1" 2>/dev/null || echo 0 "${LOG_LINES[$kind]-0}") && [ "$all" -ge 20 ]; then
		count=$(share "$(wc -l <"$log")" "$all")
	fi
	printf '%s' "$3${count:+: $count}${what:+$'\t'$what}"
}

# share N ALL : N as a share of ALL, which is an estimate.
share() {
	if [ $(($1 * 100)) -lt $(($2 * 95)) ]; then
		echo "$(($1 * 100 / $2)) %"
	elif [ "$1" -le "$2" ]; then
		echo "last steps"
	else
		echo "longer than usual"
	fi
}

# runs PID : whether the process has not ended, be it waited for or not
runs() {
	local line
	{ read -r line <"/proc/$1/stat"; } 2>/dev/null && [[ ${line##*) } != [ZX]* ]]
}

# watch PARENT COMMAND... : until PARENT ends, says how far it is, which COMMAND
# prints as how_far() does: on a terminal in one line that is written anew each few
# seconds, else in a line every 30 seconds. With PERFMON_STATUS it goes into the file of
# this name, so that one process can show several builds.
watch() {
	local parent=$1 start=$SECONDS every=2 n=0 line width
	shift
	[ -n "${PERFMON_STATUS-}" ] || [ -t 2 ] || every=30
	# A sleep that is left over is a short one.
	while sleep 1 && runs "$parent"; do
		n=$((n + 1))
		[ $((n % every)) = 0 ] || continue
		# What it says of a watch that is ended meanwhile is of no use.
		line=$("$@" 2>/dev/null)
		# Nothing is being built at this moment.
		[ -n "$line" ] || continue
		if [ -n "${PERFMON_STATUS-}" ]; then
			echo "$line" >"$PERFMON_STATUS"
			continue
		fi
		line="    $(span $((SECONDS - start))), $line"
		if [ -t 2 ]; then
			width=$(stty size <&2 | cut -d' ' -f2)
			[ "$width" -gt 0 ] || width=80
			# Several builds in a line are too long with what each makes.
			# shellcheck disable=SC2001
			[[ $line != *";"* || ${#line} -lt $width ]] || line=$(sed 's/\t[^;]*//g' <<<"$line")
			line=${line//$'\t'/, }
			printf '\r\033[K%s' "${line:0:width-1}" >&2
		else
			say "${line//$'\t'/, }"
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
	cat "$1"/* 2>/dev/null | paste -sd';' | sed 's/;/; /g' || true
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
