#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# An NMI in the shadow of STI would let pending interrupts come before the HLT that follows. Then
# nothing would end the HLT, and a CPU that has to run a program would go on idling.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

parameters=/sys/module/halt/parameters
plan 3
check "the module is loaded" insmod /lib/modules/halt.ko
lift_perf_limits
echo 100000 >/dev/halt
echo "# $(cat $parameters/samples) samples"
check "perf samples throughout the halts" [ "$(cat $parameters/samples)" -gt 20000 ]
is "NMIs between STI and HLT" 0 "$(cat $parameters/between)"
rmmod halt

finish
