# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# The packages of `make deb`, and the root to test them in. `build` sources this file.

# The files of the checkout that the packages contain, or that make them.
DEB_SOURCES=(Makefile Kbuild README.md include rust user/Cargo.toml user/system user/libperfmon user/pmctl/completions
	Documentation/'*.rst' Documentation/'*.[14]' scripts/check-kdir
	selftests/vm/qemu selftests/vm/kernel/{build,base.config}
	scripts/deb/build scripts/deb/linked.sh scripts/deb/debian)

# Prints the version of the packages, and the time of the sources in seconds since 1970. A newer
# commit has a later version. DEB_REVISION makes a later version of the same sources.
version_and_time() {
	local git=(git -c "safe.directory=$TOP" -C "$TOP") version time
	version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$TOP/user/Cargo.toml")
	if time=$("${git[@]}" log -1 --format=%ct 2>/dev/null); then
		version+=+git$(date -u -d "@$time" +%Y%m%d.%H%M%S)
	else
		time=$(stat -c %Y "$TOP/user/Cargo.toml")
	fi
	echo "$version${DEB_REVISION:++$DEB_REVISION} $time"
}

deb() {
	local version maintainer keys u v series reason kernel module parts=()
	version=$(version_and_time)
	maintainer="${DEBFULLNAME:-The perfmon authors} <${DEBEMAIL:-perfmon@localhost}>"
	keys=$(module_keys)
	u=$(user-release)
	v=$(vm-release)
	for series in $(tested_series); do
		if reason=$(check_sources "kernel-stock-$series"); then
			kernel=$(build_one "kernel-stock-$series")
			module=$(build_one "module-stock-$series")
			parts+=("$kernel" "$module")
		else
			say "    no module for Linux $series: $reason"
		fi
	done
	[ ${#parts[@]} -gt 0 ] || die "Debian's archive has no kernel that the module can be built for: the reasons are above."
	entry deb "$(key "$version $maintainer ${keys:+$(sha256sum <"$keys/mok.pub")} ${u##*/} ${v##*/} ${parts[*]##*/} \
		$(tools debhelper dh-dkms dpkg-dev "${COMPILER[@]}")" "${DEB_SOURCES[@]}")" \
		"packages for Debian (30 s)" build_deb "$version" "$maintainer" "$keys" "$u" "$v" "${parts[@]}"
}

# Prints the directory of the keys that sign modules; nothing if there is none.
module_keys() {
	local dir=${KEYS-/var/lib/dkms}
	if [ -r "$dir/mok.key" ] && [ -r "$dir/mok.pub" ]; then
		readlink -f "$dir"
	elif [ -n "${KEYS-}" ]; then
		die "There are no mok.key and mok.pub in $KEYS that can be read: they sign the modules."
	fi
}

# build_deb DIRECTORY VERSION-AND-TIME MAINTAINER KEYS USER VM (KERNEL MODULE)...
build_deb() {
	local dir=$1 version=$2 maintainer=$3 keys=$4 stage=$1/.stage kernel=$7 release mounts=()
	mkdir -p "$stage/built"
	sources "${DEB_SOURCES[@]}" | tar -C "$TOP" --null -T - -c | tar -C "$stage" -x
	cp "$5/pmctl" "$stage/built/"
	cp -r "$6" "$stage/built/vm"
	# pmctl is in the package perfmon.
	rm "$stage/built/vm/pmctl"
	vm_sources >"$stage/built/vm-source"
	shift 6
	while [ $# -gt 0 ]; do
		release=$(cat "$1/linux/include/config/kernel.release")
		install -D -m 644 -t "$stage/built/modules/$release" "$2/perfmon.ko"
		shift 2
	done
	[ -z "$keys" ] || mounts=("$keys:/debian:ro" "$kernel/linux:/usr/src/linux:ro")
	# The version and the time are two words.
	# shellcheck disable=SC2086
	in_root "$stage:/source:ro" "$dir:/out" "${mounts[@]}" -- /source/scripts/deb/build $version "$maintainer"
	rm -r "$stage"
}

# Prints which source packages the virtual machine is built from.
vm_sources() {
	local q l
	q=$(qemu-source)
	l=$(newest_linux)
	cat <<-END
	perfmon-vm is built from source packages of Debian's, which its archive has, and
	later $SNAPSHOT:

	  $(basename "$q"/*.dsc), with the patches of qemu/, by qemu/build
	  linux $(cat "$l/version"), as kernel/base.config says, by kernel/build

	The firmware is that of the binary packages

	$(tools seabios qemu-system-data | sed 's/^/  /')

	and initrd is a cpio archive of pmctl and perfmon.ko, which the sources of perfmon make.
	The libraries that QEMU and pmctl are linked with are those of the packages in the
	field Built-Using of \`dpkg -s perfmon-vm\`.
	END
}

# Builds what `make release` publishes: the packages, pmctl with its virtual machine as a tar and
# for pip, and a list of components.
release() {
	local version d v w c
	version=$(version_and_time)
	d=$(KEYS="" deb)
	v=$(vm-release)
	w=$(wheel)
	c=$(crates)
	entry release "$(key "$version ${d##*/} ${v##*/} ${w##*/} ${c##*/} $(tools python3 xz-utils)" .)" \
		"what a release publishes (1 min)" build_release "$version" "$d" "$v" "$w" "$c"
}

# build_release DIRECTORY VERSION-AND-TIME DEB VM WHEEL CRATES
build_release() {
	local stage=$1/.stage
	mkdir -p "$stage/sources"
	committed_sources | tar -C "$TOP" --null -T - -c | tar -C "$stage/sources" -x
	cp -r "$3" "$stage/deb"
	cp -r "$4" "$stage/vm"
	cp -r "$5" "$stage/wheel"
	cp -r "$6" "$stage/crates"
	vm_sources >"$stage/vm-source"
	cargo_directories
	# The version and the time are two words.
	# shellcheck disable=SC2086
	in_root "$TOP:/src:ro" "$stage:/source:ro" "$CACHE/cargo:/cargo" "$1:/out" -- /src/scripts/release/build $2
	rm -r "$stage"
}

# A minimal Debian 13, for tests of the packages. It has linux-libc-dev because perfmon-dev
# depends on it.
root-clean() {
	entry root-clean "$(key "$(tools apt)" selftests/vm/packages.sh)" "a Debian 13 to install the packages in (1 min, 300 MB)" build_root_clean
}

build_root_clean() {
	rmdir "$1"
	# shellcheck disable=SC2086 # the callers are words
	as_root "$VM/bound" $PERFMON_CALLERS -- mmdebstrap --variant=minbase --mode=root \
		--include=systemd-sysv,udev,kmod,linux-libc-dev trixie "$1" "deb $MIRROR trixie main" "deb $SECURITY trixie-security main"
}
