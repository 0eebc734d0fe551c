#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Reports the module's KUnit cases, which the kernel runs when it loads the module. insmod succeeds
# whatever the results are. The results are in the kernel's log.

# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$(dirname "$0")/ktap.sh"

# Cases are indented by one level, suites are not indented.
results=$(dmesg | awk '
	/Subtest: perfmon_/ { ours = 1 }
	ours && sub(/^\[ *[0-9.]+\]     +/, "") && /^(not )?ok [0-9]/')

if [ -z "$results" ]; then
	plan 1
	echo "# the kernel's log has no KUnit results: boot a kernel with CONFIG_KUNIT=y and kunit.autorun=1"
	result 1 "KUnit ran the module's cases"
	finish
fi
plan "$(echo "$results" | wc -l)"
while IFS= read -r line; do
	case $line in
	ok*) result 0 "${line#ok * }" ;;
	*) result 1 "${line#not ok * }" ;;
	esac
done <<-EOT
	$results
EOT
finish
