# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Progress of builds. cache.sh sources this file.

# The expected number of lines in the log of a build of which there was none on this machine yet.
declare -A LOG_LINES=([kernel]=2380 [kernel-debug]=2400 [kernel-patched]=2380 [kernel-stock]=340 [perf]=640 [tests]=160)
# The expected size in megabytes of entries whose log shows no progress.
declare -A MEGABYTES=([root]=2200 [linux]=450 [debian]=40 [qemu-source]=40)

# Turns a line of a log into "[N of ALL]|WHAT". Matches lines of cargo, ninja, the kernel's
# make and mmdebstrap.
LOG_PATTERNS='
	s/.*Building \[[=> ]*\] ([0-9]+)\/([0-9]+)(: ([^,( ]+).*)?/\1 of \2|\4/p
	s/^\[([0-9]+)\/([0-9]+)\] .*[ /]([^ /]+)$/\1 of \2|\3/p
	s/^  [A-Z]+( \[[A-Z]+\])? +(\/usr\/src\/linux\/)?([^ ]+)$/|\3/p
	s/^I: (.+)\.\.\.$/|\1/p'

# build_progress KIND KEY NAME : prints the progress of an entry's build, a tab, and the name of the
# part that is being built: "QEMU: 1204 of 1815	cpu.c.o", "Linux's perf, static: 34 %"
build_progress() {
	local kind=${1%-[0-9]*} log=$CACHE/log/$1-$2 count what n all
	IFS='|' read -r count what < <(tail -c 4000 "$log" 2>/dev/null | tr '\r' '\n' | sed -nE "$LOG_PATTERNS" | tail -n 1) || true
	if [ -n "$count" ]; then
		:
	elif all=${MEGABYTES[$kind]-} && [ -n "$all" ]; then
		n=$({ du -sm "$CACHE/.tmp-$1-$2" 2>/dev/null || echo 0; } | cut -f1)
		count=$(percentage "$n" "$all")
	elif read -r _ all < <(cat "$CACHE/took/$1" 2>/dev/null || echo 0 "${LOG_LINES[$kind]-0}") && [ "$all" -ge 20 ]; then
		count=$(percentage "$(wc -l <"$log")" "$all")
	fi
	printf '%s' "$3${count:+: $count}${what:+$'\t'$what}"
}

# percentage N ALL : prints N as a percentage of ALL, which is an estimate.
percentage() {
	if [ $(($1 * 100)) -lt $(($2 * 95)) ]; then
		echo "$(($1 * 100 / $2)) %"
	elif [ "$1" -le "$2" ]; then
		echo "last steps"
	else
		echo "longer than usual"
	fi
}

# is_running PID : succeeds if the process exists and is no zombie
is_running() {
	local line
	{ read -r line <"/proc/$1/stat"; } 2>/dev/null && [[ ${line##*) } != [ZX]* ]]
}

# show_progress PARENT COMMAND... : until PARENT ends, shows the progress that COMMAND prints in
# the format of build_progress(): on a terminal in one line that is rewritten every few seconds,
# else in a line every 30 seconds. With PERFMON_STATUS, writes it into that file instead, so that one
# process can show several builds.
show_progress() {
	local parent=$1 start=$SECONDS every=2 n=0 line width
	shift
	[ -n "${PERFMON_STATUS-}" ] || [ -t 2 ] || every=30
	# Short sleeps, since one may outlive this process.
	while sleep 1 && is_running "$parent"; do
		n=$((n + 1))
		[ $((n % every)) = 0 ] || continue
		# Errors come from builds that end meanwhile.
		line=$("$@" 2>/dev/null)
		# Nothing is being built at this moment.
		[ -n "$line" ] || continue
		if [ -n "${PERFMON_STATUS-}" ]; then
			echo "$line" >"$PERFMON_STATUS"
			continue
		fi
		line="    $(time_in_words $((SECONDS - start))), $line"
		if [ -t 2 ]; then
			width=$(stty size <&2 | cut -d' ' -f2)
			[ "$width" -gt 0 ] || width=80
			# Leaves out the parts that are being built if the progress of several
			# builds would not fit in the line.
			# shellcheck disable=SC2001
			[[ $line != *";"* || ${#line} -lt $width ]] || line=$(sed 's/\t[^;]*//g' <<<"$line")
			line=${line//$'\t'/, }
			printf '\r\033[K%s' "${line:0:width-1}" >&2
		else
			say "${line//$'\t'/, }"
		fi
	done
}

# run_with_progress PROGRESS-ARGUMENT... -- COMMAND... : runs COMMAND, while show_progress()
# shows the progress
run_with_progress() {
	local words=() watcher code=0
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	show_progress $$ "${words[@]}" </dev/null >/dev/null 9>&- &
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

# build_together ENTRY... : builds entries at the same time. Entries that are joined by commas are
# built one after the other.
build_together() {
	local status
	status=$(mktemp -d)
	# A background job ignores the terminal's SIGINT, so it gets SIGTERM.
	trap 'trap "" TERM; kill -TERM 0; exit 130' INT
	local code=0
	run_with_progress print_all_status "$status" -- build_side_by_side "$status" "$@" || code=$?
	trap - INT
	rm -r "$status"
	return "$code"
}

print_all_status() {
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
