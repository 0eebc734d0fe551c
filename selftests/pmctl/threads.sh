#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl counts all threads of a process with many threads, also with a low limit of open files.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

in_own_dir

# limited LIMIT COMMAND... : runs COMMAND by try with 100 open files as LIMIT, an option of ulimit
limited() {
	# shellcheck disable=SC2016 # the inner shell expands it
	try sh -c 'ulimit "$0" 100 && exec "$@"' "$@"
}

plan 15

"$here/pmctl_many_threads" 151 begun &
process=$!
comes_true "[ -e begun ]"

limited -Sn pmctl stat --per-thread -x, -o csv -e instructions:u -p $process -- true
is "more threads than the soft limit of files are counted" 0 $?
is "each thread has a count" 151 "$(grep -c ',instructions:u,' csv)"
is "a thread's name that is not UTF-8 is shown" 1 "$(grep -c "$(printf 'a\357\277\275b-')" csv)"
limited -Sn pmctl stat -x, -o csv -e instructions:u,task-clock -p $process -- sh -c 'ulimit -Sn >limit'
is "the kernel's events are counted beyond the soft limit of files" 0 $?
is "the command has the limit that pmctl had" 100 "$(cat limit)"
limited -Sn pmctl record -q -o data -e instructions:u -p $process --duration 0.1
is "more threads than the soft limit of files are sampled" 0 $?

# With the hard limit at 100, pmctl can't get as many descriptors.
limited -n pmctl stat -e instructions:u -p $process -- true
is "stat fails at the hard limit of files" 125 $?
says "stat says that no file descriptor is free" "$errors" 'no file descriptor is free'
says "stat names ulimit -n" "$errors" 'ulimit -n'
check "stat shows no number at the hard limit of files" [ "$(echo "$errors" | grep -c '[0-9] *instructions:u')" = 0 ]

limited -n pmctl stat -e task-clock -p $process -- true
says "stat says that no file descriptor is free for the kernel's events" "$errors" "can't count task-clock: no file descriptor is free"

kill $process

# The process has ended, but its parent has not waited for it.
sh -c 'sleep 1 & echo $! >ended; exec sleep 1000' &
parent=$!
wait_until "[ -s ended ] && grep -qs '^State:.Z' /proc/\$(cat ended)/status"
try pmctl stat -e task-clock -p "$(cat ended)"
says "stat says that a process has ended, for the kernel's events, too" "$errors" "can't count task-clock: there is no such task"
kill $parent

# The first thread of a process ends before the others. The kernel reports its end only when all have ended.
rm -f begun
"$here/pmctl_many_threads" 3 begun leave &
process=$!
comes_true "[ -e begun ]"
pmctl stat -x, -o csv -e instructions:u -t $process &
measurement=$!
wait_until "has_events $measurement"
kill -USR1 $process
check "stat -t of the first thread ends with it" comes_true "has_ended $measurement"
rm -f begun
"$here/pmctl_many_threads" 3 begun leave &
others=$!
comes_true "[ -e begun ]"
kill -USR1 $others
wait_until "grep -qs '^State:.Z' /proc/$others/status"
pmctl stat -x, -o csv -e instructions:u -p $others &
measurement=$!
wait_until "has_events $measurement"
sleep 1
check "stat -p goes on after the end of the first thread" [ -e "/proc/$measurement/exe" ]
kill $process $others
wait $measurement

# The process has ended before pmctl watches it: pmctl begins to watch when the output is open.
mkfifo fifo
sleep 1000 &
process=$!
pmctl stat -x, -o fifo -e instructions:u -p $process &
measurement=$!
comes_true "grep -qs ^counter: /proc/$measurement/fdinfo/*"
kill $process
wait $process
cat fifo >csv
check "stat ends if its process has ended before it is watched" comes_true "has_ended $measurement"
finish
