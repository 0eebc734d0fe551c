#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# An event that was not counted is not shown as 0: pmctl says that there is no count, and why.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

mode=$(stat -c %a /dev/perfmon)
policy=/proc/sys/kernel/perf_event_paranoid
paranoid=$(cat "$policy")
dir=$(mktemp -d)
# shellcheck disable=SC2317 # called by the trap
restore() {
	chmod "$mode" /dev/perfmon
	echo "$paranoid" >"$policy"
	rm -rf "$dir"
}
trap restore EXIT
chmod 666 /dev/perfmon
# Without this setting, Debian's kernel lets users count no software event.
echo 2 >"$policy"
chmod 777 "$dir"
cd "$dir" || exit 1

loop=$here/pmctl_loop
setuid=$dir/setuid-loop
cp "$loop" "$setuid"
chmod 4755 "$setuid"
hidden=$dir/hidden-loop
cp "$loop" "$hidden"
chmod 711 "$hidden"

# as_user COMMAND... : runs the command by try, as a user without rights
as_user() {
	try "$here/pmctl_as" -4711 "$@"
}

plan 40

# The kernel removes the events of a task that executes a setuid or unreadable program.
for command in "$setuid 1000000" "$hidden 1000000" "sh -c '$setuid 1000000; true'"; do
	as_user sh -c "pmctl stat -e instructions:u,task-clock -- $command"
	is "stat of $command fails" 125 $?
	is "stat of $command shows no number" 2 "$(echo "$errors" | grep -c '^ *<not counted> ')"
	says "stat of $command says why" "$errors" 'setuid, setgid, capabilities'
done
as_user pmctl stat -e instructions:u -- "$loop" 1000000
is "a program without such rights is counted" 0 $?

as_user pmctl stat -x, -o csv -e instructions:u -- "$setuid" 1000
says "CSV says that the event was not counted" "$(cat csv)" '^<not counted>,,instructions:u,'
as_user pmctl stat -j -o json -e instructions:u -- "$setuid" 1000
says "JSON says that the event was not counted" "$(cat json)" '"counter-value" ?: ?"<not counted>"'
as_user pmctl stat -r 2 -e instructions:u -- "$setuid" 1000
is "stat -r 2 says that the event was not counted" 1 "$(echo "$errors" | grep -c '^ *<not counted> ')"
as_user pmctl bench -r 2 -e instructions:u "$setuid 1000"
is "bench fails if the event was not counted" 125 $?
says "bench says why" "$errors" 'setuid, setgid, capabilities'

as_user pmctl record -o data -e instructions:u -c 100003 -- "$setuid" 10000000
is "record of a setuid program fails" 125 $?
says "record says why" "$errors" 'DEGRADED.*setuid, setgid, capabilities'
check "record does not say that the event hardly happened" [ "$(echo "$errors" | grep -c 'hardly happened')" = 0 ]
says "report says why samples are missing" "$(pmctl report -i data --stdio 2>&1)" 'setuid, setgid, capabilities'

# The kernel does not tell that its own events have left the task: the driver does.
as_user pmctl stat -e task-clock:u,page-faults:u -- "$setuid" 1000000
is "stat of software events alone fails" 125 $?
is "stat of software events alone shows no number" 2 "$(echo "$errors" | grep -c '^ *<not counted> ')"
says "stat of software events alone says why" "$errors" 'setuid, setgid, capabilities'
as_user pmctl stat -I 100 -e task-clock:u -- sh -c "sleep 0.3; $setuid 1000000; sleep 0.3"
is "stat -I of software events alone fails" 125 $?
says "stat -I shows no number from then on" "$(echo "$errors" | grep ' task-clock:u' | tail -1)" '<not counted>'
as_user pmctl stat -e task-clock:u -- "$loop" 1000000
is "software events alone count a program without such rights" 0 $?
# An event that happens in the kernel only is not shown as 0.
as_user pmctl stat -e cs,task-clock,cpu-migrations:u,page-faults -- "$loop" 1000000
is "stat of context switches in user mode fails" 125 $?
says "context switches in user mode are not supported" "$errors" '<not supported> +cs:u$'
says "stat says where context switches happen" "$errors" 'cs:u: It happens in the kernel only'
says "migrations in user mode are not supported" "$errors" '<not supported> +cpu-migrations:u$'
says "the clock counts all modes" "$errors" '[0-9.]+ msec +task-clock$'
as_user pmctl record -o data -e page-faults:u -c 1 -- "$setuid" 1000000
is "record of software events alone fails" 125 $?
says "record of software events alone says why" "$errors" 'DEGRADED.*setuid, setgid, capabilities'
as_user pmctl record -o data -e page-faults:u -c 1 -- "$loop" 1000000
is "record of software events alone samples a program without such rights" 0 $?

# top samples a process that later executes the program. From then on no samples come, and top says
# why.
mkfifo go
chmod 666 go
"$here/pmctl_as" -4711 sh -c "read -r _ <go; exec $setuid 100000000000" &
program=$!
# Waits until the process has changed its user: before that, its rights differ from pmctl's.
wait_until "grep -q '^Uid:.4711' /proc/$program/status"
"$here/pmctl_as" -4711 pmctl top --stdio -d 0.5 -e instructions:u -c 100003 -p $program >live 2>&1 &
top=$!
wait_until "has_lines 1 live '^Samples: ' || has_ended $top"
is "top says nothing before that" 0 "$(grep -c 'setuid, setgid, capabilities' live)"
echo >go
check "top says why there are no samples" comes_true "grep -q 'No sample\. .*setuid, setgid, capabilities' live"
kill $program
wait $top
is "top of the program fails" 1 $?
sed 's/^/# /' live

# The emulated PMU takes every event by its number, but counts only few.
if pmctl stat -e r01ff -- true 2>&1 | grep -q "QEMU's emulation"; then
	try pmctl stat -e r01ff -- true
	says "stat says that an event is not counted" "$errors" 'stores only, and not r01ff'
	try pmctl record -q -o data -e r01ff -- true
	says "record says that an event is not counted" "$errors" 'stores only, and not r01ff'
else
	skip "stat says that an event is not counted" "there is no emulated PMU"
	skip "record says that an event is not counted" "there is no emulated PMU"
fi

# A file of counts has no samples.
perf stat record -o counts -e instructions:u -- true >/dev/null 2>&1
output=$(pmctl report -i counts --stdio 2>&1)
check "report does not take a file of counts for one without samples" [ $? != 0 ]
says "report says that the file is of perf stat" "$output" 'perf stat report'

finish
