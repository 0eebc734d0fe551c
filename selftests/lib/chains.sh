# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Compares call chains of pmctl and perf, for test scripts.

# perf_unwinds: succeeds if this perf can unwind copied stacks (DWARF)
perf_unwinds() {
	perf version --build-options 2>/dev/null | grep -qE 'dwarf-unwind: .*on|libunwind: .*on'
}

# chains COMMAND...: prints the addresses of the call chains that COMMAND prints. Leaves out chains
# of only one address in the program: perf prints no chain if the stack was not in memory.
chains() {
	"$@" 2>/dev/null | awk '
		function end() { if (n > 1) printf "%s", program; n = 0; program = "" }
		!/^\t/ { end(); next }
		$1 ~ /^ffff/ { print $1; next }
		{ n++; program = program $1 "\n" }
		END { end() }'
}

# same_chains FILE: succeeds if pmctl script and perf script print the same addresses, a
# hundred or more
same_chains() {
	chains perf script -F ip,sym -i "$1" >theirs
	chains pmctl script -F ip,sym -i "$1" >ours
	[ "$(wc -l <ours)" -ge 100 ] && cmp -s ours theirs && return
	wc -l ours theirs | sed 's/^/# /'
	diff ours theirs | head -20 | sed 's/^/# /'
	return 1
}
