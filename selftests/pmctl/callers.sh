#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The shares of functions, and of their callers, in recordings of pmctl record -g and of
# perf record -g: the same within what so many samples make likely. /share has the
# programs (scripts/test-shares).

here=$(dirname "$0")
# shellcheck source=SCRIPTDIR/../lib/ktap.sh
. "$here/ktap.sh"

[ -e /dev/perfmon ] || skip_all "there is no /dev/perfmon"
[ -d /share/bin ] || skip_all "/share has no programs"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export LD_LIBRARY_PATH=/share/lib
echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
# So that addresses are the same each time.
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

# shares FILE : from `perf script`: for each sample its function, and that with its caller.
# Without a symbol, a function is 256 bytes of the program. Debian's programs have no frame
# pointers: what is read as the caller may be in no file, where pmctl sooner ends the chain.
shares() {
	perf script -i "$1" -F ip,sym,dso 2>/dev/null | awk '
		function name() {
			if ($NF == "([unknown])")
				return "-"
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

# compare OURS THEIRS : prints what differs by more than 4.5 standard deviations of the
# difference of two shares, with so many samples; and the largest deviation. Of a thousand
# shares that are the same one is so far off in 150 such tests.
compare() {
	awk '
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
				# The square, as this awk has no root.
				far = (p - q) * (p - q) / (both * (1 - both) * (1 / all[a] + 1 / all[b]))
				if (far > most)
					most = far
				if (far > 4.5 * 4.5) {
					differ++
					printf "# %s: %.2f%% and %.2f%%, %.1f variances\n", key, 100 * p, 100 * q, far
				}
			}
			printf "# %d and %d samples, %d shares, the largest difference is %.1f variances\n", all[a], all[b], compared, most
			print compared + 0, differ + 0
		}' "$1" "$2"
}

# workload NAME PERIOD COMMAND...
workload() {
	name=$1
	period=$2
	shift 2
	"$@" >/dev/null 2>&1
	is "$name: it runs" 0 $?
	pmctl record -g -e instructions:u -c "$period" -m 1024 -o ours.data -- "$@" >/dev/null 2>words
	perf record -q -g -e instructions:u -c "$period" -m 1024 -o theirs.data -- "$@" >/dev/null 2>&1
	shares ours.data >ours
	shares theirs.data >theirs
	compare ours theirs >answer
	sed "s/^#/# $name:/" answer | sed '$d'
	check "$name: there are enough samples" [ "$(awk '/^samples/ { print $2 }' ours)" -ge 2000 ]
	check "$name: shares are compared" [ "$(awk 'END { print $1 }' answer)" -ge 5 ]
	is "$name: no share differs" 0 "$(awk 'END { print $2 }' answer)"
}

plan 20
workload gzip 20011 /share/bin/gzip -c text
workload sort 20011 /share/bin/sort --parallel=1 text
workload python 20011 env PYTHONPATH=/share/python PYTHONHASHSEED=0 /share/bin/python3 -S text.py
workload perl 20011 env PERL_HASH_SEED=0 /share/bin/perl text.pl
workload xz 20011 /share/bin/xz -T1 -c text
finish
