#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests recordings of a program that is removed afterwards. Names, callers from stacks, and
# instructions are found in the copies of the program that perf and debuginfod keep, and never in a
# copy of another program.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir
lift_perf_limits

HOME=$dir/home
export HOME
unset DEBUGINFOD_CACHE_PATH XDG_CACHE_HOME
perf_copies=$HOME/.debug
debuginfod=$HOME/.cache/debuginfod_client
mkdir "$HOME"

program=$dir/program
cp "$here/pmctl_unwound" "$program"

# named_rows: prints how many rows of report have the name of the program's function
named_rows() {
	pmctl report -i perf.data 2>/dev/null | grep -c ' leaf$'
}

# stacks: prints `right` if each call chain of the function is the expected one, else the chains
# that differ
stacks() {
	pmctl flamegraph --folded -i perf.data 2>/dev/null | grep ';leaf ' |
		sed -E 's/.*;main;outer;middle;(recurse;){20}leaf [0-9]+$/right/' | sort -u
}

# instructions: prints how many samples annotate shows at instructions of the function
instructions() {
	pmctl annotate --no-pager -i perf.data leaf 2>/dev/null | grep -cE '^ *[0-9.]+ ?%? .*[0-9a-f]{4,}:'
}

# finds_all WHERE: makes three test cases: everything is found in the copy
finds_all() {
	is "$1: the function has its name" 1 "$(named_rows)"
	is "$1: stacks have their callers" right "$(stacks)"
	check "$1: the function has its instructions" [ "$(instructions)" -gt 0 ]
}

# finds_nothing WHERE: makes two test cases: there is no copy of the program
finds_nothing() {
	is "$1: the function has no name" 0 "$(named_rows)"
	is "$1: the function has no instructions" 0 "$(instructions)"
}

# build_ids FILE: prints the program's line in the list of build-ids of FILE
build_ids() {
	perf buildid-list -i "$1" | grep " $program\$"
}

plan 20

perf record -q -o perf.data --call-graph dwarf -e cycles:u -c 200003 -- "$program" callers 20000000 2>errors
is "perf records" 0 $?
id=$(build_ids perf.data | cut -d ' ' -f 1)
check "the recording has the program's build-id" [ ${#id} = 40 ]
finds_all "the program"
rm "$program"
finds_all "perf's copy"

# An archive as perf archive makes it: the files and the links by build-id, for another machine.
here_id=.build-id/$(echo "$id" | cut -c 1-2)/$(echo "$id" | cut -c 3-)
copy=$(cd "$perf_copies" && readlink -f "$here_id")
tar -c -C "$perf_copies" "$here_id" "${copy#"$perf_copies"/}" >archive.tar
cp "$copy/elf" elf
rm -r "$perf_copies"
finds_nothing "no copy"
mkdir "$perf_copies"
tar -x -C "$perf_copies" -f archive.tar
finds_all "an archive of perf's"

is "export succeeds" 0 "$(pmctl export --to perf-data -o exported.data -i perf.data >/dev/null 2>&1; echo $?)"
is "what is exported has the build-id" "$id $program" "$(build_ids exported.data)"

rm -r "$perf_copies"
mkdir -p "$debuginfod/$id"
cp elf "$debuginfod/$id/executable"
finds_all "debuginfod's copy"

cp "$here/pmctl_loop" "$debuginfod/$id/executable"
finds_nothing "a copy of another program"

finish
