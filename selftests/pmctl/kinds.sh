#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl on a hybrid processor with a big core and a small one. On big cores of the virtual
# PMU, the event r81d0 is instructions. On small cores it would be branches, but a raw event is not
# counted there.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

event=r81d0:u
n=10000000
period=100003
loop=$here/pmctl_loop

# cpu_of PMU: prints the only CPU of Linux's PMU
cpu_of() {
	cat "/sys/bus/event_source/devices/$1/cpus"
}
big=$(cpu_of cpu_core)
small=$(cpu_of cpu_atom)
on_big="taskset -c $big"
on_small="taskset -c $small"

root=$(mktemp -d)
# shellcheck disable=SC2016,SC2034 # ktap.sh evaluates it
at_end='kill $server 2>/dev/null; rmdir "$root/a" "$root/b" 2>/dev/null; umount "$root"; rmdir "$root"'
mount -t cgroup2 none "$root"
mkdir "$root/a"

# is_close NUMBER COUNT: succeeds if COUNT is at least NUMBER, and at most a twentieth more
# shellcheck disable=SC2317 # check calls it
is_close() {
	[ "$2" -ge "$1" ] && [ "$2" -lt $(($1 + $1 / 20)) ]
}

# count_of EVENT: prints the event's count in the output of stat -x,
count_of() {
	echo "$errors" | grep ",$1," | cut -d, -f1
}

plan 65

# The program runs on both kinds of cores, one after the other, and then on only one kind.
both="$on_big $loop $n; $on_small $loop $n"

record() {
	rm -f perf.data
	try pmctl record -e $event -c $period "$@"
}

# sampled_cpus: prints the CPUs that have samples, as one word
sampled_cpus() {
	pmctl script -F cpu | sort -u | tr -dc '0-9\n' | tr '\n' ' '
}

record -- sh -c "$both"
is "record samples an event of big cores" 0 $?
says "record says which CPUs are sampled" "$errors" "$event is sampled on CPUs $big only"
check "each of the event's periods on a big core has a sample" is_close $((2 * n / period - 1)) "$(pmctl script | wc -l)"
is "samples are of the big core" "$(printf '%03d ' "$big")" "$(sampled_cpus)"
record -a -- sh -c "$both"
is "record -a samples an event of big cores" 0 $?
check "record -a has the samples of the big core" [ "$(pmctl script | wc -l)" -ge $((2 * n / period - 1)) ]
record -C "$small" -- true
is "record -C of small cores refuses an event of big ones" 125 $?
says "the refusal names the kinds of cores" "$errors" "cpu_core \(CPUs $big\)"
record -e instructions:u -- sh -c "$both"
is "record samples an event of big cores and one of all" 0 $?
check "the event of all cores has samples of each" \
	is_close $((4 * n / period - 2)) "$(pmctl script -F event | grep -c instructions)"
sh -c "while :; do $both; done" &
process=$!
record -p $process --duration 0.5
is "record -p samples an event of big cores" 0 $?
kill $process

try pmctl stat -x, -e $event -- sh -c "$both"
is "stat counts an event of big cores" 0 $?
check "the count is that of the big core" is_close $((2 * n)) "$(count_of $event)"
# shellcheck disable=SC2086 # the words of a command
try $on_small pmctl stat -x, -e $event,instructions:u -- "$loop" $n
is "stat fails if no task was on a big core" 125 $?
is "an event of big cores was not counted on a small one" '<not counted>' "$(count_of $event)"
says "stat says that no task was on a core that has the event" "$errors" 'no task ran on a core'
check "an event of all cores was counted on a small one" is_close $((2 * n)) "$(count_of instructions:u)"

# Events of one kind of core have perf's names. perf's counts of the same loops are the same.
per_kind=cpu_core/instructions/u,cpu_atom/instructions/u,cpu_atom/event=0xc0/u
try pmctl stat -x, -e $per_kind -- sh -c "$both; $on_small $loop $n"
is "stat counts events of each kind of core" 0 $?
for counted in "cpu_core/instructions/u 2" "cpu_atom/instructions/u 4" "cpu_atom/event=0xc0/u 4"; do
	name=${counted% *}
	check "$name has the count of its cores" is_close $((${counted#* } * n)) "$(count_of "$name")"
done
# shellcheck disable=SC2086 # the words of a command
try $on_big pmctl stat -x, -e cpu_core/cycles/u,cpu_atom/cycles/u -- "$loop" $n
is "stat fails if no task was on a small core" 125 $?
is "an event of small cores was not counted on a big one" '<not counted>' "$(count_of cpu_atom/cycles/u)"
try pmctl stat -x, -a -A -e cpu_core/instructions/u,cpu_atom/r00c0/u -- sh -c "$both"
is "stat -a counts events of each kind of core" 0 $?
is "stat -A has lines for the CPUs of a kind only" "cpu_atom CPU$small cpu_core CPU$big" \
	"$(echo "$errors" | sed -nE 's/^(CPU[0-9]+),.*(cpu_core|cpu_atom).*/\2 \1/p' | sort | tr '\n' ' ' | sed 's/ $//')"
try pmctl stat -x, -a -e $event -- sh -c "$both"
is "stat -a counts an event of big cores" 0 $?
check "stat -a has the count of the big core" [ "$(count_of $event)" -ge $((2 * n)) ]
try pmctl stat -C "$big" -e cpu_atom/cycles/ -- true
is "stat -C of big cores refuses an event of small ones" 125 $?
try pmctl stat -e cpu_lowpower/cycles/ -- true
is "a kind of core that is missing is refused" 2 $?
says "the refusal names the kinds of cores that exist" "$errors" 'cpu_core.* and .*cpu_atom'

rm -f perf.data
try pmctl record -e cpu_atom/instructions/u,cpu_core/r00c0/u -c $period -- sh -c "$both"
is "record samples events of each kind of core" 0 $?
is "record does not say what the user has asked for" 0 "$(echo "$errors" | grep -c 'only: the kind')"
check "the event of small cores has samples of each of its periods" \
	is_close $((2 * n / period - 1)) "$(pmctl script -F event | grep -c cpu_atom/)"
is "perf reads the names of events of one kind" "cpu_atom/instructions/u cpu_core/r00c0/u" \
	"$(perf evlist -i perf.data | grep / | tr '\n' ' ' | sed 's/ $//')"
says "report has the samples of big cores" "$(pmctl report)" 'cpu_core/r00c0/u'
says "report has the samples of small cores" "$(pmctl report)" 'cpu_atom/instructions/u'

# perf opens an event for each kind of core, and shows each by itself. By default it scales each
# count up to the whole time.
try pmctl wrap -v -- perf stat --no-scale -x, -o counts -e instructions:u -- sh -c "$both; $on_small $loop $n"
is "perf stat runs on the driver's events" 0 $?
check "both events of perf's are the driver's" [ "$(echo "$errors" | grep -c "an event of the driver's")" -ge 2 ]
errors=$(cat counts)
for counted in "cpu_core/instructions/u 2" "cpu_atom/instructions/u 4"; do
	name=${counted% *}
	check "perf shows $name of its cores" is_close $((${counted#* } * n)) "$(count_of "$name")"
done
# shellcheck disable=SC2086 # the words of a command
try pmctl bench -r 2 -e cpu_core/instructions/u --export=json -- $on_big "$loop" $n >/dev/null
is "bench counts an event of one kind of core" 0 $?
try pmctl record --timebase cpu_core/cycles/ -- true
is "a trace refuses an event of one kind of core" 2 $?

# There are more events than counters: big cores count the events from 0xd0 to 0xdf on four counters
# only.
many=r81d0:u
for unit in 1 2 3 4 5 6 7 8 9 a b c d e f; do
	many=$many,r0${unit}d1:u
done
try pmctl stat -x, -r 1 -e "$many" -- sh -c "$both"
is "stat -r 1 counts 16 raw events in several runs" 0 $?
check "the first of 16 has its count" is_close $((2 * n)) "$(count_of r81d0:u)"
is "each of 16 has a count" 16 "$(echo "$errors" | grep -cE '^[0-9]+,,r')"

# kinds_of EVENT: prints the kinds of cores that have the event, as the JSON of pmctl list names
# them
kinds_of() {
	pmctl list --json "$1" | tr -d ' \n' | grep -o "\"name\":\"$1\"[^}]*" | grep -o '"kinds":\[[^]]*\]'
}
is "list has the kinds of an event of both" '"kinds":["cpu_core","cpu_atom"]' "$(kinds_of instructions)"
is "list has the kind of an event that only big cores have" '"kinds":["cpu_core"]' "$(kinds_of INST_RETIRED.PREC_DIST)"
says "info has the CPUs and counters of each kind" "$(pmctl info)" "cpu_atom \(CPUs $small\): [0-9]+ general and [0-9]+ fixed counters"
says "doctor has the kinds of cores" "$(pmctl doctor)" 'cpu_core'

# pmctl makes groups of these events by itself. The interval is longer than any run, so that there
# is only one interval.
try pmctl stat -x, -I 1000000 -e instructions:u,$event -- sh -c "$both"
is "stat -I counts events of different kinds" 0 $?
check "stat -I has the count of the big core" is_close $((2 * n)) "$(echo "$errors" | grep ",$event," | cut -d, -f2)"
try pmctl stat -d -I 1000000 -- true
is "stat -d -I succeeds" 0 $?
try pmctl stat -x, -G a -e instructions:u,$event -- \
	sh -c "echo 0 >$root/a/cgroup.procs; $both"
is "stat -G counts events of different kinds" 0 $?
check "stat -G has the count of the big core" is_close $((2 * n)) "$(count_of $event)"
try pmctl stat -x, -G a -C "$big,$small" -e instructions:u,$event -- \
	sh -c "echo 0 >$root/a/cgroup.procs; $both"
is "stat -G -C counts events of different kinds" 0 $?
check "stat -G -C has the count of the big core" is_close $((2 * n)) "$(count_of $event)"
check "stat -G -C has the count of all cores" is_close $((4 * n)) "$(count_of instructions:u)"

# A series of a cgroup has the count of all cores, or is absent.
mkdir "$root/b"
pmctl serve -e instructions:u,$event --cgroups '*' >serve.log 2>&1 &
server=$!
wait_until "grep -qs 'pmctl: serving' serve.log || has_ended $server"
# get FILE: writes the page of the server to FILE
get() { wget -q -O "$1" http://127.0.0.1:9743/metrics; }
# value FILE EVENT ID: prints the count of the event in the cgroup
value() {
	awk -v event="event=\"$2\"" -v id="id=\"/$3\"" \
		'/^container_perf_events_total/ && index($0, event) && index($0, id) { print $NF }' "$1"
}
$on_big sh -c "echo 0 >$root/b/cgroup.procs; exec $loop $n"
get page
check "serve counts an event of big cores in a cgroup on a big core" is_close $((2 * n)) "$(value page $event b)"
$on_small sh -c "echo 0 >$root/a/cgroup.procs; exec $loop $n"
get page
is "the cgroup on a small core has no series of that event" "" "$(value page $event a)"
check "the cgroup on a small core has a series of an event of all cores" \
	is_close $((2 * n)) "$(value page instructions:u a)"
kill $server
wait $server

try pmctl stat -x, -a --multiplex -e $event -- sh -c "$both"
is "stat --multiplex counts an event of big cores" 0 $?
check "stat --multiplex has the count of the big core" [ "$(count_of $event)" -ge $((2 * n)) ]
try pmctl stat -x, -A -a --multiplex -e $event,instructions:u -- sh -c "$both"
is "stat -A counts an event of big cores" 0 $?
is "stat -A has a line for the big core" 1 "$(echo "$errors" | grep -c ",$event,")"
try pmctl stat -C "$small" --multiplex -e $event -- true
is "stat -C of small cores refuses an event of big ones" 125 $?

finish
