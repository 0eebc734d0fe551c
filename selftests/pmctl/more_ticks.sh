#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# more_ticks PID N: waits until the process has run for N more hundredths of a second in user mode.

# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$(dirname "$0")/ktap.sh"

wait_for_ticks "$2" "$1"
