#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Programs run on page tables of their own, and CR3 has the number of a process in
# its low bits: so that a machine which is meant to test that can't silently be
# another one.

# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$(dirname "$0")/ktap.sh"

plan 2
check "user mode has its own page tables" grep -q 'Mitigation: PTI' /sys/devices/system/cpu/vulnerabilities/meltdown
check "the CPU has PCIDs" grep -qw pcid /proc/cpuinfo
finish
