#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl stat -M: metrics of a program whose counts are known are compared with perf's metrics
# of the same program. Some metrics can't be counted.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The program executes 2 instructions in each iteration, one of them a branch.
loop=$here/pmctl_loop

# metric NAME OPTION... : prints the value of a metric of the loop, from the output of -x
metric() {
	name=$1
	shift
	pmctl stat -M "$name" -x, -o "$dir/csv" "$@" -- "$loop" 20000000 2>/dev/null
	awk -F, -v name="$name" '$NF ~ name "$" && $1 == "" { print $(NF - 1) }' "$dir/csv"
}

# answer COMMAND... : prints the command's output and its exit code
answer() {
	"$@" 2>&1
	echo "exit code $?"
}

# near A B : succeeds if A is within 2 % of B
# shellcheck disable=SC2317
near() {
	awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0.98 * b && a < 1.02 * b) }'
}

plan 27

# The clocks of the virtual PMU have constant rates: 5 cycles are 4 instructions.
check "insn_per_cycle is that of the loop" near "$(metric insn_per_cycle)" 0.8
# The kernel has another share of branches, and executes more on a busy host.
check "branches_per_instruction is that of the loop" \
	near "$(metric branches_per_instruction --all-user)" 0.5
check "metrics may be counted on all CPUs" near "$(metric insn_per_cycle -a)" 0.8
says "metrics of several CPUs stand side by side" "$(answer pmctl stat -a -A -M insn_per_cycle -- "$loop" 1000000)" \
	"^insn_per_cycle( +[0-9]\\.[0-9]{2}){$(nproc)}\$"

# perf has the same metric, which it computes from the same events.
perfs=$(perf stat -x, -M insn_per_cycle -- "$loop" 20000000 2>&1 |
	awk -F, '$NF ~ /insn_per_cycle$/ { print $(NF - 1) }')
if [ -n "$perfs" ]; then
	ours=$(metric insn_per_cycle)
	check "perf has the same insn_per_cycle" \
		[ "$(printf '%.1f' "$perfs")" = "$(printf '%.1f' "$ours")" ]
else
	skip "perf has the same insn_per_cycle" "this perf has no such metric"
fi

# A metric's value is what its formula gives with the counts shown.
pmctl stat -j -M insn_per_cycle -o "$dir/json" -- "$loop" 1000000
counts=$(sed -n 's/.*"counter-value":"\([0-9]*\)\..*"event":"\([a-z]*\)[":].*/\2 \1/p' "$dir/json")
is "JSON has a line for each event" 2 "$(echo "$counts" | wc -l)"
expected=$(echo "$counts" |
	awk '{ of[$1] = $2 } END { printf "%.4f", of["instructions"] / of["cycles"] }')
value=$(sed -n 's/.*"metric-value":"\([0-9.]*\)","metric-unit":"insn_per_cycle".*/\1/p' "$dir/json")
is "JSON has the ratio of its counts" "$expected" "$(printf '%.4f' "$value")"
is "--metric-only has no counts" 1 \
	"$(pmctl stat -j -M insn_per_cycle --metric-only -o - -- true | wc -l)"
is "v1 has the metric" 1 \
	"$(pmctl stat --json=v1 -M insn_per_cycle -o - -- true | grep -c '"metric":"insn_per_cycle"')"

# If pmctl is held up for several intervals, they become one: the command runs until there are two.
rm -f "$dir/csv"
pmctl stat -M insn_per_cycle -I 50 -x, -o "$dir/csv" -- \
	sh -c "until [ \"\$(grep -c ',insn_per_cycle\$' $dir/csv)\" -ge 2 ]; do $loop 1000000; done"
check "each interval has the metric" [ "$(grep -c ',insn_per_cycle$' "$dir/csv")" -ge 2 ]

# Intel and AMD have different names for a model's own metrics.
if grep -q AuthenticAMD /proc/cpuinfo; then
	own=all_tlbs_flushed counted=Default
	model=amdzen4
else
	own=tma_retiring counted=tma_info_thread_ipc
	model=skylake
fi
says "the model's metrics are listed" "$(pmctl list --model $model metrics $own)" "$own"
says "a metric that the emulation lacks is refused with the reason" \
	"$(answer pmctl stat -M $own -- true)" "QEMU's emulation"
is "a metric that the emulation lacks is a mistake in the command line" 2 "$(pmctl stat -M $own -- true >/dev/null 2>&1; echo $?)"
check "a metric or a group of the model is counted" pmctl stat -M $counted -o /dev/null -- true
says "stat suggests a name for an unknown metric" "$(answer pmctl stat -M insn_per_cycel -- true)" "Did you mean \`insn_per_cycle\`"
says "stat says which metrics of a group are left out" "$(answer pmctl stat -M Default -- true)" "left out"

# events NUMBER : prints NUMBER events that only general counters can count
events() { seq "$1" | sed 's|.*|cpu/event=0xc4,umask=0,cmask=&/u|' | tr '\n' , | sed 's/,$//'; }

# Events of a task use the same counters as events of other tasks, in turns: here another task uses
# all counters but one.
general=$(pmctl info | awk '$1 == "general" { print $2 }')
sleep 1000 &
sleeper=$!
pmctl stat -o /dev/null -e "$(events $((general - 1)))" -p $sleeper &
holder=$!
wait_until "has_events $holder"
check "metrics of a command need not wait for the counters of other tasks" \
	pmctl stat -e "$(events 2)" -M insn_per_cycle -o /dev/null -- true
kill $sleeper
wait $holder

# With more events than counters, stat does not run a command that it may run only once.
many=
for number in $(seq 24); do
	many=$many${many:+,}cpu/event=0xc0,cmask=$number/
done
output=$(answer pmctl stat -e "$many" -M insn_per_cycle -- touch "$dir/ran")
says "too many events are refused" "$output" "need"
check "the command of too many events has not run" [ ! -e "$dir/ran" ]
says "stat suggests -r 1 for too many events" "$output" "[-]r 1"
output=$(answer pmctl stat -r 1 -e "$many" -M insn_per_cycle -- sh -c "echo >>$dir/runs")
says "stat -r 1 says that it runs once for each part" "$output" "once for each part"
check "stat -r 1 runs the command more than once" [ "$(wc -l <"$dir/runs")" -ge 2 ]
says "stat -r 1 says how often the command ran" "$output" "ran $(wc -l <"$dir/runs") times"
says "stat -r 1 shows insn_per_cycle" "$output" "insn_per_cycle"
says "intervals can't be repeated" \
	"$(answer pmctl stat -I 100 -e "$many" -M insn_per_cycle -- true)" "an interval can't be counted again"
says "a running process can't be repeated" \
	"$(answer pmctl stat -p $$ -e "$many" -M insn_per_cycle)" "can't be run again"
says "a command that is killed between the runs leaves no numbers" \
	"$(answer pmctl stat -r 1 -e "$many" -M insn_per_cycle -- sh -c 'kill -9 $$')" "there are no numbers"
finish
