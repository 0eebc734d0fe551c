#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Checks that user mode has page tables of its own (PTI), and that CR3 has PCIDs in its low bits. So
# the tests can't silently run on a machine without these features.

# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$(dirname "$0")/ktap.sh"

plan 2
check "user mode has its own page tables" grep -q 'Mitigation: PTI' /sys/devices/system/cpu/vulnerabilities/meltdown
check "the CPU has PCIDs" grep -qw pcid /proc/cpuinfo
finish
