#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl stat of events of Linux's PMUs outside of cores, and compares with perf's counts of
# the same events. Each kernel has `msr`, with the event `smi` on Intel's processors. LINUX=power in
# the environment: there is also `power`, whose numbers are scaled, with the module of the stock
# kernel.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
in_own_dir

# shellcheck disable=SC2034 # for the end
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
# shellcheck disable=SC2034 # for the end
mode=$(stat -c %a /dev/perfmon)
# shellcheck disable=SC2016 # it is evaluated at the end
at_end='echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid; chmod "$mode" /dev/perfmon'
loop=$here/pmctl_loop
powers=0
[ "${LINUX-}" != power ] || powers=8
smi='' smis=0
[ ! -e /sys/bus/event_source/devices/msr/events/smi ] || smi=msr/smi/ smis=4
plan $((38 + powers + smis))

# field N EVENT FILE: prints field N of EVENT's line of -x
field() {
	awk -F, -v n="$1" -v event="$2" '$3 == event { print $n }' "$3"
}

# between NUMBER LEAST MOST: succeeds if NUMBER is between LEAST and MOST
# shellcheck disable=SC2317 # check calls it
between() {
	awk -v x="$1" -v least="$2" -v most="$3" 'BEGIN { exit !(x != "" && x >= least && x <= most) }'
}

# rate FILE: prints the ticks of msr/tsc/ per microsecond of the time in which it was counted
rate() {
	awk -F, '$3 == "msr/tsc/" { printf "%d", $1 * 1000 / $(NF - 3) }' "$1"
}

# shape FILE: prints the lines of -x or --json with each number as N, without blanks
shape() {
	grep -v '^#' "$1" | sed -E '/^$/d; s/ //g; s/[0-9]+(\.[0-9]+)?/N/g'
}

# have_same_rate: counts with perf, with a pmctl that starts perf, and with a pmctl that perf
# starts; succeeds if the first two have the same rate. A CPU that stands still between the readings
# of an event and of its time changes the rate: then they count once more.
# shellcheck disable=SC2317 # comes_true calls it
have_same_rate() {
	pmctl stat -a -x, -e msr/tsc/ -o outer -- perf stat -a -x, -e msr/tsc/ -o middle -- \
		pmctl stat -a -x, -e msr/tsc/ -o inner -- "$loop" 20000000 >out
	between "$(rate outer)" "$(($(rate middle) * 98 / 100))" "$(($(rate middle) * 102 / 100))"
}

# A pmctl that starts perf counts more than perf, and a pmctl that perf starts counts less.
comes_true have_same_rate
middle=$(field 1 msr/tsc/ middle)
check "perf's clock is in pmctl's around it" between "$middle" 1 "$(field 1 msr/tsc/ outer)"
check "and has pmctl's in it" between "$(field 1 msr/tsc/ inner)" 1 "$middle"
check "both have the same rate: $(rate middle), $(rate outer)" between "$(rate outer)" \
	"$(($(rate middle) * 98 / 100))" "$(($(rate middle) * 102 / 100))"
pmctl stat -a -x, -e msr/event=0/ -o raw -- "$loop" 1000 >out
check "a field does what the name does" between "$(field 1 msr/event=0/ raw)" 1 1e15
if [ -n "$smi" ]; then
	pmctl stat -a -x, -e $smi -o smi -- "$loop" 1000 >out
	is "an event that never happens" 0 "$(field 1 $smi smi)"
fi

# The output has perf's formats.
for form in '-x,' --json; do
	pmctl stat -a $form -e msr/tsc/ -o ours -- true
	perf stat -a $form -e msr/tsc/ -o theirs -- true
	is "stat $form is as perf's" "$(shape theirs)" "$(shape ours)"
done

# Events of cores and of other PMUs are in one table, in the order of -e.
pmctl stat -a -x, -e "instructions:u,msr/tsc/,branches:u,task-clock${smi:+,$smi}" -o all -- "$loop" 1000000 >out
is "all have the order of -e" "instructions:u msr/tsc/ branches:u task-clock${smi:+ $smi}" \
	"$(cut -d, -f3 all | tr '\n' ' ' | sed 's/ $//')"
check "the cores' are exact beside it" between "$(field 1 instructions:u all)" 2000000 2300000
pmctl stat -a -e instructions:u,msr/tsc/ -o table -- "$loop" 1000000 >out
says "a table for people has both" "$(cat table)" '^ +[0-9,]+      msr/tsc/$'

# Prints the counts of CPUs, sockets and cores.
cpus=$(nproc)
pmctl stat -a -A -x, -e msr/tsc/,instructions:u -o parts -- true
is "-A has a line for each CPU" "$cpus" "$(grep -c '^CPU[0-9]*,[0-9]*,,msr/tsc/,' parts)"
is "with its other events" "$(seq 0 $((cpus - 1)) | sed 's/.*/CPU& msr\/tsc\/ CPU& instructions:u/' | tr '\n' ' ')" \
	"$(awk -F, '{ printf "%s %s ", $1, $4 }' parts)"
pmctl stat -a --per-socket -x, -e msr/tsc/ -o parts -- true
says "--per-socket says of how many CPUs" "$(cat parts)" "^S0,$cpus,[0-9]+,,msr/tsc/,"
pmctl stat -a --per-core -x, -e msr/tsc/ -o parts -- true
check "--per-core has cores" grep -q '^S0-D0-C0,[0-9],[0-9]*,,msr/tsc/,' parts
pmctl stat -C 0 -A -x, -e msr/tsc/ -o parts -- true
is "-C counts on its CPUs" CPU0 "$(cut -d, -f1 parts)"

# Counts in several runs, and in intervals.
pmctl stat -a -r 3 -x, -e msr/tsc/ -o runs -- true
says "the mean of runs has its error" "$(cat runs)" '^[0-9]+,,msr/tsc/,[0-9.]+%,'
# have_own_parts: succeeds if each of three intervals has its own count, not the sum of the previous
# intervals. Counts are divided by the length of the interval, because on a busy host an interval
# may end late. A CPU that stands still between the two readings is counted late: then other
# intervals are tried.
# shellcheck disable=SC2317 # comes_true calls it
have_own_parts() {
	pmctl stat -a -I 100 --interval-count 3 -x, -e msr/tsc/ -o intervals -- sleep 60
	awk -F, '
		{ rate = $2 / ($1 - end); end = $1 }
		NR == 1 { least = most = rate }
		{ if (rate < least) least = rate; if (rate > most) most = rate }
		END { exit !(least > 0 && most < 2.5 * least) }' intervals
}
check "each has its own part" comes_true have_own_parts
is "there are three intervals" 3 "$(grep -c ',msr/tsc/,' intervals)"
# is_counted_late: succeeds if the event was counted after a delay. A busy pmctl may be late, too.
# shellcheck disable=SC2317 # comes_true calls it
is_counted_late() {
	pmctl stat -a -x, -D 50 -e msr/tsc/ -o late -- sleep 0.2
	between "$(field 1 msr/tsc/ late)" 1 1e15
}
check "-D begins later" comes_true is_counted_late

# Counts that were recorded are shown again.
pmctl stat -a --record file -x, -e msr/tsc/,instructions:u -o first -- true
pmctl stat --report file -x, -o second
is "--report shows what --record wrote" "$(cut -d, -f1-3 first)" "$(cut -d, -f1-3 second)"

# pmctl list shows the events.
says "list has them" "$(pmctl list msr/)" '^msr/tsc/ +each +event=0x00$'
says "and their fields" "$(pmctl list pmus)" '^msr/FIELD=NUMBER,.../ +each +event$'
is "as names alone" 1 "$(pmctl list --raw pmus | grep -c '^msr/tsc/$')"
says "in JSON, too" "$(pmctl list --json pmus tsc)" '"name": "msr/tsc/"'

# Metrics that need events of other PMUs.
if [ -n "$smi" ]; then
	pmctl stat -a -x, -M smi_num -o metric -- true
	says "a metric of such an event" "$(cat metric)" ',0.00,.*smi_num$'
	try pmctl stat -M smi_num -- true
	is "it is none of a command" 2 $?
	says "and says so" "$errors" 'needs msr/smi/, which is counted for whole CPUs. Add -a'
fi

# refused NAME REGEX ARGUMENT... : passes if stat refuses the arguments with a line that matches
refused() {
	name=$1 regex=$2
	shift 2
	try pmctl stat "$@" -- true
	is "$name: exit code" 2 $?
	says "$name is told" "$errors" "$regex"
}
refused "an event without -a" 'pmctl stat -a -e msr/tsc/ -- COMMAND' -e msr/tsc/
refused "an event with -p" 'a process has no count of its own' -p $$ -e msr/tsc/
refused "an unknown PMU" 'no PMU .mrs. here' -a -e mrs/tsc/
refused "an unknown event" 'Did you mean .tsc.' -a -e msr/tcs/
refused "a large value" 'takes 0xffffffffffffffff at most|is not a number' -a -e msr/event=0x10000000000000000/
refused "a group" "can't be in a group" -a -e '{instructions,msr/tsc/}'
try pmctl stat -a -e msr/event=99/ -- true
is "what Linux refuses: exit code" 125 $?
says "what Linux refuses is told" "$errors" "PMU .msr. can't count msr/event=99/ on CPU 0"
echo 2 >/proc/sys/kernel/perf_event_paranoid
chmod 666 /dev/perfmon
try "$here/pmctl_as" -4711 pmctl stat -a -e msr/tsc/ -- true
says "a user who may not is told why" "$errors" 'kernel.perf_event_paranoid=0'

if [ "${LINUX-}" = power ]; then
	insmod /lib/modules/rapl.ko
	# By its plain name, the event would be one of the driver's values, so it gets another name.
	named="power/energy-pkg,name=energy/"
	pmctl stat -a -x, -e "$named" -o ours -- perf stat -a -x, -e power/energy-pkg/ -o theirs -- "$loop" 200000000 >out
	inner=$(field 1 power/energy-pkg/ theirs) outer=$(field 1 energy ours)
	check "scaled energy: perf's $inner is in $outer" between "$outer" "$inner" "$((${inner%.*} * 3 / 2))"
	perf stat -a -x, -e power/energy-pkg/ -o theirs -- pmctl stat -a -x, -e "$named" -o ours -- "$loop" 200000000 >out
	inner=$(field 1 energy ours) outer=$(field 1 power/energy-pkg/ theirs)
	check "scaled energy: $inner is in perf's $outer" between "$outer" "$inner" "$((${inner%.*} * 3 / 2))"
	is "its unit" "$(field 2 power/energy-pkg/ theirs)" "$(field 2 energy ours)"
	pmctl stat -a -A -x, -e "$named" -o parts -- true
	refused "a level" 'is a level' -a -e msr/cpu_thermal_margin/
	is "it is read on one CPU" 1 "$(grep -c energy parts)"
	refused "a CPU that it is not read on" 'is read on CPU 0 only' -C 1 -e "$named"
fi
finish
