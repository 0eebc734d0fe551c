#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl bench: it compares loops whose counts are known with each other and with a baseline.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
# shellcheck source=SCRIPTDIR/../lib/count.sh
. "$here/count.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

loop=$here/pmctl_loop
dir=$(mktemp -d)
trap 'rm -rf "$dir" "$counts"' EXIT

# bench OPTION... : runs pmctl bench by try, with standard output in a file
bench() {
	try pmctl bench "$@" >"$dir/out"
}

# The counts of a loop, and of a loop with 2 % more iterations.
short_count=$(pmctl_count instructions:u "$loop" 1000000)
long_count=$(pmctl_count instructions:u "$loop" 1020000)

plan 40

bench -e instructions:u,cycles -r 5 "$loop 1000000" "$loop '1020000'"
is "bench succeeds" 0 $?
sed 's/^/# /' "$dir/out"
says "instructions of user mode are marked as exact" "$(tr -d , <"$dir/out")" "instructions:u +1 +$short_count +exact\$"
says "a change of instructions is marked as exact" "$(tr -d , <"$dir/out")" "2 +$long_count +exact +\+2\.00%\$"
says "the time is shown with its spread" "$(cat "$dir/out")" '^ +time +1 .*(s|ms) +± [0-9.]+%'

# The commands take turns, and each round begins with the next command.
bench -e instructions:u -r 2 -w 1 --shell "echo a >>$dir/order" "echo b >>$dir/order"
is "commands run in turns, the warm-up too" "a b b a a b" "$(xargs <"$dir/order")"
bench -e instructions:u -r 1 -w 0 --prepare "echo p >>$dir/prepared" "$loop 1" "$loop 2"
is "--prepare runs before each run" "p p" "$(xargs <"$dir/prepared")"
bench -r 1 -w 0 --prepare 'kill -TERM $$; echo went on' "$loop 1"
is "a signal can end the command of --prepare" 125 $?
says "bench says that a signal ended the command of --prepare" "$errors" 'went on. was killed by SIGTERM'
pmctl bench -r 1 -w 0 --prepare "echo >$dir/begun; exec sleep 100" "$loop 1" 2>/dev/null &
wait_until "[ -s $dir/begun ]"
kill $!
wait $!
is "a signal ends bench while it prepares a run" 125 $?
pmctl bench -r 100000 -w 0 -e instructions:u --shell "echo >>$dir/rounds" >"$dir/out" 2>"$dir/errors" &
wait_until "has_lines 3 $dir/rounds"
kill $!
wait $!
is "bench shows the complete rounds if a signal ends it" 0 $?
says "it says how many they are" "$(cat "$dir/errors")" 'stopped in round [0-9]+ of 100000: the numbers are those of the [0-9]+ rounds? before'
bench -r 1 -w 0 -e instructions:u -- sh -c 'cat; echo printed'
check "commands read nothing and print nothing" [ "$(grep -c printed "$dir/out")" = 1 ]
bench -e instructions:u -r 1 -w 0 'ls / | wc'
says "the advice quotes the failed command for a shell" "$errors" "\`pmctl stat -- ls / '\|' wc\` shows"
# The backquotes are part of the message.
# shellcheck disable=SC2016
says "the advice names --shell" "$errors" '^`\|` was passed as an argument: --shell runs the command in a shell\.$'

# Commands share the terminal of bench, which writes there only between two rounds, after five seconds.
pmctl_terminal 24 80 -w instructions -o "$dir/screen" -- pmctl bench -e instructions:u -r 3 -w 0 --shell \
	'printf begun >/dev/tty; sleep 2.6; printf ended >/dev/tty' >/dev/null 2>&1
is "bench writes nothing to the terminal while its command runs" 3 "$(grep -o begunended "$dir/screen" | wc -l)"
says "bench shows its progress between two rounds" "$(cat "$dir/screen")" 'endedpmctl: [12] of 3 rounds are complete'

# Tests the conditions of --fail-if.
bench -e instructions:u -r 3 --fail-if 'instructions:u>+1.9%' "$loop 1000000" "$loop 1020000"
is "bench exits with 1 if a condition holds" 1 $?
says "bench names the condition that holds" "$errors" "fail-if 'instructions:u>\+1.9%' holds for .*\+2\.00%"
bench -e instructions:u -r 3 --fail-if 'instructions:u>+2.1%' --fail-if 'instructions:u<-1%' \
	"$loop 1000000" "$loop 1020000"
is "bench exits with 0 if no condition holds" 0 $?
bench -e instructions:u -r 3 --fail-if "instructions:u>$((short_count - 1))" -- "$loop" 1000000
is "a limit may be a count" 1 $?
bench --fail-if 'cycles:u>+1%' -- "$loop" 1000
is "a change from nothing is refused" 2 $?
bench --fail-if 'cache-misses>1' -e instructions:u -- "$loop" 1000
is "a condition on an event that is not counted is refused" 2 $?

# Saves a baseline, and compares later runs with it.
bench -e instructions:u -r 3 --save "$dir/base.json" -- "$loop" 1000000
is "numbers are saved" 0 $?
bench -e instructions:u -r 3 --baseline "$dir/base.json" --fail-if 'instructions:u>+1%' -- "$loop" 1000000
is "the same program has not changed from the baseline" 0 $?
says "the table says that nothing changed from the baseline" "$(cat "$dir/out")" 'exact +none$'
bench -e instructions:u -r 3 --baseline "$dir/base.json" --fail-if 'instructions:u>+1%' -- "$loop" 1020000
is "another program has changed from the baseline" 1 $?
cp "$dir/base.json" "$dir/own.json"
bench -e instructions:u -r 3 --baseline "$dir/own.json" --save "$dir/own.json" --fail-if 'instructions:u>+1%' -- "$loop" 1020000
is "bench exits with 1 if a change from the baseline holds" 1 $?
cmp -s "$dir/base.json" "$dir/own.json"
is "numbers whose condition holds do not become the baseline" 0 $?
bench -e instructions:u -r 3 --baseline "$dir/own.json" --save "$dir/own.json" --fail-if 'instructions:u>+1%' -- "$loop" 1000100
is "bench exits with 0 if no change from the baseline holds" 0 $?
cmp -s "$dir/base.json" "$dir/own.json"
is "numbers whose condition does not hold become the baseline" 1 $?
bench -e cycles -r 3 --baseline "$dir/base.json" --fail-if 'cycles>+1%' -- "$loop" 1000000
is "bench fails if the baseline lacks the event" 125 $?
bench -e instructions:u,cycles -r 3 --save "$dir/old.json" -- "$loop" 1000000
sed -i 's/"machine": *"[^"]*"/"machine": "another one"/' "$dir/old.json"
bench -e instructions:u,cycles -r 3 --baseline "$dir/old.json" --fail-if 'instructions:u>+1%' -- "$loop" 1000000
is "instructions of user mode are compared with another processor's" 0 $?
bench -e instructions:u,cycles -r 3 --baseline "$dir/old.json" --fail-if 'cycles>+1000%' -- "$loop" 1000000
is "cycles are not compared with another processor's" 125 $?
echo '{}' >"$dir/empty.json"
bench --baseline "$dir/empty.json" -- "$loop" 1000000
is "a file that is no baseline is refused" 125 $?

# Tests the output formats.
bench -e instructions:u -r 3 --export csv "$loop 1000000" "$loop 1020000"
is "CSV has the change" "0.02" "$(awk -F, '$2 == "instructions:u" && NR == 5 { printf "%.2f", $8 }' "$dir/out")"
bench -e instructions:u -r 3 --export json "$loop 1000000" "$loop 1020000"
values="\[2000080,2000080,2000080\].*\[2040080,2040080,2040080\]"
says "JSON has the counts of each run" "$(tr -d ' \n' <"$dir/out")" "\"schema\":\"pmctl-bench-v1\".*$values"
bench -e instructions:u -r 3 --export markdown "$loop 1000000" "$loop 1020000"
is "Markdown has a row for each event of a command" 6 "$(grep -c '^| .* |$\|^|:--' "$dir/out")"

# Commands that fail have no numbers.
bench -r 2 "$loop 7 exit"
is "a command that fails has no numbers" 125 $?
says "bench names the command that failed" "$errors" "pmctl_loop 7 exit. ended with exit code 7"
bench -r 2 -i "$loop 7 exit"
is "bench -i takes the numbers of a command that fails" 0 $?

finish
