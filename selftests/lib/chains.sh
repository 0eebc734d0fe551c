# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Call chains beside perf's, for test scripts.

# perf_unwinds: whether perf finds callers from stacks
perf_unwinds() {
	perf version --build-options 2>/dev/null | grep -qE 'dwarf-unwind: .*on|libunwind: .*on'
}

# same_chains FILE: whether pmctl script and perf script show the same addresses, of a
# hundred callers and more
same_chains() {
	perf script -F ip,sym -i "$1" 2>/dev/null | awk '/^\t/ { print $1 }' >theirs
	pmctl script -F ip,sym -i "$1" 2>/dev/null | awk '/^\t/ { print $1 }' >ours
	[ "$(wc -l <ours)" -ge 100 ] && cmp -s ours theirs && return
	wc -l ours theirs | sed 's/^/# /'
	diff ours theirs | head -20 | sed 's/^/# /'
	return 1
}
