#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Files of perf record, read by pmctl: samples and call chains are those
# that perf script shows, whatever the samples consist of.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir
lift_perf_limits

program=$dir/program
cp "$here/pmctl_unwound" "$program"

# record OPTION...: perf record of the program's $what
what="callers 20000000"
# shellcheck disable=SC2086 # $what is two words
record() {
	output=$(perf record -q -o perf.data "$@" -- "$program" $what 2>&1) && return
	# The program itself may have failed.
	[ -z "$output" ] || echo "$output" | sed 's/^/# /'
	return 1
}

# samples: the fields and the addresses of what script prints. In front of a call chain pmctl
# prints the address, too. Names are left out: of several for one place perf takes others.
# shellcheck disable=SC2317 # check calls it
samples() {
	awk '/^\t/ { print "", $1; next } NF { print $1, $2, $3, $4, $5; if (!chains) print "", $6 }' \
		chains="$1"
}

# same FIELDS: whether pmctl shows at least 50 samples in perf.data, and the same as perf
# shellcheck disable=SC2317 # check calls it
same() {
	chains=$(perf evlist -v -i perf.data 2>/dev/null | grep -c CALLCHAIN)
	perf script -F "$1" -i perf.data 2>theirs.log | samples "$chains" >theirs
	pmctl script -F "$1" -i perf.data 2>ours.log | samples "$chains" >ours
	[ "$(wc -l <ours)" -ge 100 ] && cmp -s ours theirs && return
	sed 's/^/# /' theirs.log ours.log
	wc -l ours theirs | sed 's/^/# /'
	diff ours theirs | head -20 | sed 's/^/# /'
	return 1
}

# recorded OPTION...: whether what perf record writes with these options is read
# shellcheck disable=SC2317 # check calls it
recorded() {
	record "$@" && same comm,tid,time,period,event,ip
}

# refused WORDS COMMAND...: whether the command says so, and gives exit code 1
# shellcheck disable=SC2317 # check calls it
refused() {
	refused_words=$1
	shift
	output=$("$@" 2>&1)
	[ $? = 1 ] && echo "$output" | grep -q "$refused_words" && return
	echo "$output" | sed 's/^/# /'
	return 1
}

plan 20

check "one event" recorded -e cycles -c 200003
check "two events by frequency" recorded -e cycles,instructions:u -F 2000
check "callers" recorded -g -e cycles -c 200003
record -e cycles/call-graph=fp/,instructions -c 200003
check "callers of one of two events" same comm,tid,time,period,event
what="kernel 20000"
check "callers in the kernel" recorded -g -e cycles -c 200003
what="callers 20000000"
record -a -e cycles -c 200003
# perf has no name for a thread that has ended, and yet executes the kernel.
check "all programs" same tid,cpu,time,period,event,ip
check "addresses, weights, raw data" recorded -d -W -R -e cycles -c 200003
check "other registers" recorded -I --user-regs=ax,bx -e cycles -c 200003
check "counts of a group in each sample" recorded --no-inherit -e '{cycles,instructions}' -s -c 200003
check "switches and namespaces" recorded --switch-events --namespaces -e cycles -c 200003

record --call-graph dwarf -e cycles:u -c 200003
pmctl flamegraph --folded -i perf.data 2>/dev/null | grep ';leaf ' >stacks
is "callers by the stack" "" "$(grep -vE ';main;outer;middle;(recurse;){20}leaf [0-9]+$' stacks)"
check "there are some" [ -s stacks ]

# of_kernel: how many samples have the name of a function of the kernel's
of_kernel() {
	pmctl script -F ip,sym -i perf.data 2>/dev/null | grep -c '^ *f\{8\}.* [a-z_]'
}

what="kernel 20000"
record --no-buildid-mmap -e cycles:k -c 200003
check "functions of the kernel have names" [ "$(of_kernel)" -gt 10 ]
# In the record of its mapping, the address is 24 bytes in front of the name: make it one that no symbol has.
place=$(strings -t d perf.data | awk '/\[kernel.kallsyms\]_/ { print $1; exit }')
printf '\10' | dd of=perf.data bs=1 seek=$((place - 24)) conv=notrunc 2>/dev/null
is "those of a kernel that was elsewhere have none" 0 "$(of_kernel)"
what="callers 20000000"

# named: how many functions have the name of the program's
named() {
	pmctl report -i perf.data 2>/dev/null | grep -c ' leaf$'
}

record -N -e cycles:u -c 200003
is "a program is as it was" 1 "$(named)"
cp "$here/pmctl_loop" new
mv new "$program"
is "one that was replaced has the names of perf's copy" 1 "$(named)"
rm -r "${HOME:-/root}/.debug"
is "without a copy it has none" 0 "$(named)"

if record -z -e cycles:u -c 200003 2>&1 | grep -q .; then
	skip "compressed records" "perf can't compress"
else
	check "compressed records" refused "are compressed" pmctl report -i perf.data
fi
rm perf.data
record --threads -e cycles:u -c 200003
check "records in several files" refused "in several files" pmctl report -i perf.data/data
rm -r perf.data
perf record -q -o - -e cycles:u -- "$program" >stream 2>/dev/null
check "a stream" refused "a stream of" pmctl report -i stream

finish
