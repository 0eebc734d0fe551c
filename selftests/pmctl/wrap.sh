#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl wrap: unchanged programs call perf_event_open(2) and get the driver's counters. Their
# counts are compared with perf's own on the kernel's counters.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
# shellcheck source=SCRIPTDIR/../lib/count.sh
. "$here/count.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

loop=$here/pmctl_loop
dir=$(mktemp -d)
mode=$(stat -c %a /dev/perfmon)
trap 'chmod "$mode" /dev/perfmon; rm -rf "$dir" "$counts"' EXIT

# wrapped_count EVENT COMMAND...: prints what perf counts under pmctl wrap
wrapped_count() {
	count_event=$1
	shift
	pmctl wrap -- perf stat -x, -e "$count_event" -o "$counts" -- "$@" >/dev/null 2>&1
	awk -F, '!/^#/ && $1 ~ /^[0-9]+$/ { print $1 }' "$counts"
}

# exit_code COMMAND...: prints pmctl's exit code
exit_code() {
	pmctl wrap -- "$@" >/dev/null 2>&1
	echo $?
}

# printed_after TEXT: prints what pmctl_events printed after TEXT
printed_after() {
	sed -n "s/^$1: //p" "$dir/events"
}

plan 85

# perf prints its own table, with the driver's counts. perf shows no count if its clock has not
# moved, so the loops are long.
for event in instructions:u r00c0:u; do
	a=$(wrapped_count $event "$loop" 50000000)
	b=$(wrapped_count $event "$loop" 60000000)
	check "$event counts the loop" [ "${a:-0}" -gt 100000000 ]
	is "$event is exact" 20000000 $((${b:-0} - ${a:-0}))
	is "$event is what perf counts by itself" \
		"$(perf_count $event "$loop" 50000000)" "$a"
done
k=$(wrapped_count instructions:k "$loop" 50000000)
check "instructions:k counts the kernel" [ "${k:-0}" -gt 0 ]

# perf counts control groups by its own option
groups=$dir/groups
mkdir "$groups"
mount -t cgroup2 none "$groups"
mkdir "$groups/a" "$groups/b"
trap 'chmod "$mode" /dev/perfmon; rmdir "$groups/a" "$groups/b"; umount "$groups"; rm -rf "$dir" "$counts"' EXIT

# group_counts N: prints perf's count of the group a, in which a loop runs; the group b is empty
group_counts() {
	pmctl wrap -v -- perf stat -x, -a -e instructions:u --for-each-cgroup a,b -o "$counts" -- \
		sh -c "echo \$\$ >$groups/a/cgroup.procs && exec $loop $1" 2>"$dir/log"
	awk -F, '$3 == "instructions:u" && $4 == "a" { print $1 }' "$counts"
}

a=$(group_counts 50000000)
b=$(group_counts 60000000)
is "a control group's count is exact" 20000000 $((${b:-0} - ${a:-0}))
check "a control group's count has the whole loop" [ "${a:-0}" -gt 100000000 ]
is "another control group counts nothing of the loop" 0 "$(awk -F, '$4 == "b" { print $1 + 0 }' "$counts")"
says "the events of control groups are the driver's" "$(cat "$dir/log")" "an event of the driver's"
pmctl wrap -- perf stat -x, -a --for-each-cgroup a,b -o "$counts" -- \
	sh -c "echo \$\$ >$groups/a/cgroup.procs && exec $loop 50000000" 2>"$dir/log"
is "perf stat counts its own choice of events of control groups" 0 $?
check "the instructions of these have the whole loop" \
	[ "$(awk -F, '$3 == "instructions" && $4 == "a" { print $1 }' "$counts")" -gt 100000000 ]

pmctl wrap -v -- perf stat -e instructions:u,task-clock -- "$loop" 50000000 2>"$dir/table"
is "perf stat succeeds" 0 $?
says "perf stat's events are the driver's" "$(cat "$dir/table")" \
	"perf_event_open\((rc0|instructions):u, pid .*: an event of the driver's"
says "perf stat's software events are the kernel's" "$(cat "$dir/table")" "left to the kernel"
says "perf stat's table has the driver's event" "$(cat "$dir/table")" '^ +[0-9,]+ +instructions:u'
says "perf stat's table has the kernel's event" "$(cat "$dir/table")" '^ +[0-9,.]+ +(msec )?task-clock'

pmctl wrap -- perf stat -x, -e '{instructions:u,cycles:u}' -o "$counts" -- "$loop" 50000000
is "a group is counted" 2 "$(grep -cE '^[1-9][0-9]*,,(instructions|cycles):u' "$counts")"

# An event that is not counted has no number, and a counted event has the right number. An event
# with a counter mask can't be on a fixed counter.
many=instructions:u
for i in 1 2 3 4 5 6 7 8 9 a b c d e f; do
	many=$many,r${i}0000c0:u
done
try pmctl wrap --exact -- perf stat -e $many -o "$dir/table.many" -- "$loop" 50000000
is "too many events do not end perf" 0 $?
is "the first of too many events counts what it counts alone" "$(perf_count instructions:u "$loop" 50000000)" \
	"$(sed -n 's/ *\([0-9]*\) *instructions:u .*/\1/p' "$dir/table.many")"
says "the last of too many events is not counted" "$(cat "$dir/table.many")" '<not supported> +rf0000c0:u'
says "pmctl says why the last of too many events is not counted" "$errors" \
	'no counter was free for [0-9]+ events.* pmctl \(events of tasks, pid [0-9]+\) has [0-9]+ counters'
says "pmctl says that the program's own events have the counters" "$errors" "^All counters are in use by the program's own events"

# perf's samples come from the driver, and so do the records of programs executed later.
try pmctl wrap -- perf record -q -o "$dir/perf.data" -e instructions:u -c 1000003 -- "$loop" 50000000
is "perf record succeeds" 0 $?
samples=$(perf script -i "$dir/perf.data" 2>/dev/null | wc -l)
check "perf record has a sample for each period" [ "$samples" -ge 99 ]
check "perf record has no sample beyond the periods" [ "$samples" -le 101 ]
pmctl wrap -- perf record -q -g -F 1000 -o "$dir/perf.data.chains" -e instructions:u -- "$here/pmctl_origins" 20000000 \
	>/dev/null 2>&1
is "perf record -g -F succeeds" 0 $?
# perf needs addr2line to name inlined functions. Without addr2line, a chain ends at the first
# inlined function.
chains=$(perf script --no-inline -F ip -i "$dir/perf.data.chains" 2>/dev/null | awk '!NF { n += frames > 1; frames = 0 } NF { frames++ } END { print n + 0 }')
check "samples of perf record -g have callers" [ "$chains" -ge 5 ]
says "samples have the names of a program that was executed later" \
	"$(perf script --no-inline -F ip,sym,dso -i "$dir/perf.data.chains" 2>/dev/null)" ' main \(.*pmctl_origins\)'
is "pmctl says nothing about names" "" "$errors"
try pmctl wrap -- perf stat -e instructions:u -o "$counts" -- "$loop" 50000
is "pmctl says nothing about perf stat" "" "$errors"

# perf record -a also opens an event that never happens. One program already runs before the
# recording. Another program, which is no child of perf's, is executed during the recording.
"$here/pmctl_turns" 1000000 >"$dir/turns" &
program_pid=$!
{
	wait_until "[ -e $dir/recording ]"
	"$here/pmctl_origins" 20000000 >/dev/null
	: >"$dir/later"
} &
# shellcheck disable=SC2016 # the inner shell expands it
output=$(pmctl wrap -v -- perf record -a -q -o "$dir/perf.data" -e instructions:u -c 1000003 -- \
	sh -c ': >"$0/recording"; until [ -e "$0/later" ]; do sleep 0.1; done; exec "$@"' "$dir" \
	"$here/pmctl_more_turns" "$dir/turns" 20 2>&1)
is "perf record -a succeeds" 0 $?
kill $program_pid
wait
echo "$output" | sed 's/^/# /'
says "the event for tasks is the driver's" "$output" 'dummy.*an event of the driver.s'
report=$(perf report -i "$dir/perf.data" --stdio --sort comm,sym 2>/dev/null)
says "programs that ran before have names" "$report" 'pmctl_turns +\[\.\] turn'
says "programs that are executed during a recording have names" "$report" 'pmctl_origins +\[\.\] outer'

# A later program that opens no event of the driver's keeps the kernel's dummy events, and its
# samples go into their ring.
# shellcheck disable=SC2016 # the inner shell expands it
output=$(pmctl wrap -v -- sh -c 'perf stat -x, -o "$0/counts" -e instructions:u true
	exec perf record -a -q -o "$0/perf.data.clock" -e cpu-clock -- sleep 1' "$dir" 2>&1)
is "perf record -a of a software event succeeds after a program with an event of the driver's" 0 $?
echo "$output" | sed 's/^/# /'
check "perf record -a of a software event has samples" \
	[ "$(perf script -i "$dir/perf.data.clock" 2>/dev/null | wc -l)" -gt 0 ]

# perf top, with a program that begins later. It ends with its input, which is a pipe that stays open.
mkfifo "$dir/keys"
exec 8<>"$dir/keys"
pmctl wrap -- perf top --stdio -d 1 -e instructions:u -c 1000003 <&8 >"$dir/top" 2>&1 &
top_pid=$!
"$here/pmctl_turns" 1000000 >/dev/null &
program_pid=$!
wait_until "grep -q ' turn\$' $dir/top"
kill -INT $top_pid
kill $program_pid
wait
exec 8<&-
says "perf top names a program that began later" "$(grep ' turn$' "$dir/top" | tail -1)" '% +pmctl_turns +\[\.\] turn$'

# This profiler has a signal and a ring for each thread, like async-profiler.
try pmctl wrap -- "$here/pmctl_profiler" 20000000 >"$dir/profile"
is "a program with its own rings succeeds" 0 $?
{ echo "$errors"; cat "$dir/profile"; } | sed 's/^/# /'
is "the threads of a program with its own rings have all samples" 3 "$(grep -c \
	'^thread: anon_inode:\[perfmon.*\] samples all signals come places right chains whole' \
	"$dir/profile")"
"$here/pmctl_profiler" 20000000 >"$dir/profile"
sed 's/^/# /' "$dir/profile"
is "the kernel's perf gives the program the same samples" 3 "$(grep -c \
	'^thread: anon_inode:\[perf_event\] .* places right chains whole' "$dir/profile")"

# Wraps a static program, its threads and children, and programs of 32 bits.
for bits in "" _32; do
	pmctl wrap -- "$here/pmctl_events$bits" >"$dir/events" 2>&1
	is "the program$bits succeeds" 0 $?
	is "an early dummy$bits is the driver's, and stays enabled" 'anon_inode:[perfmon_event], 1 forks' \
		"$(printed_after "early dummy")"
	says "the program's event$bits is the driver's" "$(printed_after hardware)" '^anon_inode:\[perfmon.* cloexec 0'
	says "the event is closed on exec$bits if requested" "$(printed_after "closed on exec")" 'perfmon.* cloexec 1'
	is "prctl$bits is for the events of the calling thread" "1 2" "$(printed_after prctl)"
	is "the counts$bits are exact" "2000000 2000000 2000000" \
		"$(printed_after self) $(printed_after thread) $(printed_after child)"
done
says "a software event is the kernel's" "$(printed_after software)" '^anon_inode:\[perf_event\] cloexec 1'
says "attributes may end where a page ends" "$(printed_after "first size")" perfmon
is "one read gives both counts of a group" "2 equal" "$(printed_after group)"
is "the errors are the kernel's" "Bad address, Argument list too long, Bad file descriptor" \
	"$(printed_after "bad address"), $(printed_after "bad size"), $(printed_after "bad leader")"
is "a group can't have events of the driver and of the kernel" "Invalid argument" "$(printed_after "software in a group")"

try pmctl wrap -- "$here/pmctl_events" >"$dir/events"
is "a BPF program can't be attached" "Inappropriate ioctl for device" "$(printed_after bpf)"
says "pmctl says to run BPF tools without wrap" "$errors" 'Run BPF tools without'
try pmctl wrap -v -- "$here/pmctl_events" >/dev/null
says "pmctl shows the calls of prctl" "$errors" \
	'prctl\(PR_TASK_PERF_EVENTS_ENABLE\): 1 event of the driver'

# perf record lets both events write to one ring. An event of the driver's and an event of the
# kernel's can't share a ring.
try pmctl wrap -- perf record -q -o "$dir/mixed" -e instructions:u,page-faults -c 1000 -- true
check "perf record of the driver's and the kernel's events fails" [ $? != 0 ]
says "pmctl says why such a perf record fails" "$errors" "sampled (instructions|rc0), .*, and page-faults, .* can't write to the same ring"

# call_under_timer RESTART COMMAND... : opens events under COMMAND while a timer sends signals; RESTART is
# empty or `restart`. Succeeds if no call is interrupted.
# On a busy host a signal may come before pmctl has taken a call, so comes_true calls this again. If pmctl
# did not handle signals, calls would be interrupted in each attempt. With SA_RESTART, each signal begins a
# call anew: on a host where pmctl takes a call only after more than 200 us, the call never ends, and is tried
# with a slower timer.
# shellcheck disable=SC2317 # comes_true calls it
call_under_timer() {
	restarted=$1
	shift
	for microseconds in 200 400 800 1600; do
		try "$@" timeout -s KILL 60 "$here/pmctl_interrupted" "$microseconds" 500 ${restarted:+"$restarted"} >"$dir/calls"
		{ cat "$dir/calls" && echo "$errors"; } | sed 's/^/# /'
		[ ! -s "$dir/calls" ] || break
	done
	grep -q ' 0 interrupted' "$dir/calls"
}

# Signals arrive while pmctl has not yet taken a call; the program must see no EINTR.
for restart in "" restart; do
	comes_true "call_under_timer '$restart' pmctl wrap --"
	is "no call fails under a timer${restart:+ with SA_RESTART}" \
		"500 calls: 0 interrupted, 0 failed" "$(cat "$dir/calls")"
done

# The emulated PMU accepts events that it does not count: here the event of rr, an event with one of
# perf's names, and an event in a weak group. The program gets none of them, since it would take the
# 0 for a count.
if pmctl stat -e r01ff -- true 2>&1 | grep -q "QEMU's emulation"; then
	try pmctl wrap -- perf stat -x, -e r01ff,L1-icache-load-misses,instructions:u,'{branches,r02ff}:W' -o "$counts" -- "$loop" 50000000
	is "perf stat succeeds beside an event that is not counted" 0 $?
	is "an event that is not counted has no number" 3 \
		"$(grep -cE '^<not supported>,,(r01ff|L1-icache-load-misses|r02ff),' "$counts")"
	is "the others are counted" 2 "$(grep -cE '^[1-9][0-9]*,,(instructions:u|branches),' "$counts")"
	says "pmctl says which events are not counted" "$errors" 'branches, loads and stores only, and not .*r1ff, r2ff'
	try pmctl wrap -- perf record -q -o "$dir/perf.data" -e r01ff -- true
	check "perf record of an event that is not counted fails" [ $? != 0 ]
	says "pmctl says why there are no samples" "$errors" 'branches, loads and stores only, and not r1ff'
else
	for case in stat number others which record samples; do
		skip "an event that is not counted: $case" "there is no emulated PMU"
	done
fi

is "wrap exits with the code of the program" 42 "$(exit_code "$loop" 42 exit)"
# shellcheck disable=SC2016 # the inner shell expands it
is "wrap exits with 137 if it is killed" 137 "$(exit_code sh -c 'kill -9 $$')"
is "wrap exits with 127 if there is no such program" 127 "$(exit_code /nonexistent/program)"

# A signal goes to the program, also while other threads make calls all the time.
# ended_by SIGNAL PROGRAM...: prints pmctl's exit code, 137 if the signal does not end it.
# The program makes the file `begun` when it is ready for the signal.
ended_by() {
	ended_signal=$1
	shift
	rm -f "$dir/begun"
	pmctl wrap -- "$@" >/dev/null 2>&1 &
	wrap=$!
	comes_true "[ -e $dir/begun ]"
	kill -s "$ended_signal" $wrap
	comes_true "has_ended $wrap"
	kill -9 $wrap 2>/dev/null
	wait $wrap 2>/dev/null
	echo $?
}
# shellcheck disable=SC2016 # the inner shell expands it
for signal in TERM HUP; do
	is "SIG$signal ends the program" $((128 + $(kill -l $signal))) "$(ended_by $signal sh -c ': >"$0"; exec sleep 300' "$dir/begun")"
done
# shellcheck disable=SC2016 # the inner shell expands it
is "the program may handle the signal" 7 "$(ended_by TERM \
	sh -c 'trap "exit 7" TERM; : >"$0"; while :; do sleep 0.1; done' "$dir/begun")"
is "a signal ends a storm of calls" 143 "$(ended_by TERM "$here/pmctl_events" storm "$dir/begun")"

# The program's rights apply, not pmctl's.
chmod 666 /dev/perfmon
try pmctl wrap -v -- "$here/pmctl_as" -4711 "$here/pmctl_events" >"$dir/events"
says "events of a program that gave up rights are left to the kernel" "$errors" \
	'hardware|left to the kernel: the caller has other rights'
check "a program that gave up rights has no event of the driver" [ "$(grep -c perfmon "$dir/events")" = 0 ]
comes_true "call_under_timer restart '$here/pmctl_as' -4711 pmctl wrap --"
is "a user's calls end under a timer with SA_RESTART" \
	"500 calls: 0 interrupted, 0 failed" "$(cat "$dir/calls")"
cp "$(command -v pmctl)" "$dir/pmctl"
chmod 4755 "$dir/pmctl"
chmod 755 "$dir"
try "$here/pmctl_as" -4711 "$dir/pmctl" wrap -- true
is "wrap refuses to run with more rights than its user" 125 $?

try pmctl wrap -- pmctl wrap -- true
is "wrap refuses to run under wrap" 125 $?
says "wrap says that it runs under wrap" "$errors" 'another .pmctl wrap.'

finish
