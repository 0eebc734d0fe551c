#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Prometheus scrapes pmctl serve every ten seconds for MINUTES. The value of each series is between
# the server's values before and after the scrape, and no series is missing or was reset. The log
# shows the cost of a scrape. Prometheus is in /share (scripts/test-prometheus).

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

in_own_dir
[ -x /share/bin/prometheus ] || skip_all "/share has no Prometheus"
export LD_LIBRARY_PATH=/share/lib

seconds=$((${MINUTES:-1} * 60))
url=http://127.0.0.1:9743
# The events are of two modes, and have names of both kinds.
events=instructions,cycles,instructions:u,r00c4

# metrics FILE : writes the counters' page to FILE
metrics() { wget -q -O "$1" $url/metrics; }

# value FILE SERIES : prints the value of a series
value() { awk -v series="$2" '$1 == series { printf "%.9f", $2 }' "$1"; }

# ask QUERY : prints Prometheus' answer, a line for each series: the labels as JSON, and the value
ask() {
	query=$(printf %s "$1" | tr '\n\t' '  ' | sed 's/%/%25/g; s/+/%2B/g; s/{/%7B/g; s/}/%7D/g; s/"/%22/g; s/\[/%5B/g; s/\]/%5D/g; s/ /%20/g; s/=/%3D/g')
	wget -q -O - "http://127.0.0.1:9090/api/v1/query?query=$query" 2>>log |
		grep -o '"metric":{[^}]*},"value":\[[^]]*\]' |
		sed 's/"metric":\({[^}]*}\),"value":\[[^,]*,"\([^"]*\)"\]/\1 \2/'
}

# single_value QUERY : prints the value of the only series
single_value() { ask "$1" | awk '{ print $2 }'; }

at_end="kill \$server \$prometheus 2>/dev/null"

plan 13

pmctl serve -e $events >serve.log 2>&1 &
server=$!
wait_until "grep -q 'pmctl: serving' serve.log || has_ended $server"
metrics first
check "promtool finds no fault in Prometheus' format" sh -c '/share/bin/promtool check metrics <first'
wget -q -O open --header 'Accept: application/openmetrics-text' $url/metrics
is "OpenMetrics ends with EOF" "# EOF" "$(tail -n 1 open)"

# A scrape may take as long as the interval: on a busy host the machine may stand still for seconds.
cat >prometheus.yml <<END
global:
  scrape_interval: 10s
scrape_configs:
  - job_name: perfmon
    static_configs:
      - targets: ["127.0.0.1:9743"]
END
check "promtool accepts the configuration" /share/bin/promtool check config --syntax-only prometheus.yml
/share/bin/prometheus --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address=127.0.0.1:9090 >log 2>&1 &
prometheus=$!
LIMIT=300 comes_true "[ \"\$(single_value 'up{job=\"perfmon\"}')\" = 1 ]"
is "Prometheus scrapes the server" 1 "$(single_value 'up{job="perfmon"}')"

# Measures what scrapes cost the server, by a counter of its own and by the kernel's clock.
metrics before
pmctl stat -e instructions,instructions:u -p $server -x, -o cost --timeout $((seconds * 1000)) 2>/dev/null
metrics after
scrapes=$(($(value after perfmon_scrapes_total | cut -d. -f1) - $(value before perfmon_scrapes_total | cut -d. -f1)))
all=$(awk -F, '$3 == "instructions" { print $1 }' cost) user=$(awk -F, '$3 == "instructions:u" { print $1 }' cost)
used=$(awk -v before="$(value before process_cpu_seconds_total)" -v after="$(value after process_cpu_seconds_total)" \
	'BEGIN { print after - before }')
memory=$(value after process_resident_memory_bytes | cut -d. -f1)
echo "# $scrapes scrapes in $seconds s: each takes the server $((all / scrapes)) instructions, $((user / scrapes)) of them in user mode"
echo "# $used s of CPU time on an emulated CPU; $((memory / 1024)) KiB of memory; a page has $(wc -c <after) bytes"
check "there is a scrape nearly every ten seconds" [ "$scrapes" -ge $((seconds * 3 / 40)) ]
check "a scrape takes less than 500,000 instructions" [ $((all / scrapes)) -lt 500000 ]
check "memory does not grow" [ "$memory" -le $(($(value before process_resident_memory_bytes | cut -d. -f1) + 1048576)) ]

# Between two scrapes by this test Prometheus makes one, and has its time. A CPU that runs no program meanwhile
# counts nothing in user mode.
metrics before
now=$(date +%s)
wait_until "[ \"\$(single_value 'timestamp(node_perf_instructions_total{cpu=\"0\"})' | cut -d. -f1)\" -gt $now ]"
ask '{job="perfmon",cpu!=""}' | sort >series
metrics after
is "Prometheus has all series of the counters" "$(grep -c '^[a-z].*cpu="' after)" "$(wc -l <series)"
wrong=0
# shellcheck disable=SC2094 # these are files of their own
while read -r labels number; do
	name=$(echo "$labels" | sed 's/.*"__name__":"\([^"]*\)".*/\1/')
	cpu=$(echo "$labels" | sed 's/.*"cpu":"\([^"]*\)".*/\1/')
	event=$(echo "$labels" | sed -n 's/.*"event":"\([^"]*\)".*/event="\1",/p')
	series="$name{${event}cpu=\"$cpu\"}"
	if ! awk -v low="$(value before "$series")" -v number="$number" -v high="$(value after "$series")" \
		'BEGIN { exit !(low != "" && low + 0 <= number + 0 && number + 0 <= high + 0) }'; then
		echo "# $series: Prometheus has $number"
		wrong=$((wrong + 1))
	fi
done <series
is "each value of Prometheus is between the server's values before and after" 0 "$wrong"
is "Prometheus always reached the server" 1 "$(single_value "min_over_time(up{job=\"perfmon\"}[${seconds}s])")"
is "no series was reset" 0 "$(single_value "sum(resets(node_perf_instructions_total[${seconds}s])) \
	+ sum(resets(node_perf_cpucycles_total[${seconds}s])) + sum(resets(perfmon_events_total[${seconds}s]))")"
echo "# instructions per cycle by CPU, as Prometheus computes them: $(ask 'rate(node_perf_instructions_total[30s]) / rate(node_perf_cpucycles_total[30s])' |
	awk '{ printf "%.3f ", $2 }')"
is "no count was lost" 0 "$(single_value 'perfmon_counts_lost_total')"
kill $prometheus
kill $server
wait $server
is "the server ends by SIGTERM" 0 $?
[ "$ktap_failed" = 0 ] || sed 's/^/# /' serve.log log
finish
