#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests options of pmctl record that users of perf record type.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

event=instructions:u
loop=$here/pmctl_loop

# record OPTION... : records with the rest of the command line, and returns pmctl's exit code;
# the output is in $output. If samples were lost, the log shows those around the loss
record() {
	rm -f perf.data
	output=$(pmctl record "$@" 2>&1) || {
		code=$?
		perf script --show-lost-events -F comm,tid,cpu,time,ip 2>/dev/null | grep -B 9 -A 9 LOST | sed 's/^/# /'
		return $code
	}
}

# sample_count: prints the number of samples
sample_count() {
	pmctl script 2>/dev/null | wc -l
}

# kernel_sample_count: prints the number of samples in the kernel, by their addresses
kernel_sample_count() {
	pmctl script -F ip | grep -c '^ *ffff'
}

plan 35

record -i -e instructions -c 10007 -- sh -c "$loop 10000000; true"
is "record -i succeeds" 0 $?
check "record -i has samples of the command" [ "$(pmctl script -F comm | grep -c '^ *sh')" -ge 1 ]
is "record -i has no sample of the command's children" 0 "$(pmctl script -F comm | grep -c pmctl_loop)"

# The command executes a loop before the delay is over, and another loop when the events have begun.
cat >delayed <<-'END'
	. "$1/ktap.sh"
	"$1/pmctl_loop" 100000000
	has_events $PPID || : >before
	wait_until "has_events $PPID"
	"$1/pmctl_loop" 30000000
END
# records_delayed: records the command; succeeds if its first loop ended before the delay was over,
# which on a busy host takes several attempts
# shellcheck disable=SC2317 # comes_true calls it
records_delayed() {
	rm -f before
	record -D 1000 -m 512 -e "$event" -c 100003 -- sh delayed "$here"
	status=$?
	[ "$status" != 0 ] || [ -e before ]
}
comes_true records_delayed
is "record -D succeeds" 0 "$status"
# The first loop has 1999 samples, the second one 599. Each CPU may have a part of a period.
delayed_samples=$(sample_count)
check "record -D has samples" [ "$delayed_samples" -gt $((599 - $(nproc))) ]
check "record -D has no samples of the beginning" [ "$delayed_samples" -lt 1999 ]
record -D 60000 -e $event -c 10007 -- "$loop" 1000
is "record -D after the end succeeds" 0 $?
is "record -D after the end has no sample" 0 "$(sample_count)"
says "record -D after the end says why" "$output" "ended before the delay of 60000 ms"

record --all-user -m 512 -e instructions -c 10007 -- ls -lR /sys/bus
is "record --all-user succeeds" 0 $?
is "record --all-user has no sample in the kernel" 0 "$(kernel_sample_count)"
says "record --all-user names the event with :u" "$(pmctl report)" "event 'instructions:u'"
record --all-kernel -m 512 -e instructions -c 30011 -- ls -lR /sys/bus
is "record --all-kernel succeeds" 0 $?
# An interrupt may come late, when the program has gone on.
check "record --all-kernel has hardly any sample in user mode" [ "$(kernel_sample_count)" -ge $(($(sample_count) * 98 / 100)) ]
is "perf shows the same addresses" "$(kernel_sample_count)" "$(perf script -F ip 2>/dev/null | grep -c '^ *ffff')"

record -g --user-callchains -m 512 -e instructions -c 30011 -- ls -lR /sys/bus
is "record --user-callchains succeeds" 0 $?
# A sample without a chain is shown as a chain of its own address.
is "call chains have no function of the kernel" 0 \
	"$(pmctl script -F ip | awk 'NF > 1 && frames++ { print $1 } NF <= 1 { frames = 0 }' |
		grep -c '^ffff')"
record -g --kernel-callchains -m 512 -e instructions -c 30011 -- ls -lR /sys/bus
is "record --kernel-callchains succeeds" 0 $?
check "call chains have functions of the kernel" \
	[ "$(pmctl script -F ip | awk 'NF > 1 { print $1 }' | grep -c '^ffff')" -ge 100 ]
is "call chains have no function of programs" 0 \
	"$(pmctl script -F ip | awk 'NF > 1 && frames++ { print $1 } NF <= 1 { frames = 0 }' |
		grep -vc '^ffff')"

# Records only branches of some kinds. Each iteration of the loop ends with a branch that is no
# call.
if pmctl info | grep -q 'no last branches'; then
	record -j any,u -- "$loop" 1000
	is "record -j is refused without last branches" 2 $?
	says "record -j says why" "$output" "does not record branches"
	says "record -j says to leave -b out" "$output" "Leave -b out"
else
	record -j any_call,any_ret,u -m 512 -e branches:u -c 100003 -- \
		"$here/pmctl_shares" 5000000
	is "record -j succeeds" 0 $?
	says "record -j has calls" "$(pmctl report --branches)" "main.*share_60"
	is "perf shows as many branches" \
		"$(pmctl script -F brstack | tr ' ' '\n' | grep -c '0x')" \
		"$(perf script -F brstack 2>/dev/null | tr ' ' '\n' | grep -c '0x')"
fi

# The whole recording would be 671 KB, for which a ring has room.
record --max-size=64K -m 256 -e $event -c 10007 -- "$loop" 60000000
is "record --max-size succeeds" 0 $?
says "record --max-size says that the recording ends" "$output" "max-size: the recording ends here"
size=$(stat -c %s perf.data)
is "the file of record --max-size has that size, and its end" 1 $((size >= 65536 && size <= 110000))

record -q -N -B -T -e $event -- "$loop" 60000000
is "record -q prints nothing" "" "$output"

# pmctl waits for the command. The command waits until no CPU has events any more: then the
# recording has ended.
record -a --duration 0.2 -e $event -c 1000003 -- \
	sh -c ". $here/ktap.sh; wait_until '! has_events \$PPID'"
is "record --duration succeeds" 0 $?
says "record --duration says how long it was" "$output" 'in [0-9]+\.[0-9]+ s on'

# The module has no limit of the sampling rate, until it is loaded with a limit for users.
record -F max -e $event -- "$loop" 1000
is "record -F max is refused without a limit" 2 $?
says "record -F max says that there is no limit" "$output" "the module has no limit"
rmmod perfmon
insmod /lib/modules/perfmon.ko perf_event_max_sample_rate=3210
record -F 3211 -e $event -- "$loop" 1000
is "record -F above the limit is refused" 2 $?
says "record -F above the limit names the limit" "$output" "F 3211: the module takes at most 3210 samples a second"
record -F max -e $event -- "$loop" 1000000
says "record -F max takes the limit" "$(perf evlist -F 2>/dev/null)" "sample_freq=3210"
record -c 2003 -e $event -- "$loop" 2000000
says "samples above the limit are called throttled" "$output" 'LOST: CPU [0-9]+ \(throttled\)'
rmmod perfmon
load_module

finish
