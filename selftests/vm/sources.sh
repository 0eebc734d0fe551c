# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# The sources and packages that things are built from: sourced by `build`.
#
# Each is an entry of the cache of its own, fetched when it is first needed, so that
# one that can't be had fails only those that need it. The
# entry `archive` is a table of what Debian's archive has. It is asked for
# once, and again when the archive no longer has what the table says.

PINS=${PERFMON_PINS:-$VM/archive/pins}
MIRROR=${PERFMON_MIRROR:-http://deb.debian.org/debian}
SECURITY=${PERFMON_SECURITY_MIRROR:-${PERFMON_MIRROR:-http://security.debian.org/debian-security}}
SNAPSHOT=${PERFMON_SNAPSHOT:-https://snapshot.debian.org}

archive() {
	entry archive "$(key "$MIRROR $SECURITY $SNAPSHOT $(sha256sum <"$PINS") $(tools apt)" selftests/vm/archive)" \
		"What Debian's archive has (5 s)" build_archive
}

build_archive() {
	in_root "$VM/archive:/src:ro" "$(dirname "$PINS"):/source:ro" "$1:/out" -- \
		/src/ask /out "/source/${PINS##*/}" "$MIRROR" "$SECURITY" "$SNAPSHOT"
}

# offer NAME : its line in the table: name, version, SHA-256, size, URL.
offer() {
	local a
	a=$(archive)
	grep "^$1 " "$a/table"
}

places() {
	local a
	a=$(archive)
	printf '%s. To ask again, remove %s' "$(cat "$a/places")" "$a"
}

# fetch DIRECTORY NAME... : downloads them, under the names they have there.
fetch() {
	local dir=$1 name sha url
	shift
	for name; do
		read -r _ _ sha _ url <<<"$(offer "$name")"
		in_root "$dir:/out" -- /usr/lib/apt/apt-helper -oAPT::Sandbox::User=root download-file "$url" "/out/${url##*/}" "SHA256:$sha"
	done
}

# offers NAME... : a hash over what the table says of those that it has.
offers() {
	local name
	for name; do
		offer "$name" | cut -d' ' -f1-3 || true
	done | sha256sum | cut -c1-16
}

# cached KIND : the newest entry of this kind, if there is one.
cached() {
	# The names are ours: no white space.
	# shellcheck disable=SC2012
	ls -dt "$CACHE/$1"-???????????????? 2>/dev/null | head -n 1 | grep .
}

# source_entry KIND MESSAGE BUILDER NAME... : the entry that BUILDER makes of
# these, or an older one if they are no longer to be had.
source_entry() {
	local kind=$1 name a
	for name in "${@:4}"; do
		if ! offer "$name" >/dev/null; then
			cached "$kind" || die "$name is not to be had, and is needed. Asked: $(places)"
			return
		fi
	done
	# The archive may have dropped a file since it was asked: then it is asked
	# again, once.
	if ! (entry "$kind" "$(offers "${@:4}")" "$2" "$3" "${@:4}"); then
		a=$(archive)
		[ -n "$(find "$a/table" -mmin +5)" ] || exit 1
		say "    The archive may have newer ones: it is asked again."
		rm -r "$a"
		entry "$kind" "$(offers "${@:4}")" "$2" "$3" "${@:4}"
	fi
}

# --- kernels ---------------------------------------------------------------

# The series that all is tested with, newest first.
tested() { sed -n 's/^linux-source-\([0-9.]*\) .*/\1/p' "$PINS" | sort -rV; }

# newest SOURCE ENTRY : the newest series for which the archive has SOURCE-S or
# the cache ENTRY-S: one that is tested, else one that is newer.
newest() {
	local s newer
	for s in $(tested); do
		if offer "$1-$s" >/dev/null || cached "$2-$s" >/dev/null; then
			echo "$s"
			return
		fi
	done
	newer=$({
		tested
		sed -n "s/^$1-\([0-9.]*\) .*/\1/p" "$(archive)/table"
	} | sort -rVu | head -n 1)
	offer "$1-$newer" >/dev/null ||
		die "There is no kernel to test on: it takes Linux $(tested | paste -sd' ' | sed 's/ / or /g'), or newer. Asked: $(places)"
	echo "$newer"
}

# untested SERIES : what is to be said of one that is not tested
untested() {
	tested | grep -qxF "$1" || printf '; newer than %s, the newest that is tested: tried' "$(tested | head -n 1)"
}

# linux SERIES : the kernel's source, version and source.tar.zst
linux() {
	source_entry "linux-$1" "Linux's source, $1 (160 MB)$(untested "$1")" build_linux "linux-source-$1"
}

# It is unpacked often: packed anew, that takes two seconds instead of ten.
build_linux() {
	fetch "$1" "$2"
	in_root "$1:/out" -- sh -euc "
		cd /out
		dpkg-deb --fsys-tarfile linux-source-*.deb | tar -xO ./usr/src/$2.tar.xz | xz -dc -T0 | zstd -q -1 -T0 -o source.tar.zst
		rm linux-source-*.deb"
	offer "$2" | cut -d' ' -f2 >"$1/version"
}

# debian SERIES : Debian's build of it, image and headers, unpacked
debian() {
	source_entry "debian-$1" "Debian's Linux $1 (16 MB)" build_unpacked "linux-headers-$1" "linux-binary-$1"
}

# build_unpacked DIRECTORY PACKAGE...
build_unpacked() {
	mkdir -p "$1"
	fetch "$@"
	in_root "$1:/out" -- sh -euc "cd /out && for p in *.deb; do dpkg-deb -x \$p .; done && rm ./*.deb"
}

# --- QEMU ------------------------------------------------------------------

QEMU_SOURCE=(qemu-dsc qemu-orig qemu-debian)

qemu-source() {
	source_entry qemu-source "QEMU's source (40 MB)" fetch "${QEMU_SOURCE[@]}"
}

# qemu_version [PREFIX] : 10.0.13, of the archive's source, or of the pinned one
qemu_version() {
	{ if [ -n "${1-}" ]; then cat "$PINS"; else offer qemu-dsc || true; fi; } |
		sed -nE 's/^qemu-dsc ([0-9]+:)?([0-9.]+).*/\2/p'
}

# --- what is missing -------------------------------------------------------

# missing WHAT : fails and says why if WHAT can't be had, for want of sources.
missing() {
	local series needed
	# Said where it is made, not in what is printed below.
	archive >/dev/null
	case $1 in
	kernel-stock-* | module-stock-*) series=${1##*-} ;;
	kernel-stock | module-stock | deb) series=$(newest linux-binary debian 2>&1) || lacks "$series" ;;
	qemu)
		offer qemu-dsc >/dev/null || cached qemu-source >/dev/null ||
			lacks "There is no source of QEMU. Asked: $(places)"
		return
		;;
	guest-stock)
		offer linux-perf >/dev/null || lacks "There is no linux-perf. Asked: $(places)"
		return
		;;
	libpfm4)
		offer libpfm4-dev >/dev/null || cached libpfm4 >/dev/null ||
			lacks "There is no libpfm4-dev. Asked: $(places)"
		return
		;;
	*)
		series=$(newest linux-source linux 2>&1) || lacks "$series"
		return
		;;
	esac
	for needed in source:linux headers:debian binary:debian; do
		offer "linux-${needed%:*}-$series" >/dev/null || cached "${needed#*:}-$series" >/dev/null ||
			lacks "There is no linux-${needed%:*}-$series. Asked: $(places)"
	done
}

lacks() {
	echo "$1"
	exit 1
}
