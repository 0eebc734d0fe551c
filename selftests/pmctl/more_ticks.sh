#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# more_ticks PID N: waits until the process has run for N more hundredths of a second in user mode.
# The name of its program has no blanks. The time in which the CPU of an emulated machine stands still
# is included: a test that needs instructions calls pmctl_more_turns instead.

# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$(dirname "$0")/ktap.sh"

# user_ticks PID: prints how long the process has run in user mode, in hundredths of a second
user_ticks() {
	cut -d ' ' -f 14 "/proc/$1/stat"
}

end=$(($(user_ticks "$1") + $2))
wait_until "[ \$(user_ticks $1) -ge $end ]"
