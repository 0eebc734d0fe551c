#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl stat -r: it makes several runs, each of all events or of some of the events.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

in_own_dir

loop=$here/pmctl_loop
many=instructions:u
# AMD's event 3 needs two counters.
for event in 01 02 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10; do many=$many,r00$event:u; done

plan 31

# There are more events than counters.
try pmctl stat -e $many -- "$loop" 1000
is "stat fails with more events than counters" 125 $?
says "stat suggests -r 1 for more events than counters" "$errors" 'r 1. runs it [2-9] times, each time for a part of the events'
echo "$errors" | awk '/-r 1. runs it/ { n = NR } /at once|in another run/ { exit !(n && n < NR) }'
result $? "stat suggests -r 1 before the other ways"
try pmctl stat -a -e $many -- "$loop" 1000
is "stat -a fails with more events than counters" 2 $?
says "stat -a suggests -r 1 for more events than counters" "$errors" 'r 1. runs it [2-9] times, each time for a part of the events'
try pmctl stat -e $many -I 100 -- "$loop" 1000
check "stat -I does not suggest -r 1" [ "$(echo "$errors" | grep -c 'runs it')" = 0 ]

try pmctl stat -r 1 -x, -o csv -e $many -- "$loop" 1000000
is "-r 1 counts more events than counters" 0 $?
is "-r 1 shows all events in their order" "$many" "$(cut -d, -f3 csv | tr '\n' , | sed 's/,$//')"
pmctl stat -x, -o one -e instructions:u -- "$loop" 1000000
is "-r 1 counts an event exactly as a run with this event alone" "$(cut -d, -f1 one)" "$(head -n 1 csv | cut -d, -f1)"
try pmctl stat -r 2 -e $many -- sh -c 'echo run >>runs'
runs=$(wc -l <runs)
check "-r 2 runs the command twice for each part" [ "$runs" -ge 4 ]
says "-r 2 says how often the command ran" "$errors" "The command ran $runs times"
try pmctl stat -r 1 -a -x, -o csv -e $many -- "$loop" 1000
is "-r 1 -a counts more events than counters" 16 "$(grep -c ':u,' csv)"
pmctl stat -r 1 -x, -o csv -e "{instructions:u,r0001:u},$many" -- "$loop" 1000
is "-r 1 counts a group in one run" 18 "$(grep -c ':u,' csv)"
try pmctl stat -r 0 -e $many -- "$loop" 1000
is "-r 0 fails with more events than counters" 125 $?
try pmctl stat -r 2 -e task-clock -- true
is "-r takes events that need no counter" 0 $?

# A signal in the first run keeps pmctl from making the others, although the command handles it.
# shellcheck disable=SC2016 # the inner shell expands it
try timeout -s KILL "${LIMIT:-600}" pmctl stat -r 3 -e instructions:u -- \
	sh -c 'sleep 100000 >/dev/null 2>&1 & trap "kill $!; exit 0" TERM; kill -TERM $PPID; wait'
is "-r 3 that a signal stops in the first run fails" 143 $?
says "-r 3 says that it was stopped in the first run" "$errors" 'stopped in run 1 of 3: the numbers are those of this run'

# Ctrl-C in the second run: the terminal sends SIGINT to pmctl and to the command.
# shellcheck disable=SC2016 # the inner shell expands it
pmctl_terminal 24 80 -w second -k "$(printf '\003')" -w 'run before' -o screen -- pmctl stat -r 3 -e instructions:u -- \
	sh -c 'echo run >>typed; [ "$(wc -l <typed)" = 2 ] || exit 0; echo second; exec sleep 100000'
is "-r 3 that Ctrl-C stops in the second run fails" 130 $?
says "-r 3 says that Ctrl-C has stopped it in the second run" "$(cat screen)" \
	'stopped in run 2 of 3: the numbers are those of the run before'
is "-r 3 makes no run after Ctrl-C" 2 "$(wc -l <typed)"

# The command is killed in the second run.
# shellcheck disable=SC2016 # the inner shell has the number of its process
try pmctl stat -r 3 -e instructions:u -- sh -c 'echo run >>killed; [ "$(wc -l <killed)" -lt 2 ] || kill -9 $$'
is "-r 3 of a command that is killed in the second run fails" 137 $?
says "-r 3 leaves the killed run out of the mean" "$errors" 'stopped in run 2 of 3: the numbers are those of the run before'
is "-r 3 makes no run after the killed one" 2 "$(wc -l <killed)"

# The counted process ends in the second run.
sleep 1000 &
process=$!
try pmctl stat -r 5 -x, -o csv -e instructions:u -p $process -- sh -c "echo run >>begun
	[ \$(wc -l <begun) -lt 2 ] || kill $process
	while [ \$(wc -l <begun) -ge 2 ] && grep -qs '^State:.[^ZX]' /proc/$process/status; do sleep 0.01; done"
is "-r 5 of a process that ends meanwhile fails" 125 $?
says "-r 5 says in which run it was stopped" "$errors" 'stopped in run 3 of 5: the mean is of the 2 runs before'
is "-r 5 shows the mean of the runs before" 1 "$(grep -c '^[0-9].*,instructions:u,' csv)"

# All runs share standard input.
seq 20000 >input
try pmctl stat -r 3 -x, -o csv -e instructions:u -- sort -n <input >/dev/null
says "-r 3 says that the first run has read a file" "$errors" 'first run has read standard input'
errors=$(seq 20000 | pmctl stat -r 3 -x, -o csv -e instructions:u -- sort -n 2>&1 >/dev/null)
says "-r 3 says that the first run has read a pipe" "$errors" 'first run has read standard input'
try pmctl stat -r 1 -x, -o csv -e $many -- sort -n <input >/dev/null
says "-r 1 with several parts says that the first run has read a file" "$errors" 'first run has read standard input'
try pmctl stat -r 3 -x, -o csv -e instructions:u -- true <input
is "-r 3 says nothing if no run reads standard input" "" "$errors"
try pmctl stat -r 3 -x, -o csv -e instructions:u -- sort </dev/null
is "-r 3 says nothing if the first run has read /dev/null" "" "$errors"

finish
