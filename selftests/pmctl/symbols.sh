#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Names that pmctl's reports find, beside perf's on the same file: functions that
# were inlined, their callers, and those that a program has made.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

at_end='rm -f /tmp/perf-*.map'
in_own_dir

n=20000000
event=instructions:u
period=100003
program=$here/pmctl_origins

# ours PATTERN OPTION... : the first percentage of the line with PATTERN in pmctl's
# report, in hundredths of a percent
ours() {
	pattern=$1
	shift
	pmctl report --no-pager "$@" 2>/dev/null | hundredths "$pattern"
}

# theirs PATTERN OPTION... : the same in perf's report
theirs() {
	pattern=$1
	shift
	perf report --stdio --no-inline "$@" 2>/dev/null | hundredths "$pattern"
}

hundredths() {
	grep -E "$1" | awk 'NR == 1 { n = $1 } END { printf "%d", n * 100 + 0.5 }'
}

# near NAME EXPECTED GOT: within one percent of the whole
near() {
	distance=$(($2 - $3))
	if [ "$distance" -ge -100 ] && [ "$distance" -le 100 ]; then
		result 0 "$1"
	else
		echo "# $1: expected about $2 hundredths of a percent, got $3"
		result 1 "$1"
	fi
}

# has_samples FILE N: a recording that may go on has so many
# shellcheck disable=SC2317 # wait_until calls it
has_samples() {
	[ "$(pmctl script -i "$1" 2>/dev/null | wc -l)" -ge "$2" ]
}

# record_running FILE: records the process $runs until there are samples, and ends it
record_running() {
	pmctl record -p $runs -e $event -c $period -o "$1" >/dev/null 2>&1 &
	record=$!
	wait_until "has_samples $1 500"
	kill $record
	wait $record
	kill $runs
	wait
}

plan 26

output=$(pmctl record -g -e $event -c $period -- "$program" $n 2>&1)
is "record -g succeeds" 0 $?
echo "$output" | sed 's/^/# /'

# Without the chains, each row has its own samples.
near "a function that was made has its share" 5000 \
	"$(ours 'made at run time$' --sort symbol)"
near "the function around what was inlined has its share" 5000 "$(ours ' outer$' --sort symbol)"
says "its memory is called as perf calls it" "$(pmctl report --sort dso)" '\[JIT\] tid [0-9]+'
for name in 'made at run time' outer; do
	is "perf report shows the share of $name" \
		"$(theirs "\] $name " --no-children -g none --sort symbol)" \
		"$(ours "$name\$" --sort symbol)"
done

# A sample counts for each function of its chain.
for name in main turn outer 'made at run time'; do
	is "perf report --children shows the share of $name" \
		"$(theirs "\] $name " --children -g none --sort symbol)" \
		"$(ours "\\[.\\] $name\$" --children --sort symbol)"
done
says "report -g callee shows the callers" "$(pmctl report -g callee --sort symbol | grep -A 1 ' outer$')" \
	'%  turn$'
says "report -G shows how it was reached" "$(pmctl report -G --sort symbol | grep -A 8 '\] outer$')" \
	'%  main$'
is "report -g with a percentage leaves small parts out" 0 \
	"$(pmctl report -g callee,100 --sort symbol | grep -c '%  turn$')"
check "report --max-stack 1 has no callers" \
	[ "$(ours '\] turn$' --children --max-stack 1 --sort symbol)" -le 100 ]

# perf shows inlined functions in call chains by default.
is "report without --inline reads no lines" 0 "$(pmctl report --children --sort symbol | grep -c inlined)"
near "an inlined function has a row among the children" \
	"$(ours '\[.\] outer$' --children --sort symbol)" \
	"$(ours 'inner \(inlined\)$' --children --inline --sort symbol)"
says "folded stacks have it inside the function around it" "$(pmctl flamegraph --folded --inline)" \
	';main;turn;outer;inner \(inlined\)'
pmctl script -F ip,srcline --inline >ours.script 2>/dev/null
says "script shows the inlined function" "$(cat ours.script)" 'inner \(inlined\)$'
says "script shows lines of the source" "$(cat ours.script)" '^  origins\.c:[0-9]+$'
says "the lines are of both files" "$(pmctl report --sort srcline)" 'loop\.h:[0-9]+'

# A program that has no name in the file system, from its start and when it runs already.
# Its file is read through /proc, so it has to run for more than a round of the recorder's.
pmctl record -e $event -c $period -o memfd.data -- "$here/pmctl_memfd" "$program" $((20 * n)) >/dev/null 2>&1
near "a program of memfd_create has its functions" 5000 "$(ours ' outer$' -i memfd.data --sort symbol)"
near "what it makes at run time is still told from it" 5000 \
	"$(ours 'made at run time$' -i memfd.data --sort symbol)"
"$here/pmctl_memfd" "$program" 100000000000 &
runs=$!
wait_until "[ -s /tmp/perf-$runs.map ]"
record_running running.data
pmctl report -i running.data --sort symbol >table 2>&1
says "one that runs already has them, too" "$(cat table)" '^ +[45][0-9]\..* outer$'
says "and what it makes" "$(cat table)" '^ +[45][0-9]\..*made at run time$'

# As in a container, whose /tmp is another one.
"$program" 100000000000 alone &
runs=$!
# It has the file before it begins.
wait_until "[ -s /proc/$runs/root/tmp/perf-$runs.map ]"
record_running inside.data
check "the file is not in this mount namespace" [ ! -e /tmp/perf-$runs.map ]
near "a function that was made has its share in another mount namespace" 5000 \
	"$(ours 'made at run time$' -i inside.data --sort symbol)"

finish
