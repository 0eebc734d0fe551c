#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Compares pmctl with perf on real programs. The shares of functions and of their callers in
# recordings of pmctl record -g and of perf record -g differ by no more than is likely with this
# number of samples. Counts are the same, to the instruction if a program does the same each time. A
# recording by pmctl takes no more instructions than a recording by perf: those of the tool, the
# program and the kernel are added up. From stacks, both tools find the same callers in each sample.
# /share has the programs (scripts/test-shares).

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"
# shellcheck source=SCRIPTDIR/../lib/chains.sh
. "$here/chains.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"
[ -d /share/bin ] || skip_all "/share has no programs"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export LD_LIBRARY_PATH=/share/lib
lift_perf_limits
# Addresses are the same in each run.
echo 0 >/proc/sys/kernel/randomize_va_space

awk 'BEGIN { for (i = 0; i < 60000; i++) { n = (n * 69069 + 1) % 4294967296; print n, "line", i } }' >text
cat >text.py <<'END'
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
fibonacci(23)
words = {}
for i in range(40000):
    words[str(i * 7919 % 5000)] = words.get(str(i), 0) + i
sorted(words)
END
cat >text.pl <<'END'
my %seen;
for my $i (1 .. 30000) {
	my $line = "name$i=" . $i * 7 % 1000;
	$seen{$2}++ if $line =~ /^(\w+?)=(\d+)$/;
}
my @keys = sort keys %seen;
END
cat >text.sql <<'END'
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c INT);
WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)
	INSERT INTO t SELECT x, 'row ' || (x * 7919 % 20011), x * 31 % 977 FROM n;
CREATE INDEX i ON t(b);
SELECT c, count(*), max(b) FROM t GROUP BY c ORDER BY 2 DESC LIMIT 5;
SELECT count(*) FROM t x JOIN t y ON x.b = y.b WHERE y.c < 500;
END
awk 'BEGIN {
	for (f = 0; f < 25; f++) {
		printf "int f%d(int a, int *p)\n{\n\tint i, s = 0;\n\n\tfor (i = 0; i < a; i++) {\n\t\tswitch (p[i] %% 7) {\n", f
		for (c = 0; c < 7; c++)
			printf "\t\tcase %d:\n\t\t\ts += p[i] * %d ^ (s >> %d);\n\t\t\tbreak;\n", c, f * 7 + c, c
		print "\t\t}\n\t}\n\treturn s;\n}\n"
	}
}' >text.c
cat >server.conf <<END
server.document-root = "$dir"
server.bind = "127.0.0.1"
server.port = 8080
server.pid-file = "$dir/server.pid"
server.modules = ()
END
# A server, and its client with 1000 requests.
cat >web <<'END'
rm -f server.pid
/share/bin/lighttpd -D -f server.conf -m /share/lib &
until [ -s server.pid ] || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
/share/bin/ab -q -n 1000 -c 4 http://127.0.0.1:8080/text.sql
code=$?
kill $!
wait
exit $code
END

# shares FILE : prints, from `perf script`, how many samples each function has, and each function
# with its caller. Where there is no symbol, each 256 bytes of the program count as a function.
# Debian's programs have no frame pointers: an address that is read as the caller's may be in no
# file, and there pmctl ends the chain sooner.
shares() {
	perf script -i "$1" -F ip,sym,dso 2>/dev/null | awk '
		function name() {
			if ($NF == "([unknown])")
				return "-"
			# perf names functions of the vDSO in its own recordings only.
			if ($NF == "([vdso])")
				return "[vdso]"
			if ($2 != "[unknown]")
				return $2
			return substr($1, 1, length($1) - 2) "-" $NF
		}
		function end() {
			if (frames) {
				n[self]++
				n[self " < " caller]++
				samples++
			}
			frames = 0
			caller = "-"
		}
		!NF { end(); next }
		frames == 0 { self = name() }
		frames == 1 { caller = name() }
		{ frames++ }
		END {
			end()
			print "samples", samples
			for (i in n)
				print n[i], i
		}'
}

# compare OURS THEIRS SPARE : prints each share that differs by more than 4.5 standard deviations of
# the difference of two shares, with this number of samples, and by more than SPARE samples; and the
# largest deviation. If the true shares of a thousand functions are equal, one share differs by so
# much in 1 of 150 tests.
compare() {
	awk -v spare="$3" '
		{ count = $1; sub(/^[^ ]+ /, "") }
		count == "samples" { all[FILENAME] = $0; next }
		{ n[FILENAME, $0] = count; keys[$0] }
		END {
			a = ARGV[1]; b = ARGV[2]
			for (key in keys) {
				p = n[a, key] / all[a]; q = n[b, key] / all[b]
				both = (n[a, key] + n[b, key]) / (all[a] + all[b])
				if (both < 0.002)
					continue
				compared++
				# The square of the deviation, as this awk has no square root.
				far = (p - q) * (p - q) / (both * (1 - both) * (1 / all[a] + 1 / all[b]))
				if (far > most)
					most = far
				more = n[a, key] - n[b, key]
				if (far > 4.5 * 4.5 && more * more > spare * spare) {
					differ++
					printf "# %s: %.2f%% and %.2f%%, %.1f variances\n", key, 100 * p, 100 * q, far
				}
			}
			printf "# %d and %d samples, %d shares, the largest difference is %.1f variances\n", all[a], all[b], compared, most
			print compared + 0, differ + 0
		}' "$1" "$2"
}

# samples FILE : prints the number of samples
samples() { awk '/^samples/ { print $2 }' "$1"; }

# top FILE : prints the ten functions with the most samples
top() {
	grep -v ' < \|^samples' "$1" | sort -rn | head -n 10 | cut -d' ' -f2-
}

# counted : prints the instructions in the file `count`
counted() {
	awk -F, '/instructions/ { print $1 }' count
}

# counts COMMAND... : sets $ours and $theirs to the counts of pmctl and perf, and counts up to three
# times until they are the same: the number of a program's instructions varies a little with the
# place of its pages in memory. It also depends on the environment, which differs under pmctl and
# perf.
counts() {
	set -- "$here/pmctl_exec" /bin/env LD_LIBRARY_PATH=/share/lib PATH="$PATH" "$@"
	for _ in 1 2 3; do
		perf stat -e instructions:u -x, -o count -- "$@" >/dev/null 2>&1
		theirs=$(counted)
		pmctl stat -e instructions:u -x, -o count -- "$@" >/dev/null 2>&1
		ours=$(counted)
		[ "$ours" != "$theirs" ] || break
	done
}

# workload NAME PERIOD COMMAND... : compares recordings and counts of the command
workload() {
	name=$1
	period=$2
	shift 2
	try "$@" >/dev/null
	is "$name: the command succeeds" 0 $?
	echo "$errors" | head -n 3 | sed 's/^/# /'
	# Shares may differ by chance, and the costs include interrupts: on a busy host one
	# recording has more interrupts than the other. So there are three attempts. A fault shows
	# in each of them.
	for _ in 1 2 3; do
		# Each tool counts its own recording, because only this tool has counters during the
		# recording.
		pmctl stat -e instructions -x, -o count -- \
			pmctl record -q -g -e instructions:u -c "$period" -m 1024 -o ours.data -- "$@" >/dev/null 2>&1
		our_cost=$(counted)
		perf stat -e instructions -x, -o count -- \
			perf record -q -g -e instructions:u -c "$period" -m 1024 -o theirs.data -- "$@" >/dev/null 2>&1
		their_cost=$(counted)
		shares ours.data >ours
		shares theirs.data >theirs
		# The server and its client wait for each other more or less often, as their timing
		# differs. If one run has more samples than the other, these may all be in a few
		# functions.
		spare=0
		[ "$name" != web ] || spare=$(($(samples ours) - $(samples theirs)))
		compare ours theirs $spare >answer
		sed "s/^#/# $name:/" answer | sed '$d'
		differ=$(awk 'END { print $2 }' answer)
		[ "$differ" != 0 ] || [ "$our_cost" -gt "$their_cost" ] || break
	done
	check "$name: there are enough samples" [ "$(samples ours)" -ge 2000 ]
	check "$name: shares are compared" [ "$(awk 'END { print $1 }' answer)" -ge 5 ]
	is "$name: no share differs" 0 "$differ"
	top ours >ours.top
	top theirs >theirs.top
	tops=$(grep -cxFf ours.top theirs.top)

	counts "$@"
	if [ "$name" = web ]; then
		# The timing of the server changes the counts, too.
		check "$name: counts are the same within 5%" [ $((ours * 20)) -le $((theirs * 21)) -a $((theirs * 20)) -le $((ours * 21)) ]
	else
		is "$name: counts are the same" "$theirs" "$ours"
	fi

	printf '#: %-10s %13s %13s %4s of 10 %8s %8s %6s\n' "$name" "$ours" "$theirs" "$tops" \
		$((our_cost / 1000000)) $((their_cost / 1000000)) \
		"$(awk -v a="$our_cost" -v b="$their_cost" 'BEGIN { printf "%.2f", a / b }')"
	check "$name: recording takes no more instructions than perf's" [ "$our_cost" -le "$their_cost" ]
}

# unwound NAME COMMAND... : compares the callers that both tools find from stacks, since the programs
# have no frame pointers
unwound() {
	name=$1
	shift
	try pmctl record -q --call-graph dwarf -e instructions:u -c 200003 -m 4096 -o stacks.data -- "$@" >/dev/null
	echo "$errors" | sed 's/^/# /'
	check "$name: perf finds the same callers from stacks" same_chains stacks.data
}

plan 52
workload compiler 20011 /share/bin/cc1 -quiet -fpreprocessed -O2 text.c -o text.s
workload database 20011 /share/bin/sqlite3 -init text.sql -batch :memory: .quit
workload python 20011 env PYTHONPATH=/share/python PYTHONHASHSEED=0 /share/bin/python3 -S text.py
workload perl 20011 env PERL_HASH_SEED=0 /share/bin/perl text.pl
workload xz 20011 /share/bin/xz -T1 -c text
workload gzip 20011 /share/bin/gzip -c text
workload sort 20011 /share/bin/sort --parallel=1 text
workload web 5003 sh web
check "perf can find callers from stacks" perf_unwinds
unwound gzip /share/bin/gzip -c text
unwound perl env PERL_HASH_SEED=0 /share/bin/perl text.pl
unwound python env PYTHONPATH=/share/python PYTHONHASHSEED=0 /share/bin/python3 -S text.py
finish
