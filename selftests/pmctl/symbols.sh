#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Compares the names in pmctl's reports with those in perf's reports of the same file: functions
# that were inlined, their callers, and functions that a program makes at run time.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

at_end='rm -f /tmp/perf-*.map'
in_own_dir

n=20000000
event=instructions:u
period=100003
program=$here/pmctl_origins

# pmctl_share PATTERN OPTION... : prints the first percentage of the line with PATTERN in pmctl's
# report, in hundredths of a percent
pmctl_share() {
	pattern=$1
	shift
	pmctl report --no-pager "$@" 2>/dev/null | hundredths "$pattern"
}

# perf_share PATTERN OPTION... : prints the same percentage of perf's report
perf_share() {
	pattern=$1
	shift
	perf report --stdio --no-inline "$@" 2>/dev/null | hundredths "$pattern"
}

hundredths() {
	grep -E "$1" | awk 'NR == 1 { n = $1 } END { printf "%d", n * 100 + 0.5 }'
}

# near NAME EXPECTED GOT: passes if the two differ by at most one percent of the whole
near() {
	distance=$(($2 - $3))
	if [ "$distance" -ge -100 ] && [ "$distance" -le 100 ]; then
		result 0 "$1"
	else
		echo "# $1: expected about $2 hundredths of a percent, got $3"
		result 1 "$1"
	fi
}

# has_samples FILE N: succeeds if the recording, which may be unfinished, has at least N samples
# shellcheck disable=SC2317 # wait_until calls it
has_samples() {
	[ "$(pmctl script -i "$1" 2>/dev/null | wc -l)" -ge "$2" ]
}

# record_running FILE: records the process $program_pid until there are 500 samples, and ends it
record_running() {
	pmctl record -p $program_pid -e $event -c $period -o "$1" >/dev/null 2>&1 &
	record=$!
	wait_until "has_samples $1 500"
	kill $record
	wait $record
	kill $program_pid
	wait
}

plan 34

output=$(pmctl record -g -e $event -c $period -- "$program" $n 2>&1)
is "record -g succeeds" 0 $?
echo "$output" | sed 's/^/# /'

# Without call chains, each row counts its own samples.
near "a function made at run time has its share" 5000 \
	"$(pmctl_share 'made at run time$' --sort symbol)"
near "the function around an inlined one has its share" 5000 "$(pmctl_share ' outer$' --sort symbol)"
says "report names the memory of functions made at run time as perf does" "$(pmctl report --sort dso)" '\[JIT\] tid [0-9]+'
for name in 'made at run time' outer; do
	is "perf report shows the share of $name" \
		"$(perf_share "\] $name " --no-children -g none --sort symbol)" \
		"$(pmctl_share "$name\$" --sort symbol)"
done

# A sample counts for each function of its chain.
for name in main turn outer 'made at run time'; do
	is "perf report --children shows the share of $name" \
		"$(perf_share "\] $name " --children -g none --sort symbol)" \
		"$(pmctl_share "\\[.\\] $name\$" --children --sort symbol)"
done
says "report -g callee shows the callers" "$(pmctl report -g callee --sort symbol | grep -A 1 ' outer$')" \
	'%  turn$'
says "report -G shows how a function was reached" "$(pmctl report -G --sort symbol | grep -A 8 '\] outer$')" \
	'%  main$'
is "report -g with a percentage leaves small parts out" 0 \
	"$(pmctl report -g callee,100 --sort symbol | grep -c '%  turn$')"
check "report --max-stack 1 has no callers" \
	[ "$(pmctl_share '\] turn$' --children --max-stack 1 --sort symbol)" -le 100 ]

# perf shows inlined functions in call chains by default.
is "report without --inline shows no inlined function" 0 "$(pmctl report --children --sort symbol | grep -c inlined)"
near "an inlined function has a row among the children" \
	"$(pmctl_share '\[.\] outer$' --children --sort symbol)" \
	"$(pmctl_share 'inner \(inlined\)$' --children --inline --sort symbol)"
says "folded stacks have an inlined function inside the one around it" "$(pmctl flamegraph --folded --inline)" \
	';main;turn;outer;inner \(inlined\)'
pmctl script -F ip,srcline --inline >ours.script 2>/dev/null
says "script shows the inlined function" "$(cat ours.script)" 'inner \(inlined\)$'
says "script shows lines of the source" "$(cat ours.script)" '^  origins\.c:[0-9]+$'
says "report shows lines of the header, too" "$(pmctl report --sort srcline)" 'loop\.h:[0-9]+'

# The program has no name in the file system. It is recorded from its start, and while it runs.
# pmctl reads the program's file through /proc, so the program has to run for longer than a round of
# the recorder.
pmctl record -e $event -c $period -o memfd.data -- "$here/pmctl_memfd" "$program" $((20 * n)) >/dev/null 2>&1
near "a function of a program of memfd_create has its share" 5000 "$(pmctl_share ' outer$' -i memfd.data --sort symbol)"
near "a function made at run time by a program of memfd_create has its share" 5000 \
	"$(pmctl_share 'made at run time$' -i memfd.data --sort symbol)"
"$here/pmctl_memfd" "$program" 100000000000 &
program_pid=$!
wait_until "[ -s /tmp/perf-$program_pid.map ]"
record_running running.data
pmctl report -i running.data --sort symbol >table 2>&1
says "a running program of memfd_create has the names of its functions" "$(cat table)" '^ +[45][0-9]\..* outer$'
says "a running program of memfd_create has the names that it made at run time" "$(cat table)" '^ +[45][0-9]\..*made at run time$'

# As in a container, the program has a /tmp of its own.
"$program" 100000000000 alone &
program_pid=$!
# The program writes its map before it begins its loop.
wait_until "[ -s /proc/$program_pid/root/tmp/perf-$program_pid.map ]"
record_running inside.data
check "the map is not in this mount namespace" [ ! -e /tmp/perf-$program_pid.map ]
near "a function made at run time has its share in another mount namespace" 5000 \
	"$(pmctl_share 'made at run time$' -i inside.data --sort symbol)"

# Each program has the same path in a root of its own, as in two containers.
mkdir root1 root2
cp "$here/pmctl_turns" root1/p
cp "$here/pmctl_shares" root2/p
# shellcheck disable=SC2016 # the shell in it expands it
pmctl record -a -e $event -c $period -o roots.data -- \
	sh -c 'chroot root1 /p & chroot root2 /p 60000000; kill $!' >/dev/null 2>&1
pmctl report -i roots.data --sort symbol >table 2>&1
says "a program has the names of its functions" "$(cat table)" '\] turn'
says "another program of the same path has those of its own" "$(cat table)" '\] share_'

# A module is removed while it is recorded. Another module may then be loaded to the same place.
# names_of_busy FILE: prints the names of the samples in the loop of the module, and their numbers
names_of_busy() {
	pmctl script -i "$1" -F ip,sym,dso 2>/dev/null |
		awk -v loop="$busy_place" '{ ip = $1; sub(/^0+/, "", ip) }
			substr(ip, 1, length(ip) - 2) == substr(loop, 1, length(loop) - 2) { $1 = ""; names[$0]++ }
			END { for (name in names) print names[name], name }'
}

# record_busy FILE COMMAND...: records the loop of the module, and COMMAND after it
record_busy() {
	file=$1
	shift
	insmod /lib/modules/busy.ko
	busy_place=$(awk '$3 == "busy_loop" { print $1 }' /proc/kallsyms)
	pmctl record -q -a -e instructions:k -c 20011 -o "$file" -- sh -c "echo 20000000 >/dev/busy; $*" 2>&1
	names_of_busy "$file" | sed 's/^/# /'
	rmmod busy oops 2>/dev/null
}

at_end="$at_end; rmmod busy oops 2>/dev/null"
record_busy there.data true
check "a loop of a module has samples" [ "$(names_of_busy there.data | awk '{ n += $1 } END { print n + 0 }')" -gt 500 ]
says "they have its name" "$(names_of_busy there.data)" 'busy_loop.*\[busy\]'
record_busy gone.data rmmod busy
check "a loop of a removed module has samples" [ "$(names_of_busy gone.data | awk '{ n += $1 } END { print n + 0 }')" -gt 500 ]
is "they have its name or none" "" "$(names_of_busy gone.data | grep -vE 'busy_loop|\[unknown\]')"
record_busy replaced.data "rmmod busy; insmod /lib/modules/oops.ko"
check "a loop of a replaced module has samples" [ "$(names_of_busy replaced.data | awk '{ n += $1 } END { print n + 0 }')" -gt 500 ]
is "they have no name of the module in its place" "" "$(names_of_busy replaced.data | grep -vE 'busy_loop|\[unknown\]')"

finish
