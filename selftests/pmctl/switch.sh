#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl record --overwrite, a flight recorder, and --switch-output, a recording in several
# files, one after the other.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir
lift_perf_limits

event=instructions:u
loop=$here/pmctl_loop

# files: prints the names of the files with a time in their names, the oldest first
files() {
	for file in perf.data.[0-9]*; do
		[ ! -e "$file" ] || echo "$file"
	done
}

# remove_files: removes the files of the previous recording
remove_files() {
	rm -f perf.data*
}

# nth_file N: prints the name of the N-th of the files
nth_file() {
	files | sed -n "$1p"
}

# sample_count FILE: prints the number of the samples in FILE
sample_count() {
	pmctl script -i "$1" 2>/dev/null | wc -l
}

# sample_times FILE: prints the times of the samples in FILE, as pmctl shows them
sample_times() {
	pmctl script -i "$1" -F time 2>/dev/null | tr -d ' :'
}

# is_sorted: succeeds if the numbers of standard input are in ascending order
# shellcheck disable=SC2317 # check calls it
is_sorted() {
	sort -c -n 2>/dev/null
}

plan 36

# A page has room for 73 samples of 56 bytes; the program has some 6000. The rings keep the last samples,
# and their distances are those of a recording of all samples. If the CPU stood still between two of them,
# the program is recorded once more. With several CPUs, the ring of one that the program has left has older samples.
cpus=$(nproc)
# shellcheck disable=SC2317 # comes_true calls it
records_last_samples() {
	remove_files
	pmctl record --overwrite -e "$event" -c 10007 -m 1 -- "$loop" 30000000 2>/dev/null
	status=$?
	distances=$(sample_times perf.data | awk 'NR > 1 { d = $1 - last; if (d > most) most = d } { last = $1 }
		END { print (most < 0.1) ? "small" : most }')
	[ "$cpus" -gt 1 ] || [ "$status" != 0 ] || [ "$distances" = small ]
}
comes_true records_last_samples
is "record --overwrite succeeds" 0 "$status"
kept=$(sample_count perf.data)
check "a ring of one page is full" [ "$kept" -ge 60 ]
check "no ring has more samples than it has room for" [ "$kept" -le $((73 * cpus)) ]
is "perf script shows as many samples" "$kept" "$(perf script 2>/dev/null | wc -l)"
is "perf report takes the file" 0 "$(perf report --stdio >/dev/null 2>&1; echo $?)"
check "the samples are in the order of their times" is_sorted <<-END
	$(sample_times perf.data)
END
says "report says that it is a flight recording" "$(pmctl report)" "flight recording"
says "the samples have names" "$(pmctl script -F comm,sym)" "pmctl_loop.*(run|loop)"
[ "$cpus" -gt 1 ] || is "no sample is missing between those that are kept" small "$distances"
[ "$cpus" = 1 ] || check "the samples have times" [ -n "$distances" ]

# There are two dumps on request, and one at the end. The mappings of the program are recorded
# before the first dump. A turn has 599 samples, so the rings are full before each dump.
cat >dumps <<'END'
"$here/pmctl_turns" 3000000 >turns &
program=$!
for dump in 1 2; do
	"$here/pmctl_more_turns" turns 2
	kill -USR2 $PPID
	wait_until "has_lines $dump record.log '^pmctl: wrote'"
done
"$here/pmctl_more_turns" turns 2
kill $program
wait
END
remove_files
# The inner shell expands the variables.
# shellcheck disable=SC2016
pmctl record --overwrite --switch-output -e $event \
	-c 10007 -m 4 -- sh -c 'here=$0; . "$here/ktap.sh"; . ./dumps' "$here" 2>record.log
is "record --switch-output succeeds" 0 $?
sed 's/^/# /' record.log
is "record writes two dumps on request and one at the end" 3 "$(files | wc -l)"
is "record writes no other file" 3 "$(find . -name 'perf.data*' | wc -l)"
says "record names the file of a dump" "$(cat record.log)" 'wrote [0-9,]+ samples to perf.data.[0-9]{16}$'
is "record reports the two dumps" 2 "$(grep -c '^pmctl: wrote [0-9,]* samples to [a-z0-9.]*$' record.log)"
for n in 1 2 3; do
	file=$(nth_file $n)
	check "file $n has samples" [ "$(sample_count "$file")" -ge 100 ]
	says "file $n has the program's function" "$(pmctl report -i "$file" --sort comm,symbol)" \
		"pmctl_turns +\[\.\] turn"
	is "perf script shows as many samples of file $n" "$(sample_count "$file")" \
		"$(perf script -i "$file" 2>/dev/null | wc -l)"
	says "perf finds the function in file $n" \
		"$(perf report -i "$file" --stdio --sort comm,sym 2>/dev/null)" \
		"pmctl_turns +\[\.\] turn"
done
check "no sample is in two dumps" [ -z "$(for n in 1 2 3; do
	pmctl script -i "$(nth_file $n)" -F cpu,time,ip; done | sort | uniq -d)" ]
check "the dumps are in the order of their samples" is_sorted <<-END
	$(for n in 1 2 3; do sample_times "$(nth_file $n)" | head -n 1; done)
END

# A child that executes no program keeps its name in all dumps, although its parent has another name by then.
cat >dumps <<'END'
(
	for dump in 1 2; do
		i=0
		while [ $i -lt 30000 ]; do i=$((i + 1)); done
		kill -USR2 $PPID
		wait_until "has_lines $dump record.log '^pmctl: wrote'"
	done
	i=0
	while [ $i -lt 30000 ]; do i=$((i + 1)); done
	kill $$
) &
exec "$here/pmctl_turns" 1000000 >/dev/null
END
remove_files
# If both programs share a CPU, the ring has to keep samples of the child, which looks every 50 ms for
# the dump, until pmctl stops the ring.
# shellcheck disable=SC2016
pmctl record --overwrite --switch-output -e $event \
	-c 10007 -m 256 -- sh -c 'here=$0; . "$here/ktap.sh"; . ./dumps' "$here" 2>record.log
is "a child has its name in each dump" "sh sh sh" \
	"$(for n in 1 2 3; do pmctl script -i "$(nth_file $n)" -F comm | tr -d ' ' | grep -x sh | head -n 1; done | xargs)"

# Without --overwrite no sample is missing: 59958 samples of 56 bytes each, for which a ring has room.
# A CPU that the loop has left may have counted a part of a period. Samples that come while pmctl is held
# up go into one file: if it was held up for most of the loop, the loop is recorded once more.
# shellcheck disable=SC2317 # comes_true calls it
records_several_files() {
	remove_files
	try pmctl record --switch-output=100K -m 1024 -e "$event" -c 10007 -- "$loop" 300000000
	status=$?
	[ "$status" != 0 ] || [ "$(files | wc -l)" -ge 3 ]
}
check "there are several files" comes_true records_several_files
is "record --switch-output=100K succeeds" 0 "$status"
echo "$errors" | sed 's/^/# /'
all=$(for file in $(files); do sample_count "$file"; done | awk '{ n += $1 } END { print n }')
check "together the files have all samples" [ "$all" -gt $((59958 - cpus)) ]
check "together the files have no further samples" [ "$all" -le 60020 ]
# The last file may have no sample, so this looks at the second.
says "a later file has the program's function" \
	"$(pmctl report -i "$(nth_file 2)" --sort comm,symbol)" "pmctl_loop +\[\.\] (run|loop)"

# --switch-output refuses a time shorter than a second.
remove_files
# The log of the previous recording has such lines, too.
rm record.log
pmctl record --switch-output=1s --switch-max-files=2 -e $event -c 1000003 -- \
	"$here/pmctl_turns" 1000000 >/dev/null 2>record.log &
record=$!
wait_until "has_lines 3 record.log '^pmctl: wrote'"
kill $record
wait $record
sed 's/^/# /' record.log
is "--switch-max-files keeps the last files" 2 "$(files | wc -l)"
check "record wrote more files than --switch-max-files keeps" [ "$(grep -c '^pmctl: wrote' record.log)" -ge 3 ]

finish
