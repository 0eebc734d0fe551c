#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl wrap: programs of perf_event_open(2), unchanged, on the driver's counters; with
# perf on the kernel's beside them.

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

# wrapped_count EVENT COMMAND...: what perf counts under pmctl
wrapped_count() {
	count_event=$1
	shift
	pmctl wrap -- perf stat -x, -e "$count_event" -o "$counts" -- "$@" >/dev/null 2>&1
	awk -F, '!/^#/ && $1 ~ /^[0-9]+$/ { print $1 }' "$counts"
}

# exit_code COMMAND...: pmctl's exit code
exit_code() {
	pmctl wrap -- "$@" >/dev/null 2>&1
	echo $?
}

# line NAME: what pmctl_events printed behind NAME
line() {
	sed -n "s/^$1: //p" "$dir/events"
}

plan 69

# perf's own table with the driver's counts. perf shows no count if its clock did not
# move, so the loops are long.
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

# Control groups, as many as there are, by perf's own option
groups=$dir/groups
mkdir "$groups"
mount -t cgroup2 none "$groups"
mkdir "$groups/a" "$groups/b"
trap 'chmod "$mode" /dev/perfmon; rmdir "$groups/a" "$groups/b"; umount "$groups"; rm -rf "$dir" "$counts"' EXIT

# group_counts N: what perf counts of a, in which a loop runs, and of b
group_counts() {
	pmctl wrap -v -- perf stat -x, -a -e instructions:u --for-each-cgroup a,b -o "$counts" -- \
		sh -c "echo \$\$ >$groups/a/cgroup.procs && exec $loop $1" 2>"$dir/log"
	awk -F, '$3 == "instructions:u" && $4 == "a" { print $1 }' "$counts"
}

a=$(group_counts 50000000)
b=$(group_counts 60000000)
is "a control group's count is exact" 20000000 $((${b:-0} - ${a:-0}))
check "it has the whole loop" [ "${a:-0}" -gt 100000000 ]
is "another one has none of it" 0 "$(awk -F, '$4 == "b" { print $1 + 0 }' "$counts")"
says "the events are the driver's" "$(cat "$dir/log")" "an event of the driver's"

pmctl wrap -v -- perf stat -e instructions:u,task-clock -- "$loop" 50000000 2>"$dir/table"
is "perf stat succeeds" 0 $?
says "its events are the driver's" "$(cat "$dir/table")" \
	"perf_event_open\((rc0|instructions):u, pid .*: an event of the driver's"
says "its software events are the kernel's" "$(cat "$dir/table")" "left to the kernel"
says "its table has the driver's event" "$(cat "$dir/table")" '^ +[0-9,]+ +instructions:u'
says "its table has the kernel's event" "$(cat "$dir/table")" '^ +[0-9,.]+ +(msec )?task-clock'

pmctl wrap -- perf stat -x, -e '{instructions:u,cycles:u}' -o "$counts" -- "$loop" 50000000
is "a group is counted" 2 "$(grep -cE '^[1-9][0-9]*,,(instructions|cycles):u' "$counts")"

# What is not counted comes with no number, and what is with the right one.
many=instructions:u
for i in 1 2 3 4 5 6 7 8 9 a b c d e f; do
	many=$many,r0${i}c0:u
done
try pmctl wrap --exact -- perf stat -e $many -o "$dir/table.many" -- "$loop" 50000000
is "too many events do not end perf" 0 $?
is "the first is counted as alone" "$(perf_count instructions:u "$loop" 50000000)" \
	"$(sed -n 's/ *\([0-9]*\) *instructions:u .*/\1/p' "$dir/table.many")"
says "the last is not" "$(cat "$dir/table.many")" '<not supported> +r0fc0:u'
says "pmctl says why" "$errors" \
	'no counter was free for [0-9]+ events.* pmctl \(events of tasks, pid [0-9]+\) has [0-9]+ counters'

# perf's samples are the driver's, and so are the records of what is executed later.
try pmctl wrap -- perf record -q -o "$dir/perf.data" -e instructions:u -c 1000003 -- "$loop" 50000000
is "perf record succeeds" 0 $?
samples=$(perf script -i "$dir/perf.data" 2>/dev/null | wc -l)
check "perf record has a sample for each period" [ "$samples" -ge 99 ]
check "and no more" [ "$samples" -le 101 ]
pmctl wrap -- perf record -q -g -F 1000 -o "$dir/perf.data.chains" -e instructions:u -- "$here/pmctl_origins" 20000000 \
	>/dev/null 2>&1
is "perf record -g -F succeeds" 0 $?
# Without addr2line, perf has no functions that were inlined, and ends at the first.
chains=$(perf script --no-inline -F ip -i "$dir/perf.data.chains" 2>/dev/null | awk '!NF { n += frames > 1; frames = 0 } NF { frames++ } END { print n + 0 }')
check "its samples have callers" [ "$chains" -ge 5 ]
says "they have the names of a program that was executed later" \
	"$(perf script --no-inline -F ip,sym,dso -i "$dir/perf.data.chains" 2>/dev/null)" ' main \(.*pmctl_origins\)'
is "pmctl says nothing about names" "" "$errors"
try pmctl wrap -- perf stat -e instructions:u -o "$counts" -- "$loop" 50000
is "pmctl says nothing about perf stat" "" "$errors"

# perf record -a asks for an event that never happens, beside the others.
"$here/pmctl_turns" 1000000 >"$dir/turns" &
runs=$!
output=$(pmctl wrap -v -- perf record -a -q -o "$dir/perf.data" -e instructions:u -c 1000003 -- \
	"$here/pmctl_more_turns" "$dir/turns" 20 2>&1)
is "perf record -a succeeds" 0 $?
kill $runs
wait
echo "$output" | sed 's/^/# /'
says "the event for tasks is the driver's" "$output" 'dummy.*an event of the driver.s'
says "programs that ran before have names" \
	"$(perf report -i "$dir/perf.data" --stdio --sort comm,sym 2>/dev/null)" \
	'pmctl_turns +\[\.\] turn'

# A profiler with a ring for each thread and signals, as async-profiler.
try pmctl wrap -- "$here/pmctl_profiler" 20000000 >"$dir/profile"
is "a program with its own rings succeeds" 0 $?
{ echo "$errors"; cat "$dir/profile"; } | sed 's/^/# /'
is "its threads have all samples of the driver" 3 "$(grep -c \
	'^thread: anon_inode:\[perfmon.*\] samples all signals come places right chains whole' \
	"$dir/profile")"
"$here/pmctl_profiler" 20000000 >"$dir/profile"
sed 's/^/# /' "$dir/profile"
is "the kernel's perf gives it the same" 3 "$(grep -c \
	'^thread: anon_inode:\[perf_event\] .* places right chains whole' "$dir/profile")"

# A static program, its threads and children, and programs of 32 bits.
for bits in "" _32; do
	pmctl wrap -- "$here/pmctl_events$bits" >"$dir/events" 2>&1
	is "the program$bits succeeds" 0 $?
	says "its event$bits is the driver's" "$(line hardware)" '^anon_inode:\[perfmon.* cloexec 0'
	says "it is closed on exec$bits if wanted" "$(line "closed on exec")" 'perfmon.* cloexec 1'
	is "prctl$bits is for the events of the calling thread" "1 2" "$(line prctl)"
	is "the counts$bits are exact" "2000000 2000000 2000000" \
		"$(line self) $(line thread) $(line child)"
done
says "a software event is the kernel's" "$(line software)" '^anon_inode:\[perf_event\] cloexec 1'
says "attributes may end with the page" "$(line "first size")" perfmon
is "a group is read at once" "2 equal" "$(line group)"
is "the errors are the kernel's" "Bad address, Argument list too long, Bad file descriptor" \
	"$(line "bad address"), $(line "bad size"), $(line "bad leader")"
is "no group is of both" "Invalid argument" "$(line "software in a group")"

try pmctl wrap -- "$here/pmctl_events" >"$dir/events"
is "a BPF program can't be attached" "Inappropriate ioctl for device" "$(line bpf)"
says "pmctl says that it is for events of the kernel's" "$errors" 'Run BPF tools without'
try pmctl wrap -v -- "$here/pmctl_events" >/dev/null
says "pmctl shows the calls of prctl" "$errors" \
	'prctl\(PR_TASK_PERF_EVENTS_ENABLE\): 1 event of the driver'

# Signals while pmctl has not yet taken a call. Those that come before are told.
for restart in "" restart; do
	# shellcheck disable=SC2086 # it is a word or none
	try pmctl wrap -- "$here/pmctl_interrupted" 200 500 $restart >"$dir/calls"
	{ cat "$dir/calls"; echo "$errors"; } | sed 's/^/# /'
	is "no call fails under a timer${restart:+ with SA_RESTART}" \
		"500 calls: 0 interrupted, 0 failed" "$(cat "$dir/calls")"
done

# The event of rr, which the emulated PMU takes and does not count.
if pmctl stat -e UOPS_ISSUED.ANY -- true 2>&1 | grep -q "QEMU's emulation"; then
	try pmctl wrap -- perf stat -x, -e r01c4 -o "$counts" -- "$loop" 1000
	says "pmctl says that an event is not counted" "$errors" 'counts instructions, clocks and branches only: r1c4'
else
	skip "pmctl says that an event is not counted" "there is no emulated PMU"
fi

is "wrap exits with the code of the program" 42 "$(exit_code "$loop" 42 exit)"
# shellcheck disable=SC2016 # the inner shell expands it
is "wrap exits with 137 if it is killed" 137 "$(exit_code sh -c 'kill -9 $$')"
is "wrap exits with 127 if there is no such program" 127 "$(exit_code /nonexistent/program)"

# A signal is for the program, also while others call all the time.
# ended_by SIGNAL PROGRAM...: the exit code of pmctl, 137 if it does not end by the signal.
# The program makes the file `begun` when it is ready for it.
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
is "the program may decide otherwise" 7 "$(ended_by TERM \
	sh -c 'trap "exit 7" TERM; : >"$0"; while :; do sleep 0.1; done' "$dir/begun")"
is "a storm of calls ends by a signal" 143 "$(ended_by TERM "$here/pmctl_events" storm "$dir/begun")"

# Rights: those of the program, not those of pmctl.
chmod 666 /dev/perfmon
try pmctl wrap -v -- "$here/pmctl_as" -4711 "$here/pmctl_events" >"$dir/events"
says "a program that has given up rights is the kernel's" "$errors" \
	'hardware|left to the kernel: the caller has other rights'
check "it has no event of the driver's" [ "$(grep -c perfmon "$dir/events")" = 0 ]
try "$here/pmctl_as" -4711 pmctl wrap -- "$here/pmctl_interrupted" 200 500 restart >"$dir/calls"
{ cat "$dir/calls"; echo "$errors"; } | sed 's/^/# /'
is "a user's calls end under a timer with SA_RESTART" \
	"500 calls: 0 interrupted, 0 failed" "$(cat "$dir/calls")"
cp "$(command -v pmctl)" "$dir/pmctl"
chmod 4755 "$dir/pmctl"
chmod 755 "$dir"
try "$here/pmctl_as" -4711 "$dir/pmctl" wrap -- true
is "pmctl with more rights refuses" 125 $?

try pmctl wrap -- pmctl wrap -- true
is "pmctl in pmctl refuses" 125 $?
says "and says why" "$errors" 'another .pmctl wrap.'

finish
