# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# KTAP for test scripts that run in the guest. A script sources this, calls
# plan once, and then check, is or skip once for each test case.

ktap_count=0
ktap_planned=
ktap_failed=0
at_end=

# plan N: announces N test cases
plan() {
	ktap_planned=$1
	echo "TAP version 13"
	echo "1..$1"
}

# skip_all REASON: reports that no case can run, and ends the script
skip_all() {
	echo "TAP version 13"
	echo "1..0 # SKIP $*"
	exit 4
}

# in_own_dir: goes to an empty folder; skips all if there is no device. At the end, removes
# the folder and evaluates $at_end.
in_own_dir() {
	[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"; eval "$at_end"' EXIT
	cd "$dir" || exit 1
}

# result STATUS NAME: reports one test case, which passed if STATUS is 0
result() {
	ktap_count=$((ktap_count + 1))
	if [ "$1" = 0 ]; then
		echo "ok $ktap_count $2"
	else
		ktap_failed=$((ktap_failed + 1))
		echo "not ok $ktap_count $2"
	fi
}

# skip NAME REASON: reports one test case that can't be tried here
skip() {
	ktap_count=$((ktap_count + 1))
	echo "ok $ktap_count $1 # SKIP $2"
}

# is NAME EXPECTED GOT: passes if the two are the same
is() {
	if [ "$2" = "$3" ]; then
		result 0 "$1"
	else
		echo "# $1: expected '$2', got '$3'"
		result 1 "$1"
	fi
}

# try COMMAND... : runs COMMAND and returns its exit code; its standard error is in $errors. Don't
# use try in a pipe or a substitution, where $errors is set only in a subshell.
try() {
	# shellcheck disable=SC2034 # for the scripts that source this
	{ errors=$("$@" 2>&1 >&3 3>&-); } 3>&1
}

# check NAME COMMAND...: passes if COMMAND succeeds
check() {
	ktap_name=$1
	shift
	if "$@"; then
		result 0 "$ktap_name"
	else
		echo "# $ktap_name: failed: $*"
		result 1 "$ktap_name"
	fi
}

# says NAME TEXT REGEX: passes if a line of TEXT matches REGEX. The function uses no pipe: grep ends
# at the first match, so echo would be killed by SIGPIPE, which counts as a failure under pipefail.
says() {
	if grep -qiE -- "$3" <<-END; then
		$2
	END
		result 0 "$1"
	else
		echo "# $1: no line matches '$3':"
		echo "$2" | sed 's/^/#   /'
		result 1 "$1"
	fi
}

# comes_true COMMAND: waits until COMMAND, one word that is evaluated, succeeds. Fails after LIMIT
# seconds (60) and ten attempts. The limit is long because the host may be busy; a single attempt
# may take most of that time.
comes_true() {
	read -r ktap_now _ </proc/uptime
	# COMMAND may itself call comes_true. So the end and the number of attempts are in $2 and
	# $3, which each call has for itself.
	set -- "$1" $((${ktap_now%.*} + ${LIMIT:-60})) 1
	until eval "$1"; do
		read -r ktap_now _ </proc/uptime
		[ "${ktap_now%.*}" -lt "$2" ] || [ "$3" -lt 10 ] || return 1
		set -- "$1" "$2" $(($3 + 1))
		sleep 0.05
	done
}

# wait_until COMMAND: waits as comes_true does. After LIMIT seconds, reports a failed test case and
# ends the script, since later cases depend on the condition. Prints to standard error, because
# standard output may be a pipe or a substitution.
wait_until() {
	if ! comes_true "$1"; then
		echo "not ok $((ktap_count + 1)) wait for: $1 # still false after ${LIMIT:-60} s" >&2
		exit 1
	fi
}

# has_lines N FILE [REGEX]: succeeds if the file exists, and N or more lines match
has_lines() {
	[ -e "$2" ] && [ "$(grep -cE "${3-}" "$2")" -ge "$1" ]
}

# has_ended PID: succeeds if a child no longer exists, or is a zombie
has_ended() {
	! grep -qs '^State:.[^ZX]' "/proc/$1/status"
}

# has_open PID PATTERN: succeeds if the process has a file open whose name matches
has_open() {
	for ktap_file in "/proc/$1/fd/"*; do
		# shellcheck disable=SC2254 # it is a pattern
		case $(readlink "$ktap_file") in $2) return 0 ;; esac
	done
	return 1
}

# has_events PID: succeeds if the process has events of the module other than dummies, and all of
# these events are enabled
has_events() {
	awk '/^counter:/ { counter = $2 } /^enabled:/ && counter >= 0 { events++; enabled += $2 }
		END { exit !(events && enabled == events) }' "/proc/$1/fdinfo/"* 2>/dev/null
}

# without_reader COMMAND... : executes COMMAND, whose standard output is a pipe without a reader, and
# returns its exit code. In `COMMAND | true`, a short COMMAND might end before `true`.
without_reader() {
	ktap_pipe=$(mktemp -u)
	mkfifo "$ktap_pipe"
	# Opening a pipe for writing waits for a reader. Descriptor 8 is the reader until the pipe
	# is open, and is then closed.
	# shellcheck disable=SC2094 # no file, but a pipe
	"$@" 8<>"$ktap_pipe" >"$ktap_pipe" 8<&-
	ktap_status=$?
	rm -f "$ktap_pipe"
	return $ktap_status
}

# interrupt_when CONDITION COMMAND...: executes COMMAND, and sends SIGINT to it when CONDITION comes
# true. In CONDITION, $pid is the PID of COMMAND. Returns the exit code of COMMAND; 124 if CONDITION
# does not come true. COMMAND is in the foreground, because background jobs of a shell ignore
# SIGINT.
interrupt_when() {
	ktap_condition=$1
	ktap_pid=$(mktemp)
	shift
	(
		comes_true "[ -s $ktap_pid ]"
		pid=$(cat "$ktap_pid")
		trap 'kill -INT "$pid"' EXIT
		wait_until "$ktap_condition"
	) &
	# shellcheck disable=SC2016 # the inner shell expands it
	sh -c 'echo $$ >"$0"; exec "$@"' "$ktap_pid" "$@"
	ktap_status=$?
	wait $! || ktap_status=124
	rm -f "$ktap_pid"
	return $ktap_status
}

# load_module: loads the module as the machine's init did: without limits of the sample
# rate, and with the parameters on the kernel's command line
load_module() {
	# shellcheck disable=SC2046 # words
	insmod /lib/modules/perfmon.ko perf_event_max_sample_rate=0 perf_cpu_time_max_percent=0 \
		$(tr ' ' '\n' </proc/cmdline | sed -n 's/^perfmon\.//p')
}

# lift_perf_limits: lifts perf's limits of the sample rate. An emulated CPU may take long for a
# sample, and then perf would lower the limit for all later samples.
lift_perf_limits() {
	# perf refuses to change the rate while there is no limit on the time.
	echo 25 >/proc/sys/kernel/perf_cpu_time_max_percent
	echo 100000000 >/proc/sys/kernel/perf_event_max_sample_rate
	echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
}

# finish: ends the script with its exit code. Fails also if there were more or fewer cases than
# planned.
finish() {
	if [ "$ktap_count" != "${ktap_planned:-$ktap_count}" ]; then
		echo "# $ktap_count cases instead of $ktap_planned"
		exit 1
	fi
	[ "$ktap_failed" = 0 ]
	exit
}
