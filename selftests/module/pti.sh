#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Programs run on page tables of their own, so that a machine which is meant to
# test that can't silently be another one.

# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$(dirname "$0")/ktap.sh"

plan 1
check "user mode has its own page tables" grep -q 'Mitigation: PTI' /sys/devices/system/cpu/vulnerabilities/meltdown
finish
