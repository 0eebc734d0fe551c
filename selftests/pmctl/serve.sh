#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests pmctl serve: its counters while a program runs whose instructions are known, its profile of
# a program whose functions are known, and clients that misbehave.

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir

url=http://127.0.0.1:9743
# The loop has 2 instructions, of which one is a branch.
n=100000000
# Every PMU has these events.
events=instructions,instructions:u,branches

# start OPTION... : starts the server, and waits until it serves
start() {
	# The previous server's log has the same line.
	rm -f serve.log
	pmctl serve -e $events "$@" >serve.log 2>&1 &
	server=$!
	wait_until "grep -qs 'pmctl: serving' serve.log || has_ended $server"
}

# stop NAME SIGNAL : passes if the signal ends the server with exit code 0
stop() {
	kill "-$2" $server
	wait $server
	is "$1" 0 $?
}

at_end="kill \$server 2>/dev/null"

# get PATH OPTION... : prints a page; wget writes the head of the answer to the file page.head
get() {
	get_path=$1
	shift
	wget -q -S -O - "$@" "$url$get_path" 2>page.head
}

# value FILE SERIES : prints the value of a series; nothing if FILE does not have it
value() {
	awk -v series="$2" '$1 == series { printf "%.0f", $2 }' "$1"
}

# has_value SERIES LEAST : succeeds if the series now has a value of at least LEAST
# shellcheck disable=SC2317 # comes_true calls it
has_value() {
	get /metrics >page
	[ "$(value page "$1")" -ge "$2" ]
}

# value_after_wait SERIES NUMBER : waits until the series is at least NUMBER, and prints its value
value_after_wait() {
	comes_true "has_value '$1' $2"
	value page "$1"
}

# is_recording : succeeds if the server's recorder runs
# shellcheck disable=SC2317 # wait_until calls it
is_recording() {
	grep -qs '[-]-duration=' /proc/[0-9]*/cmdline
}

# has_grown SERIES EXPECTED PERMILLE : succeeds if the series has grown by EXPECTED from the
# page before to the page after, or by up to PERMILLE thousandths more: the instructions of the
# server and of the kernel are counted, too
# shellcheck disable=SC2317 # check calls it
has_grown() {
	grown=$(($(value after "$1") - $(value before "$1")))
	[ "$grown" -ge "$2" ] && [ "$grown" -le $(($2 + $2 * $3 / 1000)) ] && return
	echo "# $1: expected $2 and up to $3 thousandths more, got $grown"
	false
}

user='perfmon_events_total{event="instructions:u",cpu="0"}'
all='node_perf_instructions_total{cpu="0"}'
branches='node_perf_branch_instructions_total{cpu="0"}'

# counts_loop : runs the loop on CPU 0 between two pages; succeeds if each series has grown as it should. What the
# CPU does for others meanwhile depends on how long it takes.
# shellcheck disable=SC2317 # comes_true calls it
counts_loop() {
	get /metrics >before
	taskset -c 0 "$here/pmctl_loop" "$n"
	get /metrics >after
	has_grown "$user" $((2 * n)) 50 && has_grown "$all" $((2 * n)) 200 && has_grown "$branches" "$n" 200
}

# answer TEXT : sends a request that wget can't send, and prints the head of the answer
answer() {
	# To the server, a client that closes its half of the connection has gone. So nc keeps it
	# open until the empty line at the end of the head has come.
	: >answer
	{ printf %b "$1" && wait_until "grep -q '^.\$' answer"; } | nc 127.0.0.1 9743 >answer
	tr -d '\r' <answer | sed '/^$/q'
}

# code TEXT : sends a request, and prints the status code of the answer
code() {
	answer "$1" | sed -n '1s/^HTTP.... \([0-9]*\).*/\1/p'
}

plan 48

start
says "serve names the events that it counts" "$(cat serve.log)" '^pmctl: counting instructions, instructions:u, branches on CPU 0'
says "serve names its address" "$(cat serve.log)" '^pmctl: serving http://127.0.0.1:9743/metrics'

# Tests the page of counters.
get /metrics >before
says "the default format is Prometheus'" "$(cat page.head)" 'content-type: text/plain; version=0\.0\.4'
is "each metric has its type" "" "$(awk '
	/^# TYPE/ { type[$3] = 1; next } /^#/ { next }
	{ sub(/\{.*/, "", $1); if (!($1 in type)) print $1 }' before)"
comes_true counts_loop
check "the loop's instructions are counted in user mode" has_grown "$user" $((2 * n)) 50
check "the loop's instructions are counted among all" has_grown "$all" $((2 * n)) 200
check "the loop's branches are counted" has_grown "$branches" $n 200
is "no event is missing" 0 "$(value after perfmon_events_missing)"
is "no count was lost" 0 "$(value after perfmon_counts_lost_total)"
get /metrics --header 'Accept: application/openmetrics-text;version=1.0.0' >open
says "the content type names OpenMetrics" "$(cat page.head)" 'content-type: application/openmetrics-text; version=1\.0\.0'
is "OpenMetrics ends with EOF" "# EOF" "$(tail -n 1 open)"
check "OpenMetrics has types without a suffix" grep -qx '# TYPE node_perf_instructions counter' open
check "OpenMetrics has as many samples" [ "$(grep -vc '^#' open)" = "$(grep -vc '^#' after)" ]

# Starts a second server, with the default events: the CPU may lack some of these.
pmctl serve >second 2>&1
is "a second server at the port ends" 1 $?
says "a second server says that the port is in use" "$(cat second)" "can't listen at 127\.0\.0\.1:9743.*in use"

# Counts the server's instructions for a request, in all modes.
pid=$server
pmctl stat -e instructions -p $pid -o once -- sh -c 'wget -q -O /dev/null '$url/metrics >/dev/null 2>&1
pmctl stat -e instructions -p $pid -o many -- sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11; do wget -q -O /dev/null '$url'/metrics; done' >/dev/null 2>&1
count() { awk '$2 ~ /^instructions/ { gsub(/,/, "", $1); print $1 }' "$1"; }
cost=$((($(count many) - $(count once)) / 10))
echo "# a scrape with a connection of its own takes the server $cost instructions"
check "a scrape takes less than a million instructions" [ "$cost" -lt 1000000 ]

# Tests profiles.
"$here/pmctl_shares" 100000000000 &
shares=$!
# has_all_functions : makes a profile; succeeds if it has the program's functions. The program's CPU may
# stand still for most of the time.
profiles=0
# shellcheck disable=SC2317 # comes_true calls it
has_all_functions() {
	get '/debug/pprof/profile?seconds=2&hz=499&event=instructions:u' >profile
	profiles=$((profiles + 1))
	gunzip <profile >unpacked
	unpacked=$?
	grep -q share_10 unpacked && grep -q share_30 unpacked && grep -q share_60 unpacked
}
comes_true has_all_functions
says "the server makes a profile" "$(cat page.head)" 'HTTP/1\.1 200 OK'
is "the profile can be unpacked" 0 "$unpacked"
for function in share_10 share_30 share_60; do
	check "the profile has the function $function" grep -q $function unpacked
done
get /metrics >page
# On a busy machine samples may be lost, and the profile is incomplete.
is "the profile is counted" $profiles "$(($(value page 'perfmon_profiles_total{result="complete"}') +
	$(value page 'perfmon_profiles_total{result="incomplete"}')))"
wget -q -O /dev/null "$url/debug/pprof/profile?seconds=60&event=instructions:u" 2>/dev/null &
client=$!
wait_until is_recording
answer 'GET /debug/pprof/profile?seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n' >page.head
says "a second profile at the same time is refused" "$(cat page.head)" 'HTTP/1\.1 503'
says "the refusal says when to try again" "$(cat page.head)" 'retry-after: [1-6]?[0-9]$'
check "counters are served during a profile" [ "$(get /metrics | grep -vc '^#')" = "$(grep -vc '^#' after)" ]
kill $client
is "the profile of a client that goes away ends" 1 "$(value_after_wait 'perfmon_profiles_total{result="abandoned"}' 1)"
check "no recorder remains" comes_true '! is_recording'
get '/debug/pprof/profile?seconds=1&event=instructions:u' >profile
says "the server makes the next profile" "$(cat page.head)" 'HTTP/1\.1 200 OK'
kill $shares

# The server refuses these requests.
for query in seconds=61 seconds=0 hz=1000 event=no-such event=cpu%2Fevent%3D0xc0%2Cperiod%3D1%2F event=-o nonsense=1; do
	get "/debug/pprof/profile?$query" >/dev/null
	says "?$query is refused" "$(cat page.head)" 'HTTP/1\.1 400'
done
get /metrics >page
refused=$(value page perfmon_requests_refused_total)
is "POST is refused" 405 "$(code 'POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n')"
is "another host is refused" 403 "$(code 'GET /metrics HTTP/1.1\r\nHost: example.org\r\n\r\n')"
is "a request that is not HTTP is refused" 400 "$(code 'nonsense\r\n\r\n')"
is "a large head is refused" 431 "$(code "GET /metrics HTTP/1.1\r\nX: $(head -c 9000 /dev/zero | tr '\0' x)\r\n\r\n")"
is "the four refused requests are counted" $((refused + 4)) "$(value_after_wait perfmon_requests_refused_total $((refused + 4)))"

# Some clients send nothing, and there are more clients than the server allows connections.
before=$(value page process_resident_memory_bytes)
mkfifo silence
sleep 300 >silence &
slow=$!
for _ in $(seq 100); do
	nc 127.0.0.1 9743 <silence >/dev/null 2>&1 &
	slow="$slow $!"
done
# Each client stays connected until the server drops it. The request for a page is a client, too.
wait_until 'has_value perfmon_connections_dropped_total 68'
check "a page is served in spite of slow clients" grep -q '^node_perf_instructions_total' page
check "there are no more connections than the limit" [ "$(value page perfmon_connections)" -le 32 ]
check "slow clients were dropped for new ones" [ "$(value page perfmon_connections_dropped_total)" -gt 0 ]
check "slow clients take little memory" [ "$(value page process_resident_memory_bytes)" -le $((before + 4194304)) ]
# shellcheck disable=SC2086 # a word each
kill $slow 2>/dev/null

stop "SIGTERM ends the server" TERM
start -C 0
is "the counters are free for the next server" "" "$(grep 'left out' serve.log)"
get /metrics >page
is "-C limits the CPUs" 1 "$(grep -c '^node_perf_instructions_total' page)"
stop "SIGINT ends the server" INT

finish
