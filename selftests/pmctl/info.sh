#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl info and pmctl doctor on a machine without a fault, and without the module.

# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$(dirname "$0")/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

plan 23

info=$(pmctl info 2>&1)
is "info succeeds" 0 $?
says "info shows the number of counters" "$info" '[0-9]+ .*counters?'
says "info shows the width of the counters" "$info" '[0-9]+.?bits?'
says "info says if samples can be precise" "$info" '^precise +(none: .|PEBS format [0-9]+.*, [0-9]+ general counter)'

doctor=$(pmctl doctor 2>&1)
is "doctor finds nothing wrong" 0 $?

for interface in programs "whole system" samples; do
	says "doctor tried: $interface" "$doctor" "^ok +$interface "
done
case $info in
*"PEBS format"*) precise='ok +precise +took [0-9]+ precise sample' ;;
*) precise='note +precise +not possible' ;;
esac
says "doctor takes precise samples if there is PEBS" "$doctor" "^$precise"

# Several monitors of one program share a counter.
says "doctor says that all counters are free" "$doctor" '^ok +counters +all are free$'
sleep 300 &
program=$!
monitors=
for _ in 1 2 3; do
	pmctl stat -e instructions:u -p $program >/dev/null 2>&1 &
	monitors="$monitors $!"
	wait_until "has_events $!"
done
doctor=$(pmctl doctor 2>&1 | tr -s ' \n' ' ')
says "doctor says how many events share a counter" "$doctor" \
	' ok counters 1 counter in use with 3 events: pmctl \(3 events of tasks, pid [0-9]+\) has 1 counter '
# shellcheck disable=SC2086 # words
kill $monitors $program
# shellcheck disable=SC2086 # words
wait $monitors $program

# A user without rights can count programs. pmctl reports no fault because such a user can't count
# the system.
chmod 666 /dev/perfmon
doctor=$("$(dirname "$0")/pmctl_as" -1000 pmctl doctor 2>&1)
is "doctor finds no fault if a user can count programs" 0 $?
says "doctor has counted a user's program" "$doctor" '^ok +programs '
says "doctor has sampled a user's program" "$doctor" '^ok +samples +took '
is "doctor reports no failure to a user" 0 "$(echo "$doctor" | grep -c '^FAIL')"
says "doctor says which users may count the whole system" "$doctor" '^note +policy '
chmod 600 /dev/perfmon

# One cause gives one failure. perf opens and closes events to find out what the kernel can do, so
# only when perf's program begins are all of perf's events open.
begun=$(mktemp)
# shellcheck disable=SC2016 # the inner shell expands it
perf stat -a -e instructions -- sh -c 'echo $$ >"$0"; exec sleep 300' "$begun" >/dev/null 2>&1 &
perf=$!
wait_until "[ -s $begun ]"
doctor=$(pmctl doctor 2>&1)
says "doctor names perf, which has the counters" "$doctor" '^FAIL +perf users +the counters are in use,'
is "doctor reports no other failure beside perf" 1 "$(echo "$doctor" | grep -c '^FAIL')"
kill "$(cat "$begun")"
wait $perf
rm -f "$begun"

# Each general counter has a row of its own.
regs=$(pmctl regs --cpu 0 2>&1)
is "regs succeeds" 0 $?
general=$(pmctl info | awk '$1 == "general" { print $2 }')
is "regs shows every general counter" "$general" \
	"$(echo "$regs" | grep -cE ' (IA32_PMC|PERF_CTR)[0-9]+ ')"

rmmod perfmon
doctor=$(pmctl doctor 2>&1)
check "doctor fails without the module" [ $? -ne 0 ]
says "doctor says what to do" "$doctor" '(insmod|modprobe)'
load_module
pmctl doctor >/dev/null 2>&1
is "doctor finds no fault with the module back" 0 $?

finish
