#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl stat -r: several runs, of all events or of a part of them each.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

in_own_dir

loop=$here/pmctl_loop
many=instructions:u
# AMD's event 3 needs two counters.
for event in 01 02 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10; do many=$many,r00$event:u; done

plan 20

# More events than counters.
try pmctl stat -e $many -- "$loop" 1000
is "more events than counters are no count" 125 $?
says "the way to count them is named" "$errors" 'r 1. runs it [2-9] times, each time for a part of the events'
echo "$errors" | awk '/-r 1. runs it/ { n = NR } /at once|in another run/ { exit !(n && n < NR) }'
result $? "and stands before the others"
try pmctl stat -a -e $many -- "$loop" 1000
is "nor are they with -a" 2 $?
says "the way is named with -a" "$errors" 'r 1. runs it [2-9] times, each time for a part of the events'
try pmctl stat -e $many -I 100 -- "$loop" 1000
check "it is not named where it is none" [ "$(echo "$errors" | grep -c 'runs it')" = 0 ]

try pmctl stat -r 1 -x, -o csv -e $many -- "$loop" 1000000
is "-r 1 counts them" 0 $?
is "all of them in their order" "$many" "$(cut -d, -f3 csv | tr '\n' , | sed 's/,$//')"
pmctl stat -x, -o one -e instructions:u -- "$loop" 1000000
is "as alone" "$(cut -d, -f1 one)" "$(head -n 1 csv | cut -d, -f1)"
try pmctl stat -r 2 -e $many -- sh -c 'echo run >>runs'
runs=$(wc -l <runs)
check "-r 2 runs the command twice for each part" [ "$runs" -ge 4 ]
says "it says how often" "$errors" "The command ran $runs times"
try pmctl stat -r 1 -a -x, -o csv -e $many -- "$loop" 1000
is "-r 1 counts them with -a" 16 "$(grep -c ':u,' csv)"
pmctl stat -r 1 -x, -o csv -e "{instructions:u,r0001:u},$many" -- "$loop" 1000
is "a group stays whole" 18 "$(grep -c ':u,' csv)"
try pmctl stat -r 0 -e $many -- "$loop" 1000
is "-r 0 has no parts" 125 $?
try pmctl stat -r 2 -e task-clock -- true
is "-r takes events that need no counter" 0 $?

# The runs share standard input.
seq 20000 >input
try pmctl stat -r 3 -x, -o csv -e instructions:u -- sort -n <input >/dev/null
says "what the first run has read is told" "$errors" 'first run has read standard input'
errors=$(seq 20000 | pmctl stat -r 3 -x, -o csv -e instructions:u -- sort -n 2>&1 >/dev/null)
says "so it is of a pipe" "$errors" 'first run has read standard input'
try pmctl stat -r 1 -x, -o csv -e $many -- sort -n <input >/dev/null
says "so it is of parts" "$errors" 'first run has read standard input'
try pmctl stat -r 3 -x, -o csv -e instructions:u -- true <input
is "what no run reads is not" "" "$errors"
try pmctl stat -r 3 -x, -o csv -e instructions:u -- sort </dev/null
is "nor is /dev/null" "" "$errors"

finish
