# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# KTAP for test scripts that run in the guest. A script sources this, calls
# plan once, and then check, is or skip once for each test case.

ktap_count=0
ktap_failed=0
at_end=

# plan N: there will be N test cases
plan() {
	echo "TAP version 13"
	echo "1..$1"
}

# skip_all REASON: there will be none
skip_all() {
	echo "TAP version 13"
	echo "1..0 # SKIP $*"
	exit 4
}

# in_own_dir: goes to an empty folder, if there is a device. At the end the folder is
# removed, and what $at_end has is executed.
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

# check NAME COMMAND...: passes if COMMAND does
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

# says NAME TEXT REGEX: passes if a line of TEXT matches REGEX
says() {
	if echo "$2" | grep -qiE "$3"; then
		result 0 "$1"
	else
		echo "# $1: no line matches '$3':"
		echo "$2" | sed 's/^/#   /'
		result 1 "$1"
	fi
}

# load_module: loads the module as the machine did, with no limit of what samples take
load_module() {
	insmod /lib/modules/perfmon.ko perf_event_max_sample_rate=0 perf_cpu_time_max_percent=0
}

# finish: the script's exit code
finish() {
	[ "$ktap_failed" = 0 ]
	exit
}
