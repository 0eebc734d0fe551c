# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# The sources and packages that everything is built from. `build` sources this file.
#
# Each of them is an entry of the cache, fetched when it is first needed: if it is not available,
# only the builds that need it fail. The entry `archive` is a table of the packages in Debian's
# archive. It is made once, and made again when the archive no longer has a file of the table.

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

# archive_line NAME : prints the line of NAME in the table: name, version, SHA-256, size, URL.
archive_line() {
	local a
	a=$(archive)
	grep "^$1 " "$a/table"
}

archive_places() {
	local a
	a=$(archive)
	printf '%s. To look again, remove %s' "$(cat "$a/places")" "$a"
}

# fetch DIRECTORY NAME... : downloads the table's files of these names, under their names in the
# archive.
fetch() {
	local dir=$1 name sha url
	shift
	for name; do
		read -r _ _ sha _ url <<<"$(archive_line "$name")"
		in_root "$dir:/out" -- /usr/lib/apt/apt-helper -oAPT::Sandbox::User=root download-file "$url" "/out/${url##*/}" "SHA256:$sha"
	done
}

# archive_hash NAME... : prints a hash of the table's lines of these names.
archive_hash() {
	local name
	for name; do
		archive_line "$name" | cut -d' ' -f1-3 || true
	done | sha256sum | cut -c1-16
}

# newest_entry KIND : prints the newest entry of this kind; fails if there is none.
newest_entry() {
	# The names are made by this script, without white space.
	# shellcheck disable=SC2012
	ls -dt "$CACHE/$1"-???????????????? 2>/dev/null | head -n 1 | grep .
}

# source_entry KIND MESSAGE BUILDER NAME... : prints the entry that BUILDER makes of the table's
# files of these names, or an older entry if the archive no longer has the files.
source_entry() {
	local kind=$1 name a
	for name in "${@:4}"; do
		if ! archive_line "$name" >/dev/null; then
			newest_entry "$kind" || die "$name is needed, and no archive has it. Looked in: $(archive_places)"
			return
		fi
	done
	# The archive may have dropped a file since the table was made: then the table is made again,
	# once.
	if ! (entry "$kind" "$(archive_hash "${@:4}")" "$2" "$3" "${@:4}"); then
		a=$(archive)
		[ -n "$(find "$a/table" -mmin +5)" ] || exit 1
		say "    The archive may have newer files: looking again."
		rm -r "$a"
		entry "$kind" "$(archive_hash "${@:4}")" "$2" "$3" "${@:4}"
	fi
}

# --- kernels ---------------------------------------------------------------

# Prints the kernel series that are tested, newest first.
tested_series() { sed -n 's/^linux-source-\([0-9.]*\) .*/\1/p' "$PINS" | sort -rV; }

# newest_series SOURCE ENTRY : prints the newest tested series S for which the archive has SOURCE-S,
# or the cache has ENTRY-S; if there is none, the newest of all series.
newest_series() {
	local s newer
	for s in $(tested_series); do
		if archive_line "$1-$s" >/dev/null || newest_entry "$2-$s" >/dev/null; then
			echo "$s"
			return
		fi
	done
	newer=$({
		tested_series
		sed -n "s/^$1-\([0-9.]*\) .*/\1/p" "$(archive)/table"
	} | sort -rVu | head -n 1)
	archive_line "$1-$newer" >/dev/null ||
		die "There is no kernel to test on: it takes Linux $(tested_series | paste -sd' ' | sed 's/ / or /g'), or newer. Looked in: $(archive_places)"
	echo "$newer"
}

# untested_note SERIES : prints a note if the series is not tested
untested_note() {
	tested_series | grep -qxF "$1" || printf '; newer than %s, the newest that is tested' "$(tested_series | head -n 1)"
}

# linux SERIES : prints the entry of the kernel's source: version and source.tar.zst
linux() {
	source_entry "linux-$1" "Linux's source, $1 (160 MB)$(untested_note "$1")" build_linux "linux-source-$1"
}

# The source is packed anew with zstd, because it is unpacked often: this then takes two seconds
# instead of ten.
build_linux() {
	fetch "$1" "$2"
	in_root "$1:/out" -- sh -euc "
		cd /out
		dpkg-deb --fsys-tarfile linux-source-*.deb | tar -xO ./usr/src/$2.tar.xz | xz -dc -T0 | zstd -q -1 -T0 -o source.tar.zst
		rm linux-source-*.deb"
	archive_line "$2" | cut -d' ' -f2 >"$1/version"
}

# debian SERIES : prints the entry of Debian's build of the series: image and headers, unpacked
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

# qemu_version [PREFIX] : prints the version of QEMU's source in the archive, such as 10.0.13; with
# PREFIX, the version of the pinned source
qemu_version() {
	{ if [ -n "${1-}" ]; then cat "$PINS"; else archive_line qemu-dsc || true; fi; } |
		sed -nE 's/^qemu-dsc ([0-9]+:)?([0-9.]+).*/\2/p'
}

# --- what is missing -------------------------------------------------------

# check_sources WHAT : fails, and prints why, if the sources for WHAT are not available.
check_sources() {
	local series needed
	# Makes the table first, so that messages of this step are not in the output below.
	archive >/dev/null
	case $1 in
	kernel-stock-* | module-stock-*) series=${1##*-} ;;
	kernel-stock | module-stock | vm-stock | deb) series=$(newest_series linux-binary debian 2>&1) || fail_missing "$series" ;;
	qemu)
		archive_line qemu-dsc >/dev/null || newest_entry qemu-source >/dev/null ||
			fail_missing "There is no source of QEMU. Looked in: $(archive_places)"
		return
		;;
	guest-stock)
		archive_line linux-perf >/dev/null || fail_missing "There is no linux-perf. Looked in: $(archive_places)"
		return
		;;
	libpfm4)
		archive_line libpfm4-dev >/dev/null || newest_entry libpfm4 >/dev/null ||
			fail_missing "There is no libpfm4-dev. Looked in: $(archive_places)"
		return
		;;
	*)
		series=$(newest_series linux-source linux 2>&1) || fail_missing "$series"
		return
		;;
	esac
	for needed in source:linux headers:debian binary:debian; do
		archive_line "linux-${needed%:*}-$series" >/dev/null || newest_entry "${needed#*:}-$series" >/dev/null ||
			fail_missing "There is no linux-${needed%:*}-$series. Looked in: $(archive_places)"
	done
}

fail_missing() {
	echo "$1"
	exit 1
}
