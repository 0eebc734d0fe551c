#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl record names programs that are executed after its start: by the driver's records, for
# every user. Without kprobes it uses the names that Linux's perf or /proc has.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

event=instructions:u
period=10007
# PROGRAMS in the environment is the number of programs.
programs=${PROGRAMS:-30}
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
# shellcheck disable=SC2034 # at the end
at_end="echo $paranoid >/proc/sys/kernel/perf_event_paranoid; chown 0:0 /dev/perfmon; chmod 600 /dev/perfmon"

# The programs have different names, and some 10 samples each. None runs for longer than pmctl needs
# to look at a process.
mkdir bin
for i in $(seq "$programs"); do
	cp "$here/pmctl_loop" "bin/short_$i"
done
cat >all <<-END
	#!/bin/sh
	for program in $dir/bin/*; do
		\$program 50000 &
	done
	wait
END
chmod 755 all "$dir" bin

# record OPTION... : records all programs; the output is in $output
record() {
	output=$(pmctl record -e $event "$@" 2>&1)
}

# programs_of FILE: prints how many of the programs have samples in a mapping of their own file, and
# how many of the programs' samples are in no mapping. Until the exec, the process is still the
# shell.
programs_of() {
	pmctl script -i "$1" -F comm,dso 2>/dev/null | awk '
		$1 !~ /^short_/ { next }
		$2 !~ "/" $1 "\\)$" { unnamed++; next }
		!seen[$1]++ { named++ }
		END { print named + 0, unnamed + 0 }'
}

# names_all NAME FILE: passes if FILE has samples of each program, all with the program's name
names_all() {
	is "$1: each program has samples, and each sample its program" "$programs 0" "$(programs_of "$2")"
}

# as_user COMMAND: runs COMMAND as a user who has the device's group alone, and can't use perf
as_user() {
	chown 0:1000 /dev/perfmon
	chmod 660 /dev/perfmon
	chmod 777 "$dir"
	echo 3 >/proc/sys/kernel/perf_event_paranoid
	su user -c "$1"
}

# names FILE: prints the programs and the files of their samples
names() {
	pmctl script -i "$1" -F comm,dso 2>/dev/null | sed 's/ *(/ (/' | sort -u
}

# begin OPTION... : starts to record, in the background, a shell that executes all programs once
# a line is written to `go`; $program_pid is its PID, $record that of the recording
begin() {
	[ -p go ] || mkfifo go
	sh -c 'read -r _ <go; exec ./all' &
	program_pid=$!
	pmctl record -e $event -p $program_pid "$@" 2>errors &
	record=$!
	wait_until "has_events $record"
}

plan 35

record -c $period -- ./all
is "record succeeds" 0 $?
names_all "a command" perf.data
is "record of a command misses nothing" "" "$(echo "$output" | grep -E 'LOST|DEGRADED')"
perf script -F comm,ip,dso 2>/dev/null | awk 'NF { print $1, $NF }' | sort -u >theirs
check "perf script shows the same names" cmp -s theirs - <<-END
	$(names perf.data)
END
record -c $period -a -- ./all
names_all "-a" perf.data

# The program starts on a CPU that is not sampled, and moves to a CPU that is. A turn that begins
# after the move has 10 samples.
cp "$here/pmctl_turns" short_turns
last=$(($(nproc) - 1))
cat >moves <<-END
	taskset 1 ./short_turns 5000000 >turns &
	until [ "\$(cat /proc/\$!/comm)" = short_turns ]; do sleep 0.01; done
	taskset -p $((1 << last)) \$! >/dev/null
	$here/pmctl_more_turns turns 2
	kill \$!
END
record -c 1000003 -C $last -- sh moves
is "-C: a program that comes from another CPU has its name" "1 0" "$(programs_of perf.data)"

record -c $period --no-inherit -- sh -c 'exec ./bin/short_1 50000'
is "--no-inherit: each sample has its program" "1 0" "$(programs_of perf.data)"
# The rings of samples are overwritten, but names of earlier mappings are still known.
record -c $period --overwrite -m 1024 -- ./all
names_all "--overwrite" perf.data
record -c $period --overwrite -a -m 1024 -- ./all
names_all "--overwrite -a" perf.data
# One of the program's turns begins after the delay.
pmctl record -e $event -c 1000003 -D 200 -- ./short_turns 5000000 >turns 2>/dev/null &
record=$!
wait_until "pidof short_turns >/dev/null && has_events $record"
"$here/pmctl_more_turns" turns 2
kill "$(pidof short_turns)"
wait $record
is "-D: a program that began before has its name" "1 0" "$(programs_of perf.data)"
begin -c $period
echo >go
wait $record
is "record -p succeeds" 0 $?
names_all "-p" perf.data
begin -c $period --switch-output=20K
echo >go
wait $record
is "--switch-output: each sample has its program" 0 "$(for file in perf.data.*; do programs_of "$file"; done | cut -d " " -f 2 | sort -u)"

# While pmctl is stopped, it does not read, and the rings get full. A later record has the number of
# lost records.
sh -c 'read -r _ <go; ./all; : >first; read -r _ <go; exec ./all' &
program_pid=$!
pmctl record -e $event -c 1000003 -m 1 -p $program_pid -o full.data 2>errors &
record=$!
wait_until "has_events $record"
kill -STOP $record
# pmctl may still write what it has read.
wait_until "! grep -L '^State:.[Tt]' /proc/$record/task/*/status | grep -q ."
size=$(stat -c %s full.data)
echo >go
wait_until "[ -e first ]"
kill -CONT $record
wait_until "[ \$(stat -c %s full.data) -gt $size ]"
echo >go
wait $record
says "record reports names that were lost" "$(cat errors)" \
	'DEGRADED: [0-9,]+ records of mappings or task names were lost'

as_user "cd $dir; pmctl record -e $event -c $period -o users.data -- ./all" 2>errors
is "a user may record" 0 $?
names_all "a user" users.data
is "record of a user misses nothing" "" "$(grep -E 'LOST|DEGRADED' errors)"
record -c $period -- ./all
check "a user has the names that root has" [ "$(names perf.data)" = "$(names users.data)" ]

# A kernel whose probes are all disabled returns no error, but nothing records mappings.
says "doctor finds that mappings are recorded" "$(pmctl doctor)" '^ok +names '
probes=/sys/kernel/debug/kprobes/enabled
if [ -e $probes ] && echo 0 >$probes; then
	says "doctor finds that all probes are off" "$(pmctl doctor | tr -s ' \n' ' ')" ' note names .*kprobes are disabled'
	echo 1 >$probes
else
	skip "doctor finds that all probes are off" "this kernel has no $probes"
fi

# wrapped_mappings: lets a wrapped perf record a program; $mappings has the lines on mappings in the
# fdinfo of perf's events
wrapped_mappings() {
	# shellcheck disable=SC2016 # the inner shell expands it
	try pmctl wrap -- perf record -q -o wrapped.data -e instructions:u -c 1000003 -- \
		sh -c 'grep -hs "^mmap:" /proc/$PPID/fdinfo/* | sort -u >mappings; exec "$0" 5000000' ./bin/short_1
	mappings=$(tr -d '[:space:]' <mappings)
}

wrapped_mappings
says "fdinfo says that an event records mappings" "$mappings" mmap:1

rmmod perfmon
if insmod /lib/modules/no_kprobes.ko; then
	load_module
	wrapped_mappings
	is "fdinfo says that an event records no mappings" mmap:0 "$mappings"
	says "wrap says that names are missing" "$errors" 'no kprobes, so the driver can.t record mappings'
	says "doctor finds that there are no kprobes" "$(pmctl doctor | tr -s ' \n' ' ')" ' note names .*no kprobes'
	record -c $period -- ./all
	is "record succeeds without kprobes" 0 $?
	names_all "by perf" perf.data
	is "perf's records replace the driver's" "" "$(echo "$output" | grep -E 'LOST|DEGRADED')"
	# pmctl reads the name while the program runs, in one of its rounds.
	as_user "cd $dir; pmctl record -e $event -c 1000003 -o poor.data -- ./bin/short_1 1000000000000" 2>errors &
	record=$!
	comes_true "[ \"\$(programs_of poor.data)\" = '1 0' ]"
	kill "$(pidof short_1)"
	wait $record
	is "a user may record without perf" 143 $?
	says "record says that neither the driver nor perf names programs" "$(cat errors)" 'DEGRADED: this kernel has no kprobes.*neither can perf'
	is "a program that runs for a while has its name" "1 0" "$(programs_of poor.data)"
	rmmod perfmon
	rmmod no_kprobes

	# Without memory for the probes there is no event: an event would miss names silently.
	load_module
	insmod /lib/modules/no_kprobes.ko error=-12
	record -c $period -- ./all
	check "record fails without memory for kprobes" [ $? != 0 ]
	says "record says that there is no memory" "$output" "memory"
	is "no probe is left behind" 0 "$(grep -cE 'perf_event_mmap|setup_new_exec' /sys/kernel/debug/kprobes/list)"
	rmmod no_kprobes
	record -c $period -- ./all
	names_all "memory again" perf.data
	wait_until "! grep -qE 'perf_event_mmap|setup_new_exec' /sys/kernel/debug/kprobes/list"
	result 0 "the probes go when no event needs them"
else
	load_module
	for case in fdinfo wrap doctor record programs perf user says-so a-while fails memory left again go; do
		skip "without kprobes: $case" "register_kprobes() can't be probed"
	done
fi
finish
