#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# A process of many threads: all of them are counted, with a low limit of files, too.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"

in_own_dir

# limited LIMIT COMMAND... : with a limit of files, by try
limited() {
	# shellcheck disable=SC2016 # the inner shell expands it
	try sh -c 'ulimit "$0" 100 && exec "$@"' "$@"
}

plan 10

"$here/pmctl_many_threads" 151 begun &
process=$!
comes_true "[ -e begun ]"

limited -Sn pmctl stat --per-thread -x, -o csv -e instructions:u -p $process -- true
is "more threads than the soft limit of files are counted" 0 $?
is "all of them are" 151 "$(grep -c ',instructions:u,' csv)"
is "one has a name that is not UTF-8" 1 "$(grep -c "$(printf 'a\357\277\275b-')" csv)"
limited -Sn pmctl stat -x, -o csv -e instructions:u,task-clock -p $process -- sh -c 'ulimit -Sn >limit'
is "so are events of the kernel's" 0 $?
is "the command has the limit that pmctl had" 100 "$(cat limit)"
limited -Sn pmctl record -q -o data -e instructions:u -p $process --duration 0.1
is "they are sampled" 0 $?

# As many descriptors as that can't be had.
limited -n pmctl stat -e instructions:u -p $process -- true
is "with the hard limit there is no number" 125 $?
says "it says why" "$errors" 'no file descriptor is free'
says "and what to do" "$errors" 'ulimit -n'
check "and shows none" [ "$(echo "$errors" | grep -c '[0-9] *instructions:u')" = 0 ]

kill $process
finish
