#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl when a step fails: an event is unknown, an output can't be written, is full or has no
# reader, or a signal comes at any moment. ROUNDS and SEED in the environment are the number of
# signals for each command, and the seed of their times.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir
rounds=${ROUNDS:-1}
loop="$here/pmctl_loop"
event=instructions:u

# ends NAME CODE REGEX COMMAND... : passes if the command exits with CODE, and prints REGEX
ends() {
	name=$1 code=$2 regex=$3
	shift 3
	output=$("$@" 2>&1)
	got=$?
	if [ $got != "$code" ]; then
		echo "# $name: exit code $got instead of $code"
		echo "$output" | sed 's/^/#   /'
		result 1 "$name"
	else
		says "$name" "$output" "$regex"
	fi
}

# unread COMMAND... : prints the command's standard error and exit code if its output has no reader
unread() {
	without_reader "$@" 2>&1
	echo "exit code $?"
}

plan 46

# Unknown events and metrics.
ends "stat: an unknown event" 2 '^  *\^' pmctl stat -e no_such_event -- true
ends "record: an unknown event" 2 '^  *\^' pmctl record -e no_such_event -- true
ends "top: an unknown event" 2 '^  *\^' pmctl top --stdio -e no_such_event
ends "stat -M: an unknown metric" 2 'no_such_metric' pmctl stat -M no_such_metric -- true
check "nothing was written" [ ! -e perf.data ]

# Outputs that can't be written, or are full.
for place in /nonexistent/out /proc .; do
	ends "stat -o $place" 125 "^pmctl: can't write $place: " pmctl stat -e $event -o $place -- true
	ends "stat --record $place" 125 "^pmctl: can't write $place: " \
		pmctl stat -e $event --record $place -- true
	ends "record -o $place" 125 "^pmctl: can't write $place: " \
		pmctl record -e $event -o $place -- true
	ends "bench --save $place" 125 "^pmctl: can't write $place: " \
		pmctl bench -e $event -r 1 --save $place -- true
done
ends "stat -o /dev/full" 125 "^pmctl: can't write /dev/full: No space" \
	pmctl stat -e $event -o /dev/full -- true
ends "stat -I -o /dev/full" 125 "^pmctl: can't write /dev/full: No space" \
	pmctl stat -I 10 -e $event -o /dev/full -- sh -c 'sleep 0.3; : >ended'
check "stat -I -o /dev/full waits for the command" [ -e ended ]
ends "stat --record /dev/full" 125 "^pmctl: can't write /dev/full: No space" \
	pmctl stat -e $event --record /dev/full -- true
ends "record -o /dev/full" 125 "can't write /dev/full: it is not a regular file" \
	pmctl record -e $event -o /dev/full -- true

mkdir small
mount -t tmpfs -o size=16k none small
pmctl stat -e $event --record small/counts -- true >/dev/null 2>&1
pmctl bench -e $event -r 1 --save small/numbers -- true >/dev/null 2>&1
cat small/counts small/numbers >before
dd if=/dev/zero of=small/fill bs=1k 2>/dev/null
ends "stat -o on a full disk" 125 "^pmctl: can't write small/out: No space" \
	pmctl stat -e $event -o small/out -- true
ends "record -o on a full disk" 125 "^pmctl: can't write small/out: No space" \
	pmctl record -e $event -o small/out -- true
ends "stat --record on a full disk" 125 "^pmctl: can't write small/counts: No space" \
	pmctl stat -e $event --record small/counts -- true
says "stat --record on a full disk shows the counts" "$output" "$event"
ends "bench --save on a full disk" 125 "^pmctl: can't write small/numbers: No space" \
	pmctl bench -e $event -r 1 --save small/numbers -- true
says "bench --save on a full disk shows its table" "$output" "$event"
cat small/counts small/numbers >after
check "a full disk keeps the files written before" cmp before after
pmctl record -q -e $event -c 10007 -o some.data -- "$loop" 1000000 >/dev/null 2>&1
ends "export on a full disk" 1 "^pmctl: can't write small/export: No space" \
	pmctl export --to firefox -i some.data -o small/export
ends "flamegraph on a full disk" 1 "^pmctl: can't write small/flame: No space" \
	pmctl flamegraph -i some.data -o small/flame
is "no part of a file is left on a full disk" "small/counts small/fill small/numbers" "$(echo small/* small/.[!.]* | sed 's/ small.\.\[.*//')"
umount small

# An output has no reader: SIGPIPE ends pmctl, as it ends other programs; record reports it.
is "stat -o - without a reader" "exit code 141" "$(unread pmctl stat -e $event -o - -- true | tail -n 1)"
is "top without a reader" "exit code 141" "$(unread pmctl top --stdio -a -d 1 -e $event -c 10007 | tail -n 1)"
is "script without a reader" "exit code 141" "$(unread pmctl script -i some.data | tail -n 1)"
errors=$(unread pmctl record -e $event -c 10007 -o - -- "$loop" 30000000)
is "record -o - without a reader" "exit code 125" "$(echo "$errors" | tail -n 1)"
says "record says that its output has no reader" "$errors" "can't write standard output|nothing more can be written to standard output"

# no_pmctl_runs: succeeds if no process of pmctl runs
# shellcheck disable=SC2317 # comes_true calls it
no_pmctl_runs() {
	for exe in /proc/[0-9]*/exe; do
		case $(readlink "$exe") in */pmctl) return 1 ;; esac
	done
}

# files_are_readable: succeeds if each file of a command is whole, or is empty, or says that it is
# not whole
files_are_readable() {
	for file in out* .[!.]*; do
		[ -s "$file" ] || continue
		case $file in
		out.json) pmctl stat --report "$file" ;;
		out.data*) pmctl script -i "$file" ;;
		out.csv) [ "$(tail -c 1 "$file")" = "" ] ;;
		out.bench) pmctl bench --baseline "$file" -r 1 -- true ;;
		*) false ;;
		esac >answer 2>&1 && continue
		echo "# $file:"
		sed 's/^/#   /' answer
		return 1
	done
}

# interrupted NAME COMMAND... : sends signals at random moments. Passes if the command ends
# soon, with an exit code that names the cause, and leaves no file half-written.
interrupted() {
	name=$1
	shift
	bad=0 codes=
	for round in $(seq "$rounds"); do
		case $((round % 3)) in 0) signal=TERM ;; 1) signal=INT ;; 2) signal=HUP ;; esac
		pause=$(awk -v seed="$((${SEED:-1} * 1000 + round))$name" \
			'BEGIN { srand(seed); printf "%.3f", 0.6 * rand() * rand() }')
		rm -f out* .[!.]* pid
		(
			until [ -s pid ]; do :; done
			pid=$(cat pid)
			sleep "$pause"
			kill -"$signal" "$pid"
			comes_true "! kill -0 $pid 2>/dev/null" && exit
			echo "# $name: after $pause s: SIG$signal does not end it"
			kill -9 "$pid"
		) &
		# The command runs in the foreground, as one in the background ignores SIGINT.
		# shellcheck disable=SC2016 # the inner shell expands it
		sh -c 'echo $$ >pid; exec setsid "$@"' sh "$@" >log 2>&1
		code=$?
		wait
		codes="$codes $code"
		case $code in
		0 | 125 | 129 | 130 | 143) ;;
		*) bad=$((bad + 1)); echo "# $name: after $pause s: SIG$signal: exit code $code" ;;
		esac
		if grep -q panick log; then
			bad=$((bad + 1))
			sed 's/^/#   /' log
		fi
		files_are_readable || { bad=$((bad + 1)); echo "# $name: after $pause s: SIG$signal"; }
		# A recorder ends its recording when its reader has ended.
		comes_true no_pmctl_runs || { bad=$((bad + 1)); echo "# $name: after $pause s: pmctl still runs"; }
	done
	echo "# $name: exit codes$codes"
	is "signals at any moment: $name" 0 $bad
}

echo 1 >/proc/sys/kernel/printk
interrupted "stat" pmctl stat -e $event -x, -o out.csv -- "$loop" 100000000000
interrupted "stat --record" pmctl stat -a -e $event --record out.json -I 100
interrupted "stat in several runs" pmctl stat -r 50 -e $event -x, -o out.csv -- "$loop" 10000000
interrupted "bench" pmctl bench -e $event -r 50 --save out.bench -- "$loop" 10000000
interrupted "record" pmctl record -g -e $event -c 100003 -o out.data -- "$loop" 100000000000
interrupted "record -a" pmctl record -a -F 1000 -o out.data
interrupted "record --rotate" pmctl record -a --rotate -e $event -c 100003 -o out.data
interrupted "top" pmctl top --stdio -a -e $event -c 100003

"$loop" 1000000 exit >/dev/null
is "after all signals the counters are free, and count" 1000000 \
	"$(($(pmctl stat -x, -o - -e $event -- "$loop" 1500000 | cut -d, -f1) - $(pmctl stat -x, -o - -e $event -- "$loop" 1000000 | cut -d, -f1)))"
finish
