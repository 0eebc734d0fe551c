#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests views of recordings: the instructions of a function, and a comparison of two recordings.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

at_end='rm -rf /src; rm -f /tmp/perf-*.map'
in_own_dir

# recorder_pids: prints the PIDs of top's recorders
recorder_pids() {
	for process in /proc/[0-9]*; do
		! tr '\0' ' ' <"$process/cmdline" | grep -q ' [r]ecord -q -o - ' || echo "${process#/proc/}"
	done 2>/dev/null
}

# shellcheck disable=SC2317 # comes_true calls it
has_no_recorder() {
	[ -z "$(recorder_pids)" ]
}

# recorder_has_events: succeeds if top's only recorder has opened its events
# shellcheck disable=SC2317 # wait_until calls it
recorder_has_events() {
	recorder=$(recorder_pids) && [ "$recorder" ] && has_events "$recorder"
}

event=instructions:u
period=100003
program=$here/pmctl_origins

plan 31

output=$(pmctl record -e $event -c $period -- "$program" 20000000 2>&1)
is "record succeeds" 0 $?
echo "$output" | sed 's/^/# /'

pmctl annotate outer >listing 2>/dev/null
says "annotate names the function" "$(cat listing)" "^outer \(pmctl_origins\): (4|5)[0-9]\.[0-9]+% of event '$event', [0-9]+ samples$"
says "annotate shows the instructions of the loop" "$(cat listing)" '^ *[0-9.]+ : +[0-9a-f]+:  dec +%r'
says "annotate shows the target of a jump" "$(cat listing)" 'jne +[0-9a-f]+ <outer\+0x[0-9a-f]+>'
is "all samples are at instructions of the function" 0 "$(grep -c 'at no instruction' listing)"

# The program is loaded to a fixed address, so the addresses of the samples are those in the file.
pmctl script -F ip,sym | awk '$2 ~ /^outer\+/ { n[$1]++; all++ }
	END { for (ip in n) printf "%s %.2f\n", ip, n[ip] * 100 / all }' | sort >expected
awk '$1 ~ /^[0-9.]+$/ && $2 == ":" { sub(":", "", $3); print $3, $1 }' listing | sort >got
sed 's/^/# /' got
check "each instruction has its share of the samples" cmp expected got

says "without the source annotate shows numbers of lines" "$(cat listing)" ' : [0-9]+ *$'
says "annotate names one of the missing source files" "$(cat listing)" "^NOTE: 2 source files can't be read.*: /.*loop\.h and 1 more"
source=$(sed -n "s/^NOTE: 2 source files can't be read.*: \(.*loop\.h\) and.*/\1/p" listing)
mkdir -p "$(dirname "$source")"
seq 100 | sed 's/^/this is line /' >"$source"
says "with the source annotate shows the text of lines" "$(pmctl annotate outer)" ' : ([0-9]+) +this is line \1$'
says "annotate names the function around an inlined one" "$(pmctl annotate inner 2>&1)" 'NOTE: .inner. was inlined: it is a part of .outer.'
says "annotate --no-source shows no source lines" "$(pmctl annotate --no-source -M intel outer | tail -n 3)" '  ret$'
says "annotate shows the largest function with code by default" "$(pmctl annotate 2>&1)" '^outer '
says "annotate has no instructions of a function made at run time" "$(pmctl annotate 'made at run time' 2>&1)" 'its code was not recorded'

pmctl record -e $event -c $period -o same.data -- "$program" 20000000 >/dev/null 2>&1
says "no difference between equal programs is significant" "$(pmctl diff perf.data same.data)" '\* 0 significant'
pmctl record -e $event -c $period -o other.data -- "$here/pmctl_shares" 2000000 >/dev/null 2>&1
says "a difference is significant" "$(pmctl diff --sort symbol perf.data other.data)" \
	'0\.00% +[56][0-9]\.[0-9]+% +\+[56][0-9]\.[0-9]+% +<0\.001\* .* share_60$'

# pmctl reads the kernel's instructions from memory.
pmctl record -e instructions:k -c 10007 -o kernel.data -- dd if=/dev/zero of=/dev/null bs=1 count=20000 >/dev/null 2>&1
expected='^ *[0-9.]+ : +ffffffff[0-9a-f]+:  [a-z]'
[ -e /proc/kcore ] || expected='can.t read the kernel.s instructions: there is no /proc/kcore'
says "annotate reads the kernel's instructions" "$(pmctl annotate -i kernel.data 2>&1)" "$expected"

# Samples the functions of the module that run when processes begin.
# shellcheck disable=SC2016 # the inner shell has the loop
pmctl record -e instructions:k -c 10007 -o module.data -- sh -c 'for i in $(seq 30); do /bin/true; done' >/dev/null 2>&1
function=$(pmctl report --sort dso,symbol -i module.data 2>/dev/null | sed -n 's/.*\[perfmon\] .*\[k\] //p' | head -n 1)
echo "# the module's function: $function"
says "annotate reads a module's instructions" "$(pmctl annotate -i module.data "$function" 2>&1)" "$expected"

# top prints text here; on a terminal it draws the same tables on the whole screen.
"$program" 100000000000 &
program_pid=$!
# prints_two_tables: succeeds if both tables have samples of the functions. The program's CPU may
# stand still for half a second.
# shellcheck disable=SC2317 # comes_true calls it
prints_two_tables() {
	try pmctl top --stdio --iterations 2 -d 0.5 -c 1000003 -e "$event" -p "$program_pid" >live
	status=$?
	[ "$(grep -c '\[\.\] outer$' live)" = 2 ]
}
check "both tables have the functions" comes_true prints_two_tables
is "top ends after --iterations tables" 0 "$status"
{ cat live; echo "$errors"; } | sed 's/^/# /'
is "top prints two tables" 2 "$(grep -c "^Samples: [1-9][0-9,]* of event '$event'" live)"
check "top's recorder has ended" comes_true has_no_recorder
# During the pauses top redraws its table; the test does not check these tables.
output=$(pmctl_terminal 24 80 -w quit -w outer -s 300 -k /outer -s 100 -k "$(printf '\r')" -s 300 -o screen -k q -- \
	pmctl top -d 0.2 -F 499 -e $event -p $program_pid 2>&1)
is "top on a terminal ends with q, and leaves the terminal as it was" 0 $?
echo "$output" | sed 's/^/# /'
says "top on a terminal uses the whole screen" "$(cat screen)" '.\[\?1049h.*Samples: '
check "the recorder of top on a terminal has ended" comes_true has_no_recorder
output=$(pmctl_terminal 24 80 -w outer -h 100 -- pmctl top -d 0.5 -F 499 -e $event -p $program_pid 2>&1)
is "top ends when the terminal hangs up" 129 $?
check "top's recorder ends when the terminal hangs up" comes_true has_no_recorder
(
	wait_until '[ -e shown ]'
	recorder_pids | xargs kill -KILL
) &
output=$(pmctl_terminal 24 80 -w outer -o shown -w failed -k q -w 'was killed' -o screen -- pmctl top -d 0.5 -F 499 -e $event -p $program_pid 2>&1)
is "top keeps its last table when its recorder is killed" 1 $?
echo "$output" | sed 's/^/# /'
says "top says that its recorder was killed" "$(cat screen)" 'pmctl: the recorder was killed'
rm live
pmctl top --stdio -g -d 0.5 -c 1000003 -e "$event" -p "$program_pid" >live 2>&1 &
top=$!
wait_until "grep -q '^Samples: [1-9]' live"
kill $program_pid
wait $top
is "top ends when the sampled process ends" 0 $?
sed 's/^/# /' live

# The process executes the program when it is sampled, and ends before top's first table is due.
# pmctl writes only those characters of a line that change. So the expected part of the message has
# no character in common with the previous line.
mkfifo go
sh -c 'read -r _ <go; exec "$0" 20000000' "$program" &
program_pid=$!
(
	wait_until recorder_has_events
	echo >go
) &
output=$(pmctl_terminal 24 80 -w 'sampled programs' -o screen -k q -- pmctl top -d 300 -c 1000003 -e $event -p $program_pid 2>&1)
is "top on a terminal stays when the sampled process has ended" 0 $?
echo "$output" | sed 's/^/# /'
says "top shows the samples up to the end of the process" "$(cat screen)" 'outer.*sampled programs'

finish
