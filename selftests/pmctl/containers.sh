#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl serve of cgroups: loops of a known length run in cgroups that have the names of
# containers, and that are made and removed meanwhile.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

url=http://127.0.0.1:9743
root=$(mktemp -d)
as=
loop=$here/pmctl_loop
# The number of cgroups with which the cost of a scrape is measured.
MANY=${MANY:-500}
# The most instructions that a scrape may take for each cgroup, on two CPUs: serve.rst has the usual number.
most_each=60000
# shellcheck disable=SC2016 # it is evaluated at the end
at_end='kill $server 2>/dev/null; wait; find "$root" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null; umount "$root"; rmdir "$root"'

# inside CGROUP COMMAND... : executes COMMAND in the cgroup
inside() {
	cgroup=$1
	shift
	"$here/pmctl_inside" "$root/$cgroup/cgroup.procs" "$@"
}

# start OPTION... : starts the server, as the user $as if that is set, and waits until it serves
start() {
	rm -f serve.log
	${as:+"$here/pmctl_as" "$as"} pmctl serve -e instructions:u,branches:u "$@" >serve.log 2>&1 &
	server=$!
	wait_until "grep -qs 'pmctl: serving' serve.log || has_ended $server"
}

stop() {
	kill -TERM $server
	wait $server
}

get() { wget -q -O - $url/metrics; }

# value FILE NAME [EVENT ID] : prints the value of a series; nothing if FILE does not have it
value() {
	awk -v name="$2" -v event="event=\"${3-}\"" -v id="id=\"${4-}\"" '
		index($0, name) == 1 && (event == "event=\"\"" || (index($0, event) && index($0, id))) { print $NF }' "$1"
}

# insns FILE ID : prints the instructions of a cgroup
insns() { value "$1" container_perf_events_total instructions:u "$2"; }

# label FILE ID NAME : prints a label of a cgroup
label() {
	awk -v id="id=\"$2\"" '/^container_perf_events_total/ && index($0, id)' "$1" | sed -n "1s/.*[{,]$3=\"\([^\"]*\)\".*/\1/p"
}

plan 47

mount -t cgroup2 none "$root"
id=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
uid=a1b2c3d4-0000-1111-2222-333344445555
slice=kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod$(echo $uid | tr - _).slice
container=$slice/cri-containerd-$id.scope
mkdir -p "$root/$container" "$root/machine.slice/libpod-$id.scope/container" "$root/batch"

start --cgroups 'kubepods.slice/**,machine.slice/*' --max-cgroups 6
says "serve tells how many cgroups it counts" "$(cat serve.log)" '^pmctl: counting the same events in 5 cgroups$'
get >before
is "a cgroup without tasks counts 0" 0 "$(insns before "/$container")"
inside "$container" "$loop" 1000000
get >few
inside "$container" "$loop" 2000000
get >many
a=$(insns few "/$container") b=$(insns many "/$container")
is "a container counts its loop to the instruction" 2000000 $((b - 2 * a))
is "a pod counts its container's loop" "$b" "$(insns many "/$slice")"
is "the cgroup of all pods counts the container's loop" "$b" "$(insns many /kubepods.slice)"
is "another container counts 0" 0 "$(insns many "/machine.slice/libpod-$id.scope")"
is "a container's branches are one for each iteration of the loop" 1000000 \
	$(($(value many container_perf_events_total branches:u "/$container") - 2 * $(value few container_perf_events_total branches:u "/$container")))
is "a cgroup that no pattern matches is not counted" "" "$(insns many /batch)"
is "a cgroup within a container is not counted" "" "$(insns many "/machine.slice/libpod-$id.scope/container")"
is "a label has the container's ID" $id "$(label many "/$container" container_id)"
is "a label has the pod's UID" $uid "$(label many "/$container" pod_uid)"
is "a label names containerd as the runtime" containerd "$(label many "/$container" runtime)"
is "a label has the container's name, as cAdvisor's" $id "$(label many "/$container" name)"
is "the label of the CPU is empty, as the count is of all CPUs" "" "$(label many "/$container" cpu)"
is "a label names podman as the runtime" podman "$(label many "/machine.slice/libpod-$id.scope" runtime)"
is "the page has the numbers of cgroups counted, allowed and left out" "5 6 0" "$(value many perfmon_cgroups\ ) $(value many perfmon_cgroups_limit) $(value many perfmon_cgroups_left_out)"
says "the start page has the number of cgroups" "$(wget -q -O - $url/)" 'in each of 5 cgroups'

# Cgroups are made and removed.
mkdir "$root/machine.slice/new"
get >page
is "a new cgroup is on the page" 0 "$(insns page /machine.slice/new)"
inside "machine.slice/new" "$loop" 2000000
get >page
check "a new cgroup is counted" [ "$(insns page /machine.slice/new)" -gt 4000000 ]
rmdir "$root/machine.slice/new"
mkdir "$root/machine.slice/new"
get >page
is "a new cgroup with an old name begins at 0" 0 "$(insns page /machine.slice/new)"
rmdir "$root/machine.slice/new"
get >page
is "a removed cgroup is not on the page" "" "$(insns page /machine.slice/new)"
is "no event is missing after a cgroup is removed" 0 "$(value page perfmon_events_missing)"

# There are more cgroups than the limit allows.
mkdir "$root/machine.slice/1" "$root/machine.slice/2" "$root/machine.slice/3"
get >page
is "no more cgroups than the limit are counted" "6 2" "$(value page perfmon_cgroups\ ) $(value page perfmon_cgroups_left_out)"
is "cgroups within the limit are still counted" "$b" "$(insns page "/$container")"
get >page
is "serve reports the limit once" 1 "$(grep -c 'only 6 cgroups are counted, which is the limit. Raise it with --max-cgroups' serve.log)"
rmdir "$root/machine.slice/1"
get >page
is "a removed cgroup makes room for another" "6 1" "$(value page perfmon_cgroups\ ) $(value page perfmon_cgroups_left_out)"
stop
rmdir "$root/machine.slice/2" "$root/machine.slice/3"

# Users make cgroups that can't be opened: one that is unreadable, and one whose path is too long.
# each_level COMMAND : executes COMMAND in each of 20 nested cgroups, the innermost first
each_level() {
	(
		cd "$root/batch/a" || exit
		name=$(printf '%0255d' 0)
		for i in $(seq 20); do
			[ -d "$name" ] || mkdir "$name"
			cd -P "$name" || exit
		done
		for i in $(seq 20); do
			cd -P .. || exit
			"$@" "$name"
		done
	)
}
mkdir "$root/batch/a" "$root/batch/b" "$root/batch/c"
each_level true
chmod 700 "$root/batch/b"
chmod 666 /dev/perfmon
as=1000
start --cgroups 'batch/**'
get >few
inside "batch/c" "$loop" 2000000
get >page
check "cgroups that can't be opened hide no other" [ "$(insns page /batch/c)" -gt 4000000 ]
is "an unreadable cgroup is not counted" "" "$(insns page /batch/b)"
check "cgroups that can't be opened are left out" [ "$(value page perfmon_cgroups_left_out)" -ge 2 ]
says "serve tells why" "$(cat serve.log)" 'only [0-9]+ cgroups are counted, since opening another one failed'
mkdir "$root/batch/d"
get >page
is "a new cgroup is counted beside them" 0 "$(insns page /batch/d)"
stop
as=
chmod 600 /dev/perfmon
each_level rmdir
rmdir "$root/batch/a" "$root/batch/b" "$root/batch/c" "$root/batch/d"

# A user makes cgroups within cgroups, more than the limit allows.
chain=batch/a
for level in $(seq 40); do
	chain=$chain/$level
done
mkdir -p "$root/$chain"
mkdir "$root/batch/z"
start --cgroups 'batch/**' --max-cgroups 6
get >page
is "a cgroup with fewer levels is counted before deeper ones" "6 0" "$(value page perfmon_cgroups\ ) $(insns page /batch/z)"
stop
start --cgroups 'batch/**'
get >page
is "cgroups without counts take no place" "33 0 0" \
	"$(value page perfmon_cgroups\ ) $(value page perfmon_cgroups_left_out) $(value page perfmon_events_missing)"
stop
pmctl top --cgroups="$chain" --iterations 1 --delay 0.1 >table
says "top says which level can't be counted" "$(cat table)" 'no name with up to 32 levels matches'
find "$root/batch" -mindepth 1 -depth -type d -exec rmdir {} +
for command in serve top; do
	try timeout -s KILL "${LIMIT:-600}" pmctl $command --cgroups=batch,
	is "$command refuses an empty pattern" 2 $?
done
says "top says what the root is" "$errors" 'a pattern is empty in .batch,.\. The root cgroup, .* is ./'

# The cgroups need more descriptors than there are. The server keeps some free for requests and for
# the search.
for i in $(seq 100 199); do
	mkdir "$root/batch/$i"
done
rm -f serve.log
# shellcheck disable=SC2016 # the inner shell expands it
sh -c 'ulimit -n 220; exec "$@"' sh pmctl serve -e instructions:u,branches:u --cgroups 'batch/*' >serve.log 2>&1 &
server=$!
wait_until "grep -qs 'pmctl: serving' serve.log || has_ended $server"
get >page
number=$(value page perfmon_cgroups\ )
check "as many cgroups are counted as descriptors are free" [ "$number" -gt 10 ]
says "serve tells that it lacks descriptors" "$(cat serve.log)" "only $number cgroups are counted, .*descriptor"
rmdir "$root/batch/100"
get >page
is "a removed cgroup is not on the page if descriptors are too few" "" "$(insns page /batch/100)"
# The connection of the request holds two descriptors, so one cgroup may be missing.
check "another cgroup has its descriptors" [ "$(value page perfmon_cgroups\ )" -ge $((number - 1)) ]
stop
find "$root/batch" -mindepth 1 -type d -exec rmdir {} +

# The events need all general counters. Events of CPUs and of cgroups share them.
general=$(pmctl info | awk '$1 == "general" { print $2 }')
all=$(seq "$general" | sed 's|.*|cpu/event=0xc4,umask=0,cmask=&/u|' | tr '\n' ,)
pmctl serve -e "${all%,}" --cgroups 'kubepods.slice/**' >serve.log 2>&1 &
server=$!
wait_until "grep -qs 'pmctl: serving' serve.log || has_ended $server"
get >page
is "cgroups need no more counters than the CPUs" "0 $((4 * general))" \
	"$(value page perfmon_events_missing) $(grep -c '^container_perf' page)"
stop

# Measures the cost of a scrape, minus the cost at a server without cgroups.
# cost : prints the server's instructions for a scrape
cost() {
	pmctl stat -e instructions -x, -o csv -p $server -- sh -c "for i in 1 2 3 4 5; do wget -q -O /dev/null $url/metrics; done" >/dev/null 2>&1
	awk -F, '{ printf "%d", $1 / 5 }' csv
}
# slab : prints how much memory the kernel has for small objects, in KiB
slab() { awk '$1 == "Slab:" { print $2 }' /proc/meminfo; }
start
get >/dev/null
without_cgroups=$(cost)
stop
i=0
while [ $i -lt "$MANY" ]; do
	mkdir "$root/batch/$i"
	i=$((i + 1))
done
free=$(slab)
start --cgroups 'batch/*'
used_kib=$(($(slab) - free))
get >page
is "many cgroups are counted" "$MANY" "$(value page perfmon_cgroups\ )"
with_cgroups=$(cost)
each=$(((with_cgroups - without_cgroups) / MANY))
echo "# a scrape takes the server $without_cgroups instructions, and with $MANY cgroups of 2 events $each more for each"
check "a scrape takes at most $most_each instructions for each cgroup" [ $each -gt 0 -a $each -le $most_each ]
read -r before _ </proc/uptime
for i in 1 2 3 4 5 6 7 8 9 10; do get >page; done
read -r after _ </proc/uptime
echo "# a page takes $(echo "$before $after" | awk '{ printf "%.0f", ($2 - $1) * 100 }') ms"
echo "# the kernel has $((used_kib * 1024 / MANY)) bytes more for each of them, on $(nproc) CPUs"
echo "# the page has $(wc -c <page) bytes; the server has $(value page process_resident_memory_bytes) bytes and $(find /proc/$server/fd -type l | wc -l) descriptors"
inside "batch/7" "$loop" 1000000
get >few
inside "batch/7" "$loop" 2000000
get >many
is "one of many cgroups counts its loop to the instruction" 2000000 $(($(insns many /batch/7) - 2 * $(insns few /batch/7)))
find "$root/batch" -mindepth 1 -type d -exec rmdir {} +
get >page
is "all cgroups may be removed at once" 0 "$(value page perfmon_cgroups\ )"
stop
umount "$root"
rm -f serve.log
pmctl serve --cgroups '*' >serve.log 2>&1
says "serve does not start without cgroups" "$(cat serve.log)" 'no cgroups are mounted'
mount -t cgroup2 none "$root"
finish
