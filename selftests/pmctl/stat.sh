#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl stat: the counts of a program with a known number of instructions are exact, and the
# exit code is the program's.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
# shellcheck source=SCRIPTDIR/../lib/count.sh
. "$here/count.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

# The program executes 2 instructions in each iteration.
loop=$here/pmctl_loop

# exit_code COMMAND...: prints pmctl's exit code
exit_code() {
	pmctl stat -e instructions:u -- "$@" >/dev/null 2>&1
	echo $?
}

# count_on CPU N [EVENT]: prints the count of CPU while CPU 0 does all work, also the loop
count_on() {
	taskset 1 pmctl stat -C "$1" -e "${3:-instructions:u}" -x, -o "$counts" -- \
		"$loop" "$2" >/dev/null 2>&1
	awk -F, -v event="${3:-instructions:u}" '$3 == event { print $1 }' "$counts"
}

# values: prints the counts of the file $counts, which -x has written
values() {
	awk -F, '$1 ~ /^[0-9]+$/ { printf "%s ", $1 }' "$counts"
}

# interval_counts: prints the counts of the file $counts, which -x -I has written
interval_counts() {
	awk -F, '$1 ~ /^ *[0-9.]+$/ { print $2 }' "$counts"
}

cpus=$(nproc)
plan $((100 + (cpus > 1)))

for event in instructions:u r00c0:u; do
	a=$(pmctl_count $event "$loop" 1000000)
	b=$(pmctl_count $event "$loop" 2000000)
	check "$event counts the loop" [ "${a:-0}" -gt 2000000 ]
	is "$event is exact" 2000000 $((${b:-0} - ${a:-0}))
	is "a second run of $event counts the same" "$a" \
		"$(pmctl_count $event "$loop" 1000000)"
done

# Each event has a different count for the loop: the clocks of the virtual PMU have constant rates
# of their own. A fraction of a cycle is rounded at each entry into the kernel and exit from it,
# and interrupts come at any time: on a slow machine, thousands during a loop. The reference cycles are
# 250000 fewer.
for rate in cycles:u=2500000,10000 branches:u=1000000,0; do
	event=${rate%=*} wanted=${rate#*=}
	a=$(pmctl_count "$event" "$loop" 1000000)
	b=$(pmctl_count "$event" "$loop" 2000000)
	counted=$((${b:-0} - ${a:-0}))
	distance=$((counted - ${wanted%,*}))
	echo "# $event: $counted"
	check "$event is counted, and no other event" [ "${distance#-}" -le "${wanted#*,}" ]
done

# perf counts the same number for the task. It shows none if its clock did not move.
is "the command is counted as by perf" "$(perf_count instructions:u "$loop" 50000000)" \
	"$(pmctl_count instructions:u "$loop" 50000000)"

# A shell runs two loops of 2 instructions an iteration, the second in the background.
# shellcheck disable=SC2016 # the inner shell expands it
twice='"$0" "$1"; "$0" "$1" & wait'
for option in "" -i; do
	for n in 1000000 2000000; do
		pmctl stat $option -e instructions:u -x, -o "$counts" -- sh -c "$twice" "$loop" $n
		eval "count_$n=$(values)"
	done
	# shellcheck disable=SC2154 # eval assigns them
	difference=$((count_2000000 - count_1000000))
	if [ "$option" ]; then
		check "$option leaves children out" [ "$difference" -lt 10000 ]
	else
		# The number of the shell's own instructions depends on when its child ends.
		check "children are counted" [ "$difference" -ge 3990000 -a "$difference" -le 4010000 ]
	fi
done

pmctl stat -e '{instructions:u,r00c0:u},{branches,branch-instructions}:u' -x, -o "$counts" -- "$loop" 1000000
is "groups are counted" 0 $?
# shellcheck disable=SC2046 # two pairs of numbers
set -- $(values)
is "the events of a group count the same instructions" "$1 $3" "$2 $4"
says "the mode of a group is in the names" "$(cat "$counts")" ',,branches:u,'
pmctl stat -a -e '{instructions,cycles}' -- true 2>"$counts"
is "stat -a refuses a group" 2 $?

# Counts a task that runs, a task that ends, and a task that does not exist. When two more turns
# have ended, at least one turn was counted from its beginning: a million iterations.
more_turns="$here/pmctl_more_turns $counts.turns"
"$here/pmctl_turns" 1000000 >"$counts.turns" &
task=$!
# shellcheck disable=SC2086 # two words
pmctl stat -p $task -e instructions:u -x, -o "$counts" -- $more_turns 2
is "-p counts while the command runs" 0 $?
check "-p counts the process" [ "$(values)" -gt 2000000 ]
pmctl stat -t $task -e instructions:u,cycles:u --per-thread -j -o "$counts" -- true
is "--per-thread names the thread" 2 "$(grep -c "^{\"thread\":\"pmctl_turns-$task\"," "$counts")"
# shellcheck disable=SC2086 # two words
pmctl stat -D 60000 -p $task -e instructions:u -x, -o "$counts" -- $more_turns 2
is "nothing is counted before the delay of -D" "<not counted>" "$(cut -d, -f1 "$counts")"
# shellcheck disable=SC2016,SC2086 # the inner shell expands it; two words
pmctl stat -D 100 -p $task -e instructions:u -x, -o "$counts" -- \
	sh -c '. "$0/ktap.sh"; wait_until "has_events $PPID"; exec "$@"' "$here" $more_turns 2
check "the process is counted after the delay of -D" [ "$(values)" -gt 2000000 ]
# The first interval begins when the counters begin. An interval in which the program's CPU stands
# still counts 0, too, and intervals in which pmctl is held up become one. In both cases the
# intervals are counted once more.
# shellcheck disable=SC2317 # comes_true calls it
count_in_intervals() {
	pmctl stat -D 400 -I 100 --timeout 1000 -p "$task" -e instructions:u -x, -o "$counts"
	! interval_counts | grep -qx 0 && [ "$(interval_counts | wc -l)" -ge 2 ]
}
comes_true count_in_intervals
check "-I shows intervals after the delay of -D" [ "$(interval_counts | wc -l)" -ge 2 ]
is "no interval before the end of the delay has a count of 0" 0 "$(interval_counts | grep -cx 0)"
pmctl stat -D 60000 -I 100 -p $task -e instructions:u -x, -o "$counts" -- sleep 0.3 2>/dev/null
is "-I shows no interval if the delay is not over" "" "$(interval_counts)"
kill $task
wait $task 2>/dev/null
rm -f "$counts.turns"
# On a busy host pmctl may notice the end of the delay after that of the command.
# shellcheck disable=SC2317 # comes_true calls it
is_counted_after_delay() {
	pmctl stat -a -D 300 -e instructions --json=v1 -o "$counts" -- sleep 0.5
	elapsed=$(sed -n 's/.*"elapsed_seconds":\([0-9.]*\).*/\1/p' "$counts")
	running=$(sed -n 's/.*"running_ns":\[\([0-9]*\).*/\1/p' "$counts")
	[ "${running:-0}" -gt 0 ]
}
comes_true is_counted_after_delay
check "-a counts for the time after the delay" \
	awk "BEGIN { exit !(${running:-0} > 0 && ${running:-0} <= (${elapsed:-0} - 0.3) * $cpus * 1e9) }"
sleep 300 &
ending=$!
pmctl stat -p $ending -e instructions:u -x, -o "$counts" &
stat=$!
wait_until "has_events $stat"
kill $ending
wait_until "has_ended $stat"
wait $stat
is "-p ends with the process" 0 $?
pmctl stat -p $task -e instructions:u 2>"$counts"
is "-p refuses a process that does not exist" 2 $?

pmctl stat -a --per-core -e instructions:u -j -o "$counts" -- "$loop" 1000000
says "--per-core names the cores" "$(cat "$counts")" '"core":"S0-D0-C0","counters":1,"counter-value":"[0-9]+\.0+"'

pmctl stat -a --per-socket -e instructions:u -j -o "$counts" -- "$loop" 1000000
says "--per-socket names the sockets" "$(cat "$counts")" '"socket":"S0","counters":[0-9]+,"counter-value":"[0-9]+\.0+"'
taskset 1 pmctl stat -a -A -e instructions:u -x, -o "$counts" -- "$loop" 1000000
says "-A names the CPUs" "$(cat "$counts")" '^CPU0,2[0-9]{6},,instructions:u'
is "-A shows each CPU" "$cpus" "$(grep -c '^CPU' "$counts")"
is "-q shows nothing" "" "$(pmctl stat -q -e instructions:u -- true 2>&1)"

# These are cache events of perf's table for the CPU. The virtual PMU counts branches for them.
if pmctl info | grep -q '^branch-loads '; then
	a=$(pmctl_count branch-loads:u "$loop" 1000000)
	b=$(pmctl_count branch-loads:u "$loop" 2000000)
	is "an event of a cache is counted for a task" 1000000 $((${b:-0} - ${a:-0}))
	a=$(count_on 0 1000000 branch-loads:u)
	b=$(count_on 0 2000000 branch-loads:u)
	counted=$((${b:-0} - ${a:-0}))
	echo "# branch-loads:u on a CPU: $counted"
	# Other programs on this CPU are counted, too.
	check "an event of a cache is counted on a CPU" [ $counted -ge 990000 -a $counted -le 1010000 ]
else
	skip "an event of a cache is counted for a task" "no table for this CPU"
	skip "an event of a cache is counted on a CPU" "no table for this CPU"
fi

# Loads and stores have the names of Intel's and of AMD's list.
accesses=0
for names in MEM_INST_RETIRED.ALL_LOADS:u,r81d0:u MEM_INST_RETIRED.ALL_STORES:u,r82d0:u \
	ls_dispatch.ld_dispatch:u,r129:u ls_dispatch.store_dispatch:u,r229:u; do
	pmctl encode "$names" >/dev/null 2>&1 || continue
	accesses=$((accesses + 1))
	pmctl stat -e "{$names}" -x, -o "$counts" -- true 2>"$counts.errors"
	# shellcheck disable=SC2046 # a pair of numbers
	set -- $(values)
	check "${names%,*} is counted" [ "$1" -gt 1000 ]
	is "${names%,*} and ${names#*,} count the same" "$1" "$2"
	is "stat does not complain of ${names%,*}" "" "$(cat "$counts.errors")"
done
is "loads and stores have names" 2 "$accesses"

pmctl stat -e instructions:u,node-store-misses -- true 2>"$counts"
is "stat fails with a cache event that the CPU lacks" 125 $?
says "stat says that Linux has no number for the cache event" "$(cat "$counts")" "<not supported> node-store-misses: Linux"

# Only root counts other users' processes; the message names the owner.
chmod 666 /dev/perfmon
sleep 300 &
other=$!
"$here/pmctl_as" -1000 pmctl stat -p $other -e cycles -- true 2>"$counts"
is "another user's process is not counted" 125 $?
says "stat names the owner of the process, and who runs pmctl" "$(cat "$counts")" "^Process $other \(sleep\) is root's, and pmctl is run by user"
says "the message names the event as it was given" "$(cat "$counts")" "can't count cycles of task $other:"
"$here/pmctl_as" -1000 pmctl record -p $other -o /tmp/record.$$ 2>"$counts"
is "another user's process is not sampled" 125 $?
says "record says which processes a user can sample" "$(cat "$counts")" "who may sample processes of their own"
kill $other
"$here/pmctl_as" -1000 pmctl stat -e cycles -x, -o /tmp/stat.$$ -- true
is "a user's own command is counted" 0 $?
says "a user's own command is counted in user mode" "$(cat /tmp/stat.$$)" ',,cycles:u,'
rm -f /tmp/stat.$$
"$here/pmctl_as" -1000 pmctl stat -e cycles:k -- true 2>"$counts"
is "stat counts no kernel event for a user" 125 $?
says "stat says how to count in the kernel" "$(cat "$counts")" "kernel.perf_event_paranoid=1"
"$here/pmctl_as" -1000 pmctl record -e cycles:k -o /tmp/record.$$ -- true 2>"$counts"
rm -f /tmp/record.$$
says "record says how to sample in the kernel" "$(cat "$counts")" "To sample in the kernel .*kernel.perf_event_paranoid=1"
"$here/pmctl_as" -1000 pmctl stat -a -- true 2>"$counts"
is "stat -a fails for a user" 125 $?
says "stat -a says which rights it needs" "$(cat "$counts")" "^pmctl: to count all programs, run it as root or with CAP_PERFMON,"
says "stat -a says how to count one's own command" "$(cat "$counts")" "^Your own command: leave out -a and -C"
chmod 600 /dev/perfmon

# Two measurements at the same time count the same as each alone.
alone=$(pmctl_count instructions:u "$loop" 30000000)
pmctl stat -e instructions:u -x, -o "$counts.other" -- "$loop" 30000000 &
both=$(pmctl_count instructions:u "$loop" 30000000)
wait $!
is "two measurements at once count the same" "$alone $alone" "$both $(cut -d, -f 1 "$counts.other" | tail -n 1)"
rm -f "$counts.other"

# The mean leaves out a run that was stopped.
alone=$(pmctl_count instructions:u "$loop" 3000000)
seconds=1
# stop_in_later_run: ends stat -r after some seconds; succeeds if the first run was over then
# shellcheck disable=SC2317 # comes_true calls it
stop_in_later_run() {
	pmctl stat -r 100000 -e instructions:u -x, -o "$counts" -- "$loop" 3000000 2>"$counts.errors" &
	stat=$!
	sleep "$seconds"
	kill -TERM "$stat"
	wait "$stat"
	code=$?
	seconds=$((2 * seconds))
	grep -qE 'stopped in run ([2-9]|[0-9]{2,}) ' "$counts.errors"
}
comes_true stop_in_later_run
is "stat -r exits with 143 if it is ended" 143 "$code"
says "stat -r names the run that was stopped" "$(cat "$counts.errors")" \
	'^pmctl: stopped in run [0-9]+ of 100000: the (mean is of the [0-9]+ runs|numbers are those of the run) before$'
is "the mean is of the complete runs" "$alone " "$(values)"
rm -f "$counts.errors"

# A series that a signal stopped fails, although the command ignored the signal.
# shellcheck disable=SC2016 # the inner shell expands it
pmctl stat -r 3 -e instructions:u -o "$counts" -- \
	sh -c 'trap "" TERM; [ ! -e "$0" ] || kill -TERM $PPID; : >"$0"' "$counts.second" 2>/dev/null
is "stat -r exits with 143 if a signal stopped the series" 143 $?
rm -f "$counts.second"

# The message names the owner of the counters.
# begin COMMAND... : starts COMMAND, which counts a program until end_other; $other is
# COMMAND's PID, $program the program's
begin() {
	# shellcheck disable=SC2016 # the inner shell expands it
	"$@" -- sh -c 'echo $$ >"$0"; exec sleep 300' "$counts.begun" >/dev/null 2>&1 &
	other=$!
	wait_until "[ -s $counts.begun ]"
	program=$(cat "$counts.begun")
	rm -f "$counts.begun"
}

# end_other: ends the program, and thereby COMMAND: a signal does not end perf
end_other() {
	kill "$program"
	wait $other
}
# perf counts the whole system, because a place-holder would displace an event for a program that
# sleeps.
begin perf stat -a -e instructions:u
pmctl stat -e instructions:u -- true 2>"$counts"
is "stat fails without a free counter" 125 $?
says "stat names perf as the owner of the counters" "$(cat "$counts")" "Linux's perf or the NMI watchdog has [0-9]+ counters"
says "stat says to end the owner of the counters" "$(cat "$counts")" "End what uses them"
end_other
begin pmctl stat -e r0000,r0001,r0002,r0003,r0004,r0005 -o "$counts.other"
pmctl stat -a -e r0000,r0001,r0002,r0003,r0004,r0005,r0006,r0007 -- true 2>"$counts"
status=$?
end_other
rm -f "$counts.other"
if [ $status = 125 ]; then
	says "stat -a names pmctl as the owner of the counters" "$(cat "$counts")" \
		'in use already: pmctl \(events of tasks, pid [0-9]+\) has [1-6] counters'
else
	is "stat -a refuses more events than counters" 2 $status
fi
many=r0000
for event in 1 2 3 4 5 6 7 8 9 a b c d e f; do many=$many,r000$event; done
pmctl stat -e $many -- true 2>"$counts"
is "stat fails with too many events" 125 $?
says "stat names itself as the owner of the counters" "$(cat "$counts")" 'pmctl \(events of tasks, pid [0-9]+\) has [0-9]+ counters'
says "stat says that this measurement has all counters" "$(cat "$counts")" '^These counters are in use by this measurement'
begin pmctl stat -a -e instructions:u -o "$counts.other"
pmctl stat -e $many -- true 2>"$counts"
end_other
rm -f "$counts.other"
says "stat names the other owner of counters beside itself" "$(cat "$counts")" \
	"^[0-9]+ of them (is|are) in use by this measurement \\(pid [0-9]+\\)\\..* Count fewer events, or end pid $other\\.\$"
begin pmctl stat -e r0001 -o "$counts.other"
pmctl stat -e $many -- true 2>"$counts"
end_other
rm -f "$counts.other"
says "stat has advice that fits where other tasks share its counters" "$(cat "$counts")" \
	'^(Events of other tasks share them|These counters are in use by this measurement).* Count fewer events at once'
pmctl stat -e instructions:u:PMC0 -- true 2>"$counts"
is "stat refuses a number of a counter for a task" 2 $?
general=$(pmctl info | sed -n 's/^driver .* \([0-9][0-9]*\) general .*/\1/p')
pmctl stat -a -e "instructions:u:PMC$general" -- true 2>"$counts.none"
is "a counter that the driver does not have is refused" 2 $?
says "pmctl itself refuses the counter, not the driver" "$(cat "$counts.none")" "no general counter $general"
rm -f "$counts.none"
pmctl stat -a -e instructions:u:PMC0 -x, -o "$counts" -- true
is "stat -a takes a number of a counter" 0 $?
pmctl stat -d -e instructions:u -x, -o "$counts" -- "$loop" 1000
is "-d counts what the CPU has" 0 $?
is "-p takes several processes" 0 "$(
	sleep 300 & one=$!
	sleep 300 & two=$!
	pmctl stat -p $one,$two -e instructions:u -x, -o "$counts" -- true >/dev/null 2>&1
	echo $?
	kill $one $two
)"

k=$(pmctl_count instructions:k "$loop" 90000000)
check "instructions:k counts the kernel" [ "${k:-0}" -gt 0 ]
check "instructions:k does not count the loop" [ "${k:-180000000}" -lt 180000000 ]

# Other programs of a CPU are counted, too, as the shell that has started pmctl, if its CPU stands
# still before it waits: then the loop is counted once more.
# shellcheck disable=SC2317 # comes_true calls it
is_exact_on_cpu() {
	a=$(count_on 0 1000000)
	b=$(count_on 0 2000000)
	[ $((${b:-0} - ${a:-0})) = 2000000 ]
}
# shellcheck disable=SC2317 # comes_true calls it
counts_nothing_on_other_cpu() {
	a=$(count_on 1 1000000)
	[ "$a" = 0 ]
}
check "-C is exact" comes_true is_exact_on_cpu
check "-C counts the loop on its CPU" [ "${a:-0}" -gt 2000000 ]
if [ "$cpus" -gt 1 ]; then
	check "-C counts nothing of the other CPU" comes_true counts_nothing_on_other_cpu
fi

is "stat exits with 0 if the child succeeds" 0 "$(exit_code true)"
is "stat exits with the code of the child" 42 "$(exit_code "$loop" 42 exit)"
# shellcheck disable=SC2016 # the inner shell expands it
is "stat exits with 137 if the child is killed" 137 "$(exit_code sh -c 'kill -9 $$')"
# shellcheck disable=SC2016 # the inner shell expands it
is "stat exits with 168 if a real-time signal kills the child" 168 "$(exit_code sh -c 'kill -40 $$')"
is "stat exits with 127 if there is no such program" 127 \
	"$(exit_code /nonexistent/program)"

# stat fails if it can't write its numbers.
pmctl stat -e instructions:u -- true 2>&-
is "stat exits with 125 if standard error is closed" 125 $?
pmctl stat -e instructions:u -- true 2>/dev/full
is "stat exits with 125 if standard error is full" 125 $?
pmctl stat -e instructions:u -o "$counts" -- true 2>&-
is "stat needs no standard error with -o" 0 $?

# Other events are counted even if the CPU lacks one.
absent=
for event in cache-misses branch-misses bus-cycles; do
	if pmctl encode $event 2>&1 | grep -q 'does not have'; then absent=$event; fi
done
if [ "$absent" ]; then
	pmctl stat -e "instructions:u,$absent" -x, -o "$counts" -- true 2>/dev/null
	is "stat exits with 125 if the CPU lacks an event" 125 $?
	says "the missing event is shown as not supported" "$(cat "$counts")" "^<not supported>,,$absent"
	says "the other event is counted" "$(cat "$counts")" '^[1-9][0-9]*,,instructions:u'
else
	pmctl stat -e instructions:u,cache-misses,branch-misses -x, -o "$counts" -- true 2>/dev/null
	is "stat exits with 0 if the CPU has all events" 0 $?
	is "no event is shown as not supported" 0 "$(grep -c 'not supported' "$counts")"
	says "the other event is counted" "$(cat "$counts")" '^[1-9][0-9]*,,instructions:u'
fi

is "the command ignores no other signals than without pmctl" \
	"$(grep SigIgn /proc/self/status)" \
	"$(pmctl stat -e instructions:u -- grep SigIgn /proc/self/status 2>/dev/null)"

# An iteration of the loop has two instructions, of which one is a branch. Intervals in which pmctl
# is held up become one.
# shellcheck disable=SC2317 # comes_true calls it
has_many_intervals() {
	pmctl stat -I 1 -x, -e instructions:u,branches:u -o "$counts" -- "$loop" 30000000
	[ "$(grep -c branches:u "$counts")" -gt 3 ]
}
comes_true has_many_intervals
is "-I reads the events of an interval at one moment" "0 of many" "$(awk -F, '
	$4 == "instructions:u" { instructions = $2 }
	$4 == "branches:u" { off = instructions - 2 * $2; n++; bad += off > 100 || off < -100 }
	END { print bad + 0, "of", (n > 3) ? "many" : n }' "$counts")"
pmctl stat -I 100 -e instructions:u,cycles:u -- sleep 0.3 2>"$counts"
is "intervals have no ratio" 1 "$(grep -c 'insn per cycle' "$counts")"
says "the total has a ratio" "$(tail -n 15 "$counts")" "insn per cycle"

# Sends SIGINT, as Ctrl-C does: the command decides what to do; without a command stat ends.
# shellcheck disable=SC2016 # the inner shell expands it
interrupt_when "[ -e $counts.begun ]" pmctl stat -e instructions:u -- \
	sh -c ': >"$0"; exec sleep 300' "$counts.begun" >/dev/null 2>&1
status=$?
rm -f "$counts.begun"
is "stat exits with 130 if the child is interrupted" 130 $status
# The signal comes as soon as stat keeps it for later, while it still opens its events. The device is
# also open before, for a moment.
rm -f "$counts"
pmctl stat -e instructions:u,r00c0:u,branches:u -x, -o "$counts" -- sleep 300 2>/dev/null &
stat_pid=$!
until has_open $stat_pid 'anon_inode:*signalfd*'; do
	kill -0 $stat_pid 2>/dev/null || break
done
kill $stat_pid
wait $stat_pid
is "a signal while stat begins ends the command" 143 $?
check "stat shows the counts after a signal while it begins" grep -q instructions:u "$counts"
timeout -s KILL "${LIMIT:-600}" pmctl stat --timeout 100 -e instructions:u -x, -o "$counts" -- sleep 100000
is "--timeout ends the command by SIGTERM" 143 $?
# shellcheck disable=SC2016 # it is evaluated later
interrupt_when 'has_open $pid "anon_inode:*signalfd*"' pmctl stat -a -e instructions:u -x, -o "$counts" >/dev/null 2>&1
is "stat without a command exits with 0 when interrupted" 0 $?
check "stat shows the counts when interrupted" grep -q instructions:u "$counts"

finish
