#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Each option of this machine's perf stat and perf record is an option of pmctl, or pmctl says what
# to type instead. The options of stat do the same as perf's.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

loop=$here/pmctl_loop

# options COMMAND: prints the options in perf's help of the command
options() {
	perf "$1" -h 2>&1 | sed -n 's/^ \{4,\}\(-.*\)/\1/p' |
		sed 's/^\(-[A-Za-z]\), /\1 /; s/\[.*//; s/  .*//' |
		tr ' ' '\n' | grep '^-' | sort -u
}

# unanswered COMMAND: prints the command's options to which pmctl has no answer
unanswered() {
	for option in $(options "$1"); do
		# No command knows the second option, so nothing is run.
		case $(pmctl "$1" "$option" --no-such-option 2>&1) in
		*"there is no option \`$option\`."*"lists the options."*) echo "$option" ;;
		esac
	done
}

# field N: prints field N of the first line of counts in the output of -x
field() {
	head -n 1 csv | cut -d, -f "$1"
}

# stat OPTION...: counts instructions of the loop, and prints the exit code; standard error is in
# the file errors
stat() {
	pmctl stat -x, -e instructions "$@" >/dev/null 2>errors
	echo $?
}

plan 43

for command in stat record; do
	check "perf $command has options" [ "$(options $command | wc -l)" -ge 40 ]
	is "pmctl answers each option of perf $command" "" "$(unanswered $command)"
done

is "stat --all-user succeeds" 0 "$(stat -o csv --all-user -- "$loop" 1000000)"
is "stat --all-user names the event with :u" instructions:u "$(field 3)"
user=$(field 1)
is "stat --all-user counts the kernel's events" 0 \
	"$(stat -o csv -e page-faults --all-user -- true)"
is "stat --all-user names the kernel's events with :u" page-faults:u "$(tail -n 1 csv | cut -d, -f 3)"
is "stat takes a kernel's event with :u" 0 "$(stat -o csv -e page-faults:u -- true)"
is "stat names a kernel's event with :u" page-faults:u "$(tail -n 1 csv | cut -d, -f 3)"
is "stat --all-kernel succeeds" 0 "$(stat -o csv --all-kernel -- "$loop" 1000000)"
check "stat --all-kernel counts another part" [ "$(field 1)" -ne "$user" ]

stat -o csv -- true >/dev/null
is "stat --append succeeds" 0 "$(stat -o csv --append -- true)"
is "stat --append keeps what there is" 2 "$(wc -l <csv)"
is "stat --log-fd succeeds" 0 "$(stat --log-fd 9 -- true 9>csv)"
is "stat --log-fd writes to the descriptor" instructions "$(field 3)"
{ stat --log-fd 9 -- true && stat --log-fd 9 -- true; } 9>>csv >/dev/null
is "stat --log-fd keeps what there is" 3 "$(wc -l <csv)"
is "stat --log-fd refuses a closed descriptor" 125 "$(stat --log-fd 8 -- true)"

try pmctl stat -n -- true
is "stat -n succeeds" 0 $?
says "stat -n shows the time" "$errors" "seconds time elapsed"
is "stat -n shows no count" 0 "$(echo "$errors" | grep -c instructions)"

is "stat --interval-count succeeds" 0 "$(stat -o csv -I 50 --interval-count 3 -a)"
is "stat --interval-count ends after so many intervals" 3 "$(wc -l <csv)"
is "stat --summary succeeds" 0 \
	"$(stat -o csv -I 50 --interval-count 2 --summary -a)"
is "stat --summary adds a line of totals" 3 "$(wc -l <csv)"
# count_two_intervals: counts a loop in two intervals; succeeds if the loop ran: its CPU did not stand still in
# both of them
# shellcheck disable=SC2317 # comes_true calls it
count_two_intervals() {
	code=$(stat -o csv -I 50 --interval-count 2 --summary -- "$loop" 900000000000)
	[ "$(tail -n 1 csv | cut -d, -f1)" != 0 ]
}
comes_true count_two_intervals
is "a command ends with the last interval" 143 "$code"
# shellcheck disable=SC2016 # awk expands
check "the intervals add up to the summary" \
	awk -F, 'NR <= 2 { sum += $2 } NR == 3 { exit !($1 == sum && sum > 0) }' csv

rm -f csv
interrupt_when "has_lines 2 csv" pmctl stat -r 0 -x, -o csv -e instructions:u -- "$loop" 1000
check "stat -r 0 shows each run until Ctrl-C" [ "$(wc -l <csv)" -ge 2 ]
is "stat -r 0 has no mean" 0 "$(grep -c % csv)"
is "stat -D 0 counts from the start" "$(pmctl stat -x, -e instructions:u -- "$loop" 1000 2>&1 | cut -d, -f1)" \
	"$(pmctl stat -x, -e instructions:u -D 0 -- "$loop" 1000 2>&1 | cut -d, -f1)"
is "stat -D after the end has no count" "<not counted> 125" \
	"$(code=$(stat -o csv -D 60000 -- sh -c 'exit 3'); echo "$(cut -d, -f1 csv) $code")"
says "stat -D after the end says that nothing was counted" "$(cat errors)" "ended before the delay of 60000 ms .* nothing was counted"
is "the time of stat --timeout begins after that of -D" 0 \
	"$(pmctl stat -x, -o csv -a -e instructions:u -D 300 --timeout 100; echo $?)"
pmctl stat -o csv -e '{instructions:D,cycles:uS}:W' -- true 2>/dev/null
is "stat takes modifiers that change nothing" 0 $?

# milliseconds: prints the milliseconds since the machine started, up to 10 too few
milliseconds() {
	awk '{ printf "%d", $1 * 1000 }' /proc/uptime
}

# Software events, which the kernel counts without a counter.
pmctl stat -x, -o csv -e task-clock,page-faults,instructions,cs -- "$loop" 20000000 2>/dev/null
is "stat takes software events" 0 $?
is "each software event has a line, in their order" "task-clock page-faults instructions cs" \
	"$(awk -F, '{ printf "%s%s", sep, $3; sep = " " }' csv)"
# shellcheck disable=SC2016 # awk expands
check "task-clock ran as long as it says" \
	awk -F, 'NR == 1 { off = $4 / 1e6 - $1; exit !(off < 0.01 && off > -0.01) }' csv
check "task-clock is in milliseconds" [ "$(awk -F, '$3 == "task-clock" { print $2 }' csv)" = msec ]
faults=$(awk -F, '$3 == "page-faults" { print $1 }' csv)
perfs=$(perf stat -x, -e page-faults -- "$loop" 20000000 2>&1 | cut -d, -f 1)
off=$((faults - perfs))
check "page-faults is nearly perf's" [ "${off#-}" -le 3 ]
begin=$(milliseconds)
is "stat -a takes software events" 0 "$(pmctl stat -x, -o csv -a -e cpu-clock --timeout 200; echo $?)"
# shellcheck disable=SC2016 # awk expands
check "cpu-clock runs on all CPUs" \
	awk -F, -v cpus="$(nproc)" -v most="$(($(milliseconds) - begin + 10))" \
	'{ exit !($1 >= 200 * cpus && $1 <= most * cpus) }' csv

# One of the threads ends before stat counts it.
sleep 300 &
first=$!
true &
last=$!
wait $last
is "stat --per-thread refuses an ended thread" 2 \
	"$(stat --per-thread -t "$first,$last" --timeout 100)"
kill $first

# Another user of the PMU has the first counters; -a takes other counters.
perf stat -a -e instructions:u,cycles:u -- sh -c 'echo $$ >begun; exec sleep 300' >perf.out 2>&1 &
perf=$!
wait_until '[ -s begun ]'
code=$(stat -o csv -a --timeout 100)
kill "$(cat begun)"
wait $perf
says "stat -a beside perf counts or names their owner" "$code $(cat errors)" "^0|perf"

finish
