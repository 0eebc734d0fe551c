#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl record with precise samples, which the processor itself takes.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

event=instructions:upp
period=1009
n=1000000
loop=$here/pmctl_loop

# record OPTION... : records with the rest of the command line, and returns pmctl's exit code;
# the output is in $output
record() {
	rm -f perf.data
	output=$(pmctl record "$@" 2>&1)
}

# has_all_samples NUMBER [COUNT [PERIOD]]: succeeds if NUMBER is the number of periods in COUNT, by
# default in the loop's count; a sample may be missing for each CPU that the program left in the
# middle of a period
# shellcheck disable=SC2317 # check calls it
has_all_samples() {
	wanted=$((${2:-$count} / ${3:-$period}))
	[ "$1" -gt $((wanted - $(nproc))) ] && [ "$1" -le "$wanted" ]
}

plan 70

count=$(pmctl stat -x, -e instructions:u -- "$loop" $n 2>&1 | cut -d, -f1)
record -e $event -c $period -- "$loop" $n
is "record of precise samples succeeds" 0 $?
samples=$(pmctl script | wc -l)
check "there is a sample for each period" has_all_samples "$samples"
is "perf reads as many precise samples" "$samples" "$(perf script -F ip 2>/dev/null | wc -l)"
says "report names the event as it was written" "$(pmctl report)" "event '$event'"
says "perf reads the event as a precise one" "$(perf evlist -v 2>/dev/null)" "precise_ip: 2"

# Samples of a program on several CPUs, and of the programs that it executes, which other CPUs
# map meanwhile, are in the order of time. The rings have room for all of them.
record -e $event -c $period -m 2048 -- sh -c "
	for i in 1 2 3 4 5 6 7 8; do
		$loop 3000000 & $loop 3000000
		wait
	done"
is "record of programs on all CPUs succeeds" 0 $?
check "programs on all CPUs have all their samples" [ "$(pmctl script | wc -l)" -ge $((16 * 2 * 3000000 / period)) ]
is "precise samples are in the order of time" 0 \
	"$(perf script --ns -F time 2>/dev/null | tr -d ' :' | sort -c -n 2>&1 | wc -l)"
is "each precise sample is in a known program" 0 "$(pmctl report --sort dso | grep -c unknown)"

# The shares of functions, in percent, are those that pmctl_record tests, too.
record -e $event -c $period -m 512 -- "$here/pmctl_shares" 1000000
share() {
	pmctl report --sort symbol 2>/dev/null | awk -v name="$1" '
		$0 ~ name { n += $1 } END { printf "%d", n + 0.5 }'
}
check "share_10 has its share of precise samples" [ $(($(share share_10) / 2)) = 5 ]
check "share_30 has its share of precise samples" [ $((($(share share_30) + 1) / 2)) = 15 ]
check "share_60 has its share of precise samples" [ $((($(share share_60) + 1) / 2)) = 30 ]

# Takes precise samples together with samples of another event, and precise samples of a process.
record -e $event,branches:u -c $period -m 512 -- "$loop" $n
is "record of a precise and another event succeeds" 0 $?
check "precise samples beside others are complete" has_all_samples "$(pmctl script -F event | grep -c upp)"
# A turn of the process has 12000000 instructions, and one of the turns is sampled from its beginning.
"$here/pmctl_turns" 6000000 >turns &
process=$!
record -e instructions:P -c 100003 -m 2048 -p $process -- "$here/pmctl_more_turns" turns 2
is "record -p with :P succeeds" 0 $?
check "record -p with :P has samples" [ "$(pmctl script | wc -l)" -ge 100 ]
says "record -p with :P has precise samples" "$(perf evlist -v 2>/dev/null)" "precise_ip: 2"
kill $process

# refused TEXT OPTION... : passes if pmctl refuses the options with TEXT
refused() {
	text=$1
	shift
	record "$@" -- "$loop" 1000
	says "refused: $*" "$? $output" "^2 .*$text"
}

refused "Leave -G out" -e $event -G /

# Samples all programs: the samples of the loop are among the others.
record -a -e $event -c $period -m 2048 -- "$loop" $n
is "record -a of precise samples succeeds" 0 $?
samples=$(pmctl script -F comm | grep -c pmctl_loop)
check "record -a has the samples of a program" [ $((samples - count / period)) -le 20 ]
check "record -a misses no sample of a program" [ $((count / period - samples)) -le 20 ]
says "perf reads the samples of all programs as precise" "$(perf evlist -v 2>/dev/null)" "precise_ip: 2"

record -e $event -F 5000 -- "$loop" 300000000
is "record of precise samples with a frequency succeeds" 0 $?
says "perf reads an event with a frequency as a precise one" "$(perf evlist -v 2>/dev/null)" \
	"sample_freq.*5000.*precise_ip: 2"
check "there are precise samples with a frequency" [ "$(pmctl script | wc -l)" -ge 50 ]

# Without -e the event is precise if it can be.
if record -e cycles:pp -- true; then
	default=cycles:P
	precision="precise_ip: 2"
	words="wrote [0-9,]* precise sample"
else
	default=cycles
	precision="^cycles: "
	words="wrote [0-9,]* sample"
fi
for target in "" -a; do
	record ${target:+"$target"} -- "$loop" 30000000
	says "record $target names its event" "$(pmctl report)" "event '$default'"
	says "record $target says which samples it wrote" "$output" "$words"
	says "record $target has the highest precision" "$(perf evlist -v 2>/dev/null)" "$precision"
done
record -g -- "$loop" 30000000
says "without -e, call chains are of the same event" "$(pmctl report)" "event '$default'"
record --call-graph dwarf,1024 -- "$loop" 30000000
says "without -e, stacks are of the same event" "$(pmctl report)" "event '$default'"
says "top shows the precision of its event" "$(pmctl top --stdio --iterations 1 --delay 1 2>&1)" \
	"$default"

# With a period that precise samples can't have, :P means samples by interrupts.
record -e instructions:uP -c 3000000000 -- "$loop" 1000
is "record of :P with a long period succeeds" 0 $?
says "record of :P with a long period says that interrupts take the samples" "$output" "taken by interrupts"

# These samples need an interrupt each: all samples are there, and are precise.
check_all_samples() {
	says "$1: the samples are precise" "$(perf evlist -v 2>/dev/null)" "precise_ip: 2"
	check "$1: there is a sample for each period" has_all_samples "$(pmctl script -F event | grep -c "$event")"
}
record -e $event -c $period -m 2048 -g -- "$loop" $n
check_all_samples "call chains"
is "call chains: each begins with the address of its sample" 0 \
	"$(perf script -F ip,sym 2>/dev/null | awk -v RS= 'NF < 2' | wc -l)"
record -e $event -c 10007 --call-graph dwarf,1024 -- "$loop" $n
says "stacks: the samples are precise" "$(perf evlist -v 2>/dev/null)" "precise_ip: 2"
check "stacks: there is a sample for each period" \
	has_all_samples "$(pmctl script -F event | grep -c "$event")" "$count" 10007

# The registers have the values after the instruction: after a call or a return, these belong to
# another function.
record -e $event -c 499 -m 4096 --call-graph dwarf,2048 -- "$here/pmctl_unwound" vdso 10000
is "stacks: no chain is cut" 0 "$(pmctl report --no-pager 2>&1 | grep -c CUT)"
pmctl flamegraph --folded 2>/dev/null | grep ';call_vdso[ ;]' >stacks
start='_start;__libc_start_main[^;]*;(__libc_start_call_main;)?main;outer;middle'
getcpu="^pmctl_unwound;$start;(recurse;){20}call_vdso(;[^;]*getcpu(;[^;]*vdso_getcpu)?)? [0-9]+\$"
grep -vE "$getcpu" stacks | sed 's/^/# /'
is "stacks: each instruction has its callers" "$(wc -l <stacks)" "$(grep -cE "$getcpu" stacks)"
check "stacks: calls and returns have samples" [ "$(awk '{ n += $NF } END { print n / 499 }' stacks)" -ge 500 ]
record -e $event -c $period -m 2048 -b -- "$loop" $n
check_all_samples "branches"
record -e $event -c $period --overwrite -- "$loop" $n
is "record --overwrite of precise samples succeeds" 0 $?
check "an overwritten ring has precise samples" [ "$(pmctl script | wc -l)" -ge 100 ]

# Each sample has an access to memory: all loads of the program are from one variable, and all
# stores are to another.
loads=MEM_INST_RETIRED.ALL_LOADS:upp
stores=MEM_INST_RETIRED.ALL_STORES:upp
record -d -W -e $loads,$stores -c $period -- "$here/pmctl_accesses" $n
is "record -d -W succeeds" 0 $?
check "record -d: there is a sample for each period of loads" \
	has_all_samples "$(pmctl script -F event | grep -c $loads)" $n
# variable EVENT: prints the variable that most samples of the event have, and their share in percent
variable() {
	pmctl report --sort symbol_daddr,mem,local_weight 2>/dev/null | awk -v event="'$1'" '
		/^Samples:/ { inside = $NF == event }
		inside && $1 ~ /%$/ { printf "%s %d %s\n", $4, $1, $5 " " $6; exit }'
}
says "report names the variable that was loaded" "$(variable $loads)" '^loaded\+0x0 (9[5-9]|100) N/A'
says "report names the variable that was stored to" "$(variable $stores)" '^stored\+0x0 (9[5-9]|100) L1 hit'
is "perf reads the same addresses and sources" "$(pmctl script -F addr,data_src | awk '{ print $1, $2 }')" \
	"$(perf script -F addr,data_src 2>/dev/null | awk '{ print $1, $2 }')"
says "perf mem reads the variables" "$(perf mem report -i perf.data --stdio 2>/dev/null)" 'loaded'
slow_loads=cpu/event=0xcd,umask=1,ldlat=3/upp
record -d -W -e $slow_loads -c $period -- "$here/pmctl_accesses" $n
is "record -d -W of slow loads succeeds" 0 $?
says "slow loads have a source" "$(pmctl report --sort symbol_daddr,mem,tlb)" \
	'^ *(9[5-9]|100)\.[0-9]+% .* loaded\+0x0 +L1 hit +L1 or L2 hit'
refused "needs precise samples: -e $loads" -d -e "${loads%pp}"
refused "counted with precise samples only" -d -e cpu/event=0xcd,umask=1,ldlat=30/u
try pmctl wrap -v -- perf record -q -d -e r81d0:upp -c $period -o perf.data -- "$here/pmctl_accesses" $n
says "the samples with addresses of a wrapped perf are the driver's" "$errors" "r81d0.*an event of the driver's"
check "a wrapped perf record -d has the address of each load" \
	has_all_samples "$(perf script -F sym,addr 2>/dev/null | grep -c .)" $n
try pmctl wrap -- perf mem record -o perf.data -- "$here/pmctl_accesses" 3000000
is "perf mem record under wrap succeeds" 0 $?
says "a wrapped perf mem has the variable that was loaded" "$(perf mem report -i perf.data --stdio 2>/dev/null)" \
	'L1 hit .* loaded'

# perf itself takes precise samples, under pmctl wrap.
try pmctl wrap -v -- perf record -q -g -e $event -c $period -m 2048 -o perf.data -- "$loop" $n
is "perf record -g of $event under wrap succeeds" 0 $?
says "the samples with chains of a wrapped perf are the driver's" "$errors" "an event of the driver's"
check "a wrapped perf record -g has all samples" has_all_samples \
	"$(perf script -F event 2>/dev/null | grep -c "$event")"

is "a count is the same with a modifier of precision" "$count" \
	"$(pmctl stat -x, -e $event -- "$loop" $n 2>&1 | cut -d, -f1)"

# perf asks for the highest precision, and uses the highest that the driver has.
try pmctl wrap -v -- perf record -q -e cycles:uP -F 5000 -o perf.data -- "$loop" 30000000
is "perf record of :P under wrap succeeds" 0 $?
says "the samples of a wrapped perf record are the driver's" "$errors" "cycles.*an event of the driver's"
check "no event of cycles is left to the kernel" [ "$(echo "$errors" | grep -c 'cycles.*left to the kernel')" = 0 ]
says "a wrapped perf record has the same event" "$(perf evlist -v 2>/dev/null)" "^cycles:uP?: "

finish
