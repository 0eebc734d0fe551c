#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl stat and record of values that no counter counts. On the virtual PMU with
# pmu-power=on, an instruction in any mode uses 2^-20 Joules of the package's energy. Without
# pmu-power=on, and with VALUES=none in the environment, pmctl must refuse these values. LINUX names
# the values that are compared with Linux's own events, which are in a module of the stock kernel.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

# The program executes 2 instructions in each iteration.
loop=$here/pmctl_loop
counts=$(mktemp)
data=$(mktemp)
trap 'rm -f "$counts" "$data"' EXIT

# stat ARGUMENT... : prints pmctl stat's output for a loop of 40 million instructions
stat() {
	{ pmctl stat "$@" -- "$loop" 20000000 >/dev/null; } 2>&1
}

# field N NAME : prints field N of NAME's line of -x
field() {
	awk -F, -v n="$1" -v name="$2" '$3 == name { print $n }' "$counts"
}

# within NUMBER LEAST MOST: succeeds if NUMBER is between LEAST and MOST
# shellcheck disable=SC2317 # check calls it
within() {
	awk -v x="$1" -v least="$2" -v most="$3" 'BEGIN { exit !(x != "" && x >= least && x <= most) }'
}

if [ "${VALUES-}" = none ]; then
	plan 3
	says "stat says that the machine has no such register" "$(stat -e energy-pkg)" \
		"energy-pkg: this machine has no registers for energy"
	pmctl stat -e energy-pkg -- true 2>/dev/null
	is "stat exits with 2 if the machine has no such register" 2 $?
	says "record says that the machine has no such register" "$(pmctl record --timebase instructions --count energy-pkg -- true 2>&1)" \
		"energy-pkg: this machine has no registers for energy"
	finish
fi

# AMD's processors do not have this register of the temperature.
if grep -q AuthenticAMD /proc/cpuinfo; then
	degrees=0 other=mperf least=40000000 most=100000000
	absent=temperature there="energy-pkg energy-core aperf mperf"
else
	degrees=3 other=temperature least=50 most=81
	absent=energy-core there="energy-pkg energy-cores energy-ram temperature"
fi
linux=$(echo "${LINUX-}" | tr , ' ')
compared=$(echo "$linux" | wc -w)
plan $((23 + degrees + 2 * compared))
for scope in "" -a; do
	# shellcheck disable=SC2086 # nothing, or an option
	stat $scope -x, -o "$counts" -e instructions:u,energy-pkg,$other,aperf >/dev/null
	check "pmctl stat $scope: instructions" within "$(field 1 instructions:u)" 40000000 40100000
	# 40 million instructions use 38.15 Joules; the kernel's instructions add to this.
	check "pmctl stat $scope: energy" within "$(field 1 energy-pkg)" 38.14 76
	is "pmctl stat $scope: unit of energy" Joules "$(field 2 energy-pkg)"
	check "pmctl stat $scope: $other" within "$(field 1 $other)" $least $most
	check "pmctl stat $scope: clock" within "$(field 1 aperf)" 50000000 100000000
done
says "energy is shown with its unit" "$(stat -e energy-pkg)" "^ +[0-9]+\\.[0-9][0-9] Joules energy-pkg\$"
[ $degrees = 0 ] || says "temperature is shown with its unit" "$(stat -e temperature,cycles)" "^ +[5-8][0-9] .*C +temperature\$"
says "the mean of several runs is shown" "$(stat -r 2 -e energy-pkg)" "Joules energy-pkg +\\( \\+-"
says "stat names the registers that the machine has" "$(stat -e $absent)" "It has: $there"
says "intervals are refused" "$(stat -I 100 -e energy-pkg)" "^.*-I: energy-pkg is read once"
pmctl stat -e energy-pkg,$other -- sh -c 'exit 7' >/dev/null 2>&1
is "the exit code is the command's" 7 $?

# The first CPU reads the registers of the package.
taskset 1 pmctl record -a --timebase instructions -c 1000003 --count energy-pkg,$other,cycles \
	-o "$data" -- "$loop" 20000000 >"$counts" 2>&1
is "record --count energy-pkg,$other succeeds" 0 $?
sed 's/^/# /' "$counts"
script=$(pmctl script -i "$data" -F event,cpu 2>/dev/null)
says "script shows energy with its unit" "$script" '^energy-pkg: [0-9]+\.[0-9]{6} Joules'
[ $degrees = 0 ] || says "script shows the temperature with its unit" "$script" '^temperature: [5-8][0-9] [^ ]*C'
# A period is 0.953 Joules; the package's energy includes the energy of the other CPU.
echo "$script" | awk '/^energy-pkg/ { n++; sum += $2; if (n > 1 && $2 < 0.95) low++ } END { print n + 0, sum + 0, low + 0 }' >"$counts"
read -r samples sum low <"$counts"
check "there are samples of energy" [ "$samples" -ge 39 ]
is "a sample has the energy since the sample before" 0 "$low"
report=$(pmctl report -i "$data" --no-pager)
says "report adds the energy up" "$report" '^Sum: [0-9.]+ Joules; of all programs on all CPUs: [0-9.]+ Joules$'
total=$(echo "$report" | awk '/^Sum: .*Joules$/ { print $(NF - 1) }')
check "report's sum is that of the samples" within "$total" "$sum" 120
check "report's sum is at least the energy of the instructions" within "$total" 38.14 120
[ $degrees = 0 ] || says "report has the range of the temperature" "$report" '^From [5-8][0-9] to [5-8][0-9] [^ ]*C, median [5-8][0-9] [^ ]*C of'
is "perf script has the same samples" "$(echo "$script" | grep -c energy-pkg)" \
	"$(perf script -i "$data" -F event 2>/dev/null | grep -c energy-pkg)"

# Each tool in turn counts the other and the loop: the outer tool also counts the start of the inner
# one.
theirs=$(mktemp)
trap 'rm -f "$counts" "$data" "$theirs"' EXIT
[ "$compared" = 0 ] || insmod /lib/modules/rapl.ko
for name in $linux; do
	set -- perf stat -a -x, -e "power/$name/" -o "$theirs" --
	pmctl stat -a -x, -e "$name" -o "$counts" -- "$@" "$loop" 200000000 >/dev/null
	inner=$(awk -F, '/power/ { print $1 }' "$theirs")
	outer=$(field 1 "$name")
	check "Linux's power/$name/ is in $name: $inner, $outer" within "$outer" "$inner" "$((${inner%.*} * 3 / 2))"
	"$@" pmctl stat -a -x, -e "$name" -o "$counts" -- "$loop" 200000000 >/dev/null
	inner=$(field 1 "$name")
	outer=$(awk -F, '/power/ { print $1 }' "$theirs")
	check "$name is in Linux's power/$name/: $inner, $outer" within "$outer" "$inner" "$((${inner%.*} * 3 / 2))"
done
finish
