#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# more_turns FILE N: waits until pmctl_turns, which writes to FILE, has executed N more turns.

# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$(dirname "$0")/ktap.sh"

end=$(($(wc -l <"$1") + $2))
wait_until "has_lines $end '$1'"
