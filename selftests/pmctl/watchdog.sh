#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl says that the NMI watchdog holds a counter, and how to get this counter.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
# shellcheck source=SCRIPTDIR/../lib/count.sh
. "$here/count.sh"

watchdog=/proc/sys/kernel/nmi_watchdog
advice='sysctl (-w )?kernel\.nmi_watchdog=0'

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"
{ echo 1 >$watchdog; } 2>/dev/null || skip_all "this kernel has no NMI watchdog"

place_holder=$(pmctl info | grep -c place-holder)
plan $((place_holder ? 8 : 6))

doctor=$(pmctl doctor 2>&1)
check "doctor finds the watchdog" [ $? -ne 0 ]
says "doctor says how to stop it" "$doctor" "$advice"
stat=$(pmctl stat -e instructions:u -- true 2>&1)
is "stat fails while the watchdog has a counter" 125 $?
says "stat says how to stop it" "$stat" "$advice"

echo 0 >$watchdog
pmctl doctor >/dev/null 2>&1
is "doctor finds nothing wrong without the watchdog" 0 $?
n=$(pmctl_count instructions:u "$here/pmctl_loop" 1000000)
check "stat counts without the watchdog" [ "${n:-0}" -gt 2000000 ]

# With place-holders, a watchdog that is switched on while pmctl counts watches nothing.
if [ "$place_holder" -gt 0 ]; then
	pmctl stat -e instructions:u -- sh -c "echo 1 >$watchdog" >/dev/null 2>&1
	doctor=$(pmctl doctor 2>&1)
	says "doctor says that the watchdog watches nothing" "$doctor" "^note +NMI watchdog +on, but it holds no counter"
	says "doctor says how to restart the watchdog" "$doctor" 'sysctl kernel.nmi_watchdog=1'
	echo 0 >$watchdog
fi

rm -f "$counts"
finish
