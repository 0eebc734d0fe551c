#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# pmctl reads files of perf record: it finds the same samples and call chains as perf script,
# whichever fields the samples have.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir
lift_perf_limits

program=$dir/program
cp "$here/pmctl_unwound" "$program"

# record OPTION...: runs perf record of the program, with $program_arguments as its arguments
program_arguments="callers 20000000"
# shellcheck disable=SC2086 # $program_arguments is two words
record() {
	output=$(perf record -q -o perf.data "$@" -- "$program" $program_arguments 2>&1) && return
	# The program itself may have failed.
	[ -z "$output" ] || echo "$output" | sed 's/^/# /'
	return 1
}

# sample_fields CHAINS: prints the fields and addresses of script's output. Before a call chain
# pmctl prints the sample's address, too. Names are left out: perf may choose another name for a
# place.
# shellcheck disable=SC2317 # check calls it
sample_fields() {
	awk '/^\t/ { print "", $1; next } NF { print $1, $2, $3, $4, $5; if (!chains) print "", $6 }' \
		chains="$1"
}

# shows_the_same FIELDS: succeeds if pmctl shows at least 50 samples in perf.data, and the same
# as perf
# shellcheck disable=SC2317 # check calls it
shows_the_same() {
	chains=$(perf evlist -v -i perf.data 2>/dev/null | grep -c CALLCHAIN)
	# For inlined functions perf starts addr2line, and dies of SIGPIPE where that program is
	# missing.
	perf script --no-inline -F "$1" -i perf.data 2>theirs.log | sample_fields "$chains" >theirs
	pmctl script -F "$1" -i perf.data 2>ours.log | sample_fields "$chains" >ours
	[ "$(wc -l <ours)" -ge 100 ] && cmp -s ours theirs && return
	sed 's/^/# /' theirs.log ours.log
	wc -l ours theirs | sed 's/^/# /'
	diff ours theirs | head -20 | sed 's/^/# /'
	return 1
}

# reads_record OPTION...: succeeds if pmctl reads what perf record writes with these options
# shellcheck disable=SC2317 # check calls it
reads_record() {
	record "$@" && shows_the_same comm,tid,time,period,event,ip
}

# refused WORDS COMMAND...: succeeds if the command prints WORDS, and exits with 1
# shellcheck disable=SC2317 # check calls it
refused() {
	refused_words=$1
	shift
	output=$("$@" 2>&1)
	[ $? = 1 ] && echo "$output" | grep -q "$refused_words" && return
	echo "$output" | sed 's/^/# /'
	return 1
}

plan 25

check "one event" reads_record -e cycles -c 200003
check "two events by frequency" reads_record -e cycles,instructions:u -F 2000
check "callers" reads_record -g -e cycles -c 200003
record -e cycles/call-graph=fp/,instructions -c 200003
check "callers of one of two events" shows_the_same comm,tid,time,period,event
program_arguments="kernel 20000"
check "callers in the kernel" reads_record -g -e cycles -c 200003
program_arguments="callers 20000000"
record -a -e cycles -c 200003
# perf has no name for a thread that has ended, but still executes kernel code.
check "all programs" shows_the_same tid,cpu,time,period,event,ip
check "addresses, weights, raw data" reads_record -d -W -R -e cycles -c 200003
check "other registers" reads_record -I --user-regs=ax,bx -e cycles -c 200003
check "counts of a group in each sample" reads_record --no-inherit -e '{cycles,instructions}' -s -c 200003
check "switches and namespaces" reads_record --switch-events --namespaces -e cycles -c 200003

record --call-graph dwarf -e cycles:u -c 200003
pmctl flamegraph --folded -i perf.data 2>/dev/null | grep ';leaf ' >stacks
is "callers by the stack" "" "$(grep -vE ';main;outer;middle;(recurse;){20}leaf [0-9]+$' stacks)"
check "there are callers by the stack" [ -s stacks ]

# Linux finds the callers in the program by frame pointers. It writes them when it returns to the
# program.
frames=$dir/frames
cp "$here/pmctl_origins" "$frames"
if perf record -q -o perf.data --call-graph fp,defer -e cycles -c 200003 -- "$frames" 20000000 >/dev/null 2>&1; then
	says "callers are deferred" "$(perf evlist -v -i perf.data 2>/dev/null)" 'defer_callchain: 1.* defer_output: 1'
	check "deferred callers" shows_the_same comm,tid,time,period,event,ip
	says "deferred callers have names" "$(pmctl flamegraph --folded -i perf.data 2>/dev/null)" ';main;turn;outer [0-9]+$'
else
	for case in "callers are deferred" "deferred callers" "deferred callers have names"; do
		skip "$case" "this perf can't defer callers"
	done
fi

# kernel_sample_count: prints the number of samples with the name of a kernel function
kernel_sample_count() {
	pmctl script -F ip,sym -i perf.data 2>/dev/null | grep -c '^ *f\{8\}.* [a-z_]'
}

program_arguments="kernel 20000"
record --no-buildid-mmap -e cycles:k -c 200003
check "functions of the kernel have names" [ "$(kernel_sample_count)" -gt 10 ]
# In the record of the kernel's mapping, the address is 24 bytes before the name. The test writes an
# address there that no symbol has.
place=$(strings -t d perf.data | awk '/\[kernel.kallsyms\]_/ { print $1; exit }')
printf '\10' | dd of=perf.data bs=1 seek=$((place - 24)) conv=notrunc 2>/dev/null
is "functions of a kernel at another address have no names" 0 "$(kernel_sample_count)"
program_arguments="callers 20000000"

# named_rows: prints the number of rows with the name of the program's function
named_rows() {
	pmctl report -i perf.data 2>/dev/null | grep -c ' leaf$'
}

record -N -e cycles:u -c 200003
is "an unchanged program has its names" 1 "$(named_rows)"
cp "$here/pmctl_loop" new
mv new "$program"
is "a replaced program has the names of perf's copy" 1 "$(named_rows)"
rm -r "${HOME:-/root}/.debug"
is "a replaced program has no names without a copy" 0 "$(named_rows)"

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

# perf names the mappings of the two programs of one path by their build-ids.
cp "$here/pmctl_unwound" old
mv old "$program"
cp "$here/pmctl_shares" new
# shellcheck disable=SC2016 # the inner shell has the program as $0
perf record -q -o perf.data --buildid-mmap -e cycles:u -c 200003 -- \
	sh -c '"$0" callers 2000000 && mv new "$0" && "$0" 1000000' "$program" >/dev/null 2>&1
pmctl report --sort dso,symbol -i perf.data >rows 2>&1
sed 's/^/# /' rows
says "a program that took the path of another one has its names" "$(cat rows)" \
	' program \(build-id [0-9a-f]+\) .*share_60$'
says "the program that was there before has no names" "$(cat rows)" ' program .*\[unknown\]$'

finish
