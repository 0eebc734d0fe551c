#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl with events that need an extra register, on Skylake. On the virtual PMU, such an event
# counts instructions if the register's value is odd, and branches if it is even.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

n=10000000
loop=$here/pmctl_loop
odd=cpu/event=0xb7,umask=1,offcore_rsp=0x10001/u
even=cpu/event=0xb7,umask=1,offcore_rsp=0x10002/u
front=cpu/event=0xc6,umask=1,frontend=0x12/u

# count_of EVENT: prints the event's count in the output of stat -x ';'
count_of() {
	echo "$errors" | grep -F ";$1;" | cut -d ';' -f 1
}

# is_close NUMBER COUNT: succeeds if COUNT is at least NUMBER, and at most a twentieth more
# shellcheck disable=SC2317 # check calls it
is_close() {
	[ "$2" -ge "$1" ] && [ "$2" -lt $(($1 + $1 / 20)) ]
}

plan 17

try pmctl stat -x ';' -e "instructions:u,branches:u,$odd,$even,$front" -- "$loop" $n
is "stat counts the events of a command" 0 $?
is "an odd value counts instructions" "$(count_of instructions:u)" "$(count_of $odd)"
is "an even value of the other register counts branches" "$(count_of branches:u)" "$(count_of $even)"
is "the register of the front end has its own value" "$(count_of branches:u)" "$(count_of $front)"

try pmctl stat -a -x ';' -e "$odd,$even" -- "$loop" $n
is "stat -a counts the events of CPUs" 0 $?
check "an odd value counts instructions of all CPUs" is_close $((2 * n)) "$(count_of $odd)"
check "an even value counts branches of all CPUs" is_close $n "$(count_of $even)"

try pmctl record -e "$front" -c 100003 -o samples -- "$loop" $n
is "record samples an event of the front end" 0 $?
check "there is a sample for each period" is_close $((n / 100003 - 1)) "$(pmctl script -i samples | wc -l)"

try pmctl stat -e "cpu/event=0xc6,umask=1,frontend=0x8/" -- true
check "a bit that the register lacks is refused" [ $? != 0 ]
says "the message names the register" "$errors" "MSR_PEBS_FRONTEND does not have all bits of 0x8"

try pmctl stat -e "$front,cpu/event=0xc6,umask=1,frontend=0x11/u" -- "$loop" $n
check "two values of one register are refused" [ $? != 0 ]
try pmctl stat -x, --multiplex -e "$front,cpu/event=0xc6,umask=1,frontend=0x11/u" -- "$loop" $((50 * n))
is "two values of one register take turns" 0 $?

try pmctl wrap -- perf stat -x ';' -e "$odd,$even" -- "$loop" $n
is "perf counts the events by the driver" 0 $?
check "an odd value counts instructions for perf" is_close $((2 * n)) "$(count_of "$odd")"
check "an even value counts branches for perf" is_close $n "$(count_of "$even")"

says "regs shows the registers" "$(pmctl regs --cpu 0)" '0x1a6 +MSR_OFFCORE_RSP_0 '
finish
