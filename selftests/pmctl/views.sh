#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Views of recordings: the instructions of a function, and two recordings beside each other.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

at_end='rm -rf /src; rm -f /tmp/perf-*.map'
in_own_dir

# running: the command lines of all processes
running() {
	for line in /proc/[0-9]*/cmdline; do
		tr '\0' ' ' <"$line"
		echo
	done 2>/dev/null
}

event=instructions:u
period=100003
program=$here/pmctl_origins

plan 30

is "record succeeds" 0 "$(pmctl record -e $event -c $period -- "$program" 20000000 >words 2>&1; echo $?)"
sed 's/^/# /' words

pmctl annotate outer >listing 2>words
says "annotate names the function" "$(cat listing)" "^outer \(pmctl_origins\): (4|5)[0-9]\.[0-9]+% of event '$event', [0-9]+ samples$"
says "the loop is there" "$(cat listing)" '^ *[0-9.]+ : +[0-9a-f]+:  dec +%r'
says "a jump has its target" "$(cat listing)" 'jne +[0-9a-f]+ <outer\+0x[0-9a-f]+>'
is "all samples are at its instructions" 0 "$(grep -c 'at no instruction' listing)"

# The program is not moved when it is loaded: the addresses are those of the file.
pmctl script -F ip,sym | awk '$2 ~ /^outer\+/ { n[$1]++; all++ }
	END { for (ip in n) printf "%s %.2f\n", ip, n[ip] * 100 / all }' | sort >expected
awk '$1 ~ /^[0-9.]+$/ && $2 == ":" { sub(":", "", $3); print $3, $1 }' listing | sort >got
sed 's/^/# /' got
check "each instruction has its share of the samples" cmp expected got

says "without the source the lines have numbers" "$(cat listing)" ' : [0-9]+ *$'
says "the file that is missing is named" "$(cat listing)" 'loop\.h can.t be read'
source=$(sed -n 's/^NOTE: \(.*loop\.h\) can.t be read.*/\1/p' listing)
mkdir -p "$(dirname "$source")"
seq 100 | sed 's/^/this is line /' >"$source"
says "with the source they have its text" "$(pmctl annotate outer)" ' : ([0-9]+) +this is line \1$'
says "a function that was inlined is shown in the other" "$(pmctl annotate inner 2>&1)" 'NOTE: .inner. was inlined: it is a part of .outer.'
says "without source lines" "$(pmctl annotate --no-source -M intel outer | tail -n 3)" '  ret$'
says "the largest function is the default" "$(pmctl annotate 2>&1)" '^(outer|made at run time) |run time: its instructions'
says "what was made at run time has no instructions" "$(pmctl annotate 'made at run time' 2>&1)" 'its instructions are gone'

pmctl record -e $event -c $period -o same.data -- "$program" 20000000 >/dev/null 2>&1
says "no difference between equal programs is significant" "$(pmctl diff perf.data same.data)" '\* 0 significant'
pmctl record -e $event -c $period -o other.data -- "$here/pmctl_shares" 2000000 >/dev/null 2>&1
says "a difference is significant" "$(pmctl diff --sort symbol perf.data other.data)" \
	'0\.00% +[56][0-9]\.[0-9]+% +\+[56][0-9]\.[0-9]+% +<0\.001\* .* share_60$'

# The kernel's instructions are its memory.
pmctl record -e instructions:k -c 10007 -o kernel.data -- dd if=/dev/zero of=/dev/null bs=1 count=20000 >/dev/null 2>&1
expected='^ *[0-9.]+ : +ffffffff[0-9a-f]+:  [a-z]'
[ -e /proc/kcore ] || expected='can.t read the kernel.s instructions: there is no /proc/kcore'
says "annotate reads the kernel's instructions" "$(pmctl annotate -i kernel.data 2>&1)" "$expected"

# Live, as text; on a terminal it is the same with a screen around it.
"$program" 100000000000 &
runs=$!
pmctl top --stdio --iterations 2 -d 0.5 -c 1000003 -e $event -p $runs >live 2>words
is "top ends after its tables" 0 $?
sed 's/^/# /' live words
is "top has printed two" 2 "$(grep -c "^Samples: [1-9][0-9,]* of event '$event'" live)"
is "both have the functions" 2 "$(grep -c '\[\.\] outer$' live)"
is "its recorder has ended" 0 "$(running | grep -c '[r]ecord -q -o -')"
pmctl_terminal 24 80 -w quit -w outer -s 1000 -k /outer -s 300 -k "$(printf '\r')" -s 1000 -o screen -k q -- \
	pmctl top -d 0.5 -F 499 -e $event -p $runs >words 2>&1
is "top on a terminal ends with q, and leaves the terminal as it was" 0 $?
sed 's/^/# /' words
says "it had the whole screen" "$(cat screen)" '.\[\?1049h.*Samples: '
is "its recorder has ended, too" 0 "$(running | grep -c '[r]ecord -q -o -')"
pmctl_terminal 24 80 -w outer -h 100 -- pmctl top -d 0.5 -F 499 -e $event -p $runs >words 2>&1
is "top ends when the terminal hangs up" 129 $?
is "its recorder ends with it" 0 "$(running | grep -c '[r]ecord -q -o -')"
(
	sleep 3
	for process in /proc/[0-9]*; do
		! tr '\0' ' ' <"$process/cmdline" | grep -q ' record -q -o - ' || kill -KILL "${process#/proc/}"
	done 2>/dev/null
) &
pmctl_terminal 24 80 -w outer -w failed -k q -s 500 -o screen -- pmctl top -d 0.5 -F 499 -e $event -p $runs >words 2>&1
is "top keeps its last table when its recorder is killed" 1 $?
sed 's/^/# /' words
says "and then tells it" "$(cat screen)" 'pmctl: the recorder was killed'
pmctl top --stdio -g -d 0.5 -c 1000003 -e $event -p $runs >live 2>words &
top=$!
sleep 2
kill $runs
wait $top
is "top ends with what it samples" 0 $?
sed 's/^/# /' words

# It ends before the first table is due.
"$program" 100000000000 &
runs=$!
(sleep 2; kill $runs) &
pmctl_terminal 24 80 -w ended -s 300 -o screen -k q -- pmctl top -d 30 -F 499 -e $event -p $runs >words 2>&1
is "top on a terminal stays when what it samples has ended" 0 $?
sed 's/^/# /' words
says "it has the samples until then" "$(cat screen)" 'outer.*what is sampled has ended'

finish
