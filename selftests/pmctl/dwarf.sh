#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl record --call-graph dwarf and lbr: call chains of a program without frame pointers have
# the expected functions, and are the same as perf script's, if perf can unwind.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
# shellcheck source=SCRIPTDIR/../lib/chains.sh
. "$here/chains.sh"

in_own_dir
lift_perf_limits

program=$here/pmctl_unwound
start='_start;__libc_start_main[^;]*;(__libc_start_call_main;)?main;outer'
recursion=$(printf 'recurse;%.0s' $(seq 20))

# record FILE OPTION...: records the program to FILE.data, and returns pmctl's exit code
record() {
	name=$1
	shift
	pmctl record --call-graph dwarf -m 4096 -o "$name.data" "$@" >"$name.log" 2>&1
	status=$?
	sed 's/^/# /' "$name.log"
	return $status
}

# stacks_of FILE FUNCTION: prints the stacks with the function, and their samples
stacks_of() {
	pmctl flamegraph --folded -i "$1.data" 2>/dev/null | grep -E "$2"
}

# all_have FILE FUNCTION CHAIN: succeeds if there are samples of the function, and all of them
# have this chain
# shellcheck disable=SC2317 # check calls it
all_have() {
	stacks_of "$1" ";$2[ ;]" >stacks
	other=$(grep -vE "^pmctl_unwound;$3 [0-9]+\$" stacks)
	if [ -n "$other" ] || ! [ -s stacks ]; then
		echo "# expected $3; got:"
		sed 's/^/# /' stacks
		return 1
	fi
}

# unwinds is the number of recordings from which perf unwinds call chains, if it can.
unwinds=0
perf_unwinds && unwinds=3
lbr=1
grep -q GenuineIntel /proc/cpuinfo && lbr=4
plan $((19 + lbr + unwinds))

pmctl record -g dwarf -e instructions:u -- "$program" callers 1000000 >/dev/null 2>&1
is "record -g dwarf -- COMMAND succeeds" 0 $?
says "samples of record -g dwarf have stacks" "$(perf evlist -v 2>/dev/null)" 'sample_stack_user: 8192'
says "samples of record -g dwarf have perf's registers" "$(perf evlist -v 2>/dev/null)" 'sample_regs_user: 0xff0fff'

record callers -e instructions:u -c 100003 -- "$program" callers 20000000
is "recursion is recorded" 0 $?
says "record names the command that shows the callers" "$(cat callers.log)" 'see it with .pmctl report -g -i callers.data'
check "all callers of a leaf are found" all_have callers leaf "$start;middle;${recursion}leaf"
check "each sample of a leaf has its callers" [ "$(stacks_of callers ';leaf ' | awk '{ n += $NF } END { print n / 100003 }')" -ge 395 ]
is "report --children shows the callers" 1 \
	"$(pmctl report --children --no-pager -i callers.data --sort symbol | grep -c '\] recurse$')"

record signal -e instructions:u -c 100003 -- "$program" signal 20000000
is "a signal is recorded" 0 $?
check "a signal's handler is called from the interrupted function" \
	all_have signal leaf "$start;interrupted;[^;]*;on_signal;recurse;recurse;leaf"

record kernel -e instructions -c 100003 -- "$program" kernel 3000
is "the kernel is recorded" 0 $?
check "the kernel's functions are called by the program's" \
	[ "$(stacks_of kernel "$start;middle;${recursion}call_kernel;[^;]*read;.*vfs_read;" | wc -l)" -ge 1 ]
is "--user-callchains leaves the kernel's functions out" 0 \
	"$(pmctl record --call-graph=dwarf --user-callchains -e instructions -c 100003 -o user.data -- \
		"$program" kernel 300 >/dev/null 2>&1; stacks_of user 'call_kernel;[^;]*read;.*vfs_read;' | wc -l)"

record vdso -e instructions:u -c 10007 -- "$program" vdso 300000
is "the vDSO is recorded" 0 $?
check "the vDSO's functions are called by the program's" \
	all_have vdso '[^;]*vdso_getcpu' "$start;middle;${recursion}call_vdso;[^;]*getcpu;[^;]*vdso_getcpu"

record deep -e instructions:u -c 100003 -- "$program" deep 20000000
says "record says that chains of a long stack are cut" "$(cat deep.log)" \
	'CUT: [0-9]+ of [0-9]+ call chains: the stack is longer than the 8192 bytes'
says "report says that chains of a long stack are cut" "$(pmctl report --children --no-pager -i deep.data)" 'CUT: .*longer than the 8192'
stacks_of deep ';leaf ' >stacks
check "cut chains have the callers that were recorded" grep -qE '^pmctl_unwound;(deep;){3,4}leaf ' stacks
pmctl record --call-graph dwarf,65528 -e instructions:u -c 100003 -o more.data -- \
	"$program" deep 2000000 >/dev/null 2>&1
check "a longer copy of the stack gives longer chains" [ "$(stacks_of more ';leaf ' | awk -F ';' '{ print NF }' | sort -n | tail -1)" -ge 25 ]

# calls: records the call stacks of last branches, and prints what record prints
calls() {
	pmctl record --call-graph lbr -e instructions:u -c 100003 -o calls.data -- \
		"$program" callers 20000000 2>&1
}

if [ $lbr = 1 ]; then
	says "record says that the CPU records no call stack" "$(calls)" 'CPUs of AMD record branches, but no call stack|this CPU does not record branches'
else
	output=$(calls)
	is "calls are recorded" 0 $?
	echo "$output" | sed 's/^/# /'
	check "recorded calls lead to a leaf" all_have calls leaf "$start;middle;${recursion}leaf"
	# perf shows the function that was called last, without the sample's offset in it.
	perf script -F ip,sym -i calls.data 2>/dev/null | awk '/^\t/ { print $2 }' >theirs
	pmctl script -F ip,sym -i calls.data 2>/dev/null | awk '/^\t/ { sub(/\+.*/, "", $2); print $2 }' >ours
	check "there are many recorded calls" [ "$(wc -l <ours)" -ge 1000 ]
	is "perf script shows the same functions" "$(sort theirs | uniq -c)" "$(sort ours | uniq -c)"
fi

if [ $unwinds -gt 0 ]; then
	# The vDSO is not compared, because perf leaves out many samples there.
	for name in callers signal kernel; do
		check "perf script finds the same callers of $name" same_chains $name.data
	done
fi

finish
