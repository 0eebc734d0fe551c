# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# The cache of everything that is built. The other scripts source this file.
#
# An entry is the directory $CACHE/KIND-KEY, where KEY is a hash of everything that the entry is
# built from. An entry is built under another name, under a lock, and then renamed: an entry that
# exists is complete, even if builds were interrupted or several run at once.

CACHE=$(realpath -m "${PERFMON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/perfmon}")
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034 # for the scripts that source this
VM=$TOP/selftests/vm

# All users may read and execute what is built, also in the files of a virtual machine.
umask 022

# The number of entries of a kind that stay when a new entry is made, two by default. The least
# recently used entries are removed first.
declare -A KEEP=([kernel]=3 [qemu]=3 [guest]=3 [module]=16 [user]=8 [tests]=8)

# shellcheck source=SCRIPTDIR/progress.sh
. "$VM/progress.sh"

# Prints a line to standard error; on a terminal, in place of the line of progress.
say() {
	[ ! -t 2 ] || printf '\r\033[K' >&2
	printf '%s\n' "$*" >&2
}

die() {
	printf '%s\n' "$@" >&2
	exit 1
}

# typed_command [ARG...] : prints the command line that started this script with ARGs, so that the
# user can type it again. For make, that includes the variables that the user has set.
typed_command() {
	local words=("$0" "$@") name
	if [ -n "${MAKE_GOAL-}" ]; then
		words=(make "$MAKE_GOAL")
		for name in ROWS TIER FRESH JOBS MINUTES DEB KEYS RELEASE; do
			[ -z "${!name-}" ] || words+=("$name=${!name}")
		done
	fi
	printf '%q ' "${words[@]}" | sed 's/ $//'
}

# Scripts that this script runs inherit TYPED.
[ -n "${TYPED-}" ] || TYPED=$(typed_command "$@")
export TYPED

# PIDs of this script and of the scripts that wait for it. A program that they run in the Debian
# root is killed as soon as one of the scripts ends.
export PERFMON_CALLERS="${PERFMON_CALLERS-} $$"

# time_in_words SECONDS : prints a time span in words: 75 -> "1 min 15 s".
time_in_words() {
	if [ "$1" -ge 60 ]; then
		printf '%d min %d s' $(($1 / 60)) $(($1 % 60))
	else
		printf '%d s' "$1"
	fi
}

# project_git ARG... : runs git in the project.
project_git() { git -c "safe.directory=$TOP" -C "$TOP" "$@"; }

# is_repository : succeeds if the project is a git repository of its own.
is_repository() { [ "$(project_git rev-parse --show-toplevel 2>/dev/null)" = "$TOP" ]; }

# sources PATHSPEC... : prints the files that git tracks or would track, each followed by a NUL.
# Prints all files if the project is not a git repository of its own.
sources() {
	local file spec found
	if is_repository; then
		project_git ls-files -z --cached --others --exclude-standard -- "$@"
		return
	fi
	(cd "$TOP" && find . -name .git -prune -o -type f -printf '%P\0') | while IFS= read -r -d '' file; do
		found=
		for spec; do
			# A path specification may be a pattern.
			# shellcheck disable=SC2053
			case $spec in
			:!*) [[ $file != ${spec#:!} && $file != ${spec#:!}/* ]] || continue 2 ;;
			*) [[ $spec = . || $file = $spec || $file = $spec/* ]] && found=1 ;;
			esac
		done
		[ -z "$found" ] || printf '%s\0' "$file"
	done
}

# has_readable_repository : succeeds unless git can't read the project's repository, so that its files
# can't be told from private ones.
has_readable_repository() { [ ! -e "$TOP/.git" ] || is_repository; }

# committed_sources : prints the files that git tracks, each followed by a NUL. Prints all files if
# the project is not a git repository of its own.
committed_sources() {
	has_readable_repository || die "git can't read the repository of $TOP"
	if is_repository; then
		project_git ls-files -z --cached
	else
		sources .
	fi
}

# key WITH FILE-OR-DIR... : prints a hash of the names, modes and contents of the files, and of the
# text WITH. WITH names everything else that an entry depends on, such as the entries that it is
# built with.
#
# Only files that git tracks or would track are hashed, so a build in the tree changes nothing.
key() {
	(
		printf '%s\n' "$1"
		shift
		cd "$TOP" || exit 1
		sources "$@" | sort -zu | while IFS= read -r -d '' f; do
			[ ! -f "$f" ] || printf '%s\0' "$f"
		done | xargs -0 -r sha256sum -- | while read -r sum f; do
			[ ! -x "$f" ] || printf x
			printf '%s %s  -\n' "$f" "$sum"
		done
	) | sha256sum | cut -c1-16
}

# entry KIND KEY MESSAGE BUILDER [ARG...] : prints the path of the entry. If the entry does not
# exist, `BUILDER DIRECTORY ARG...` builds it first. MESSAGE names the entry, and says roughly how
# long the build takes. BUILDER is a function of `build`.
entry() {
	local kind=$1 key=$2 message=$3 name=${3% (*} dir=$CACHE/$1-$2 tmp log lock=$CACHE/.lock-$1-$2
	shift 3
	if [ ! -d "$dir" ]; then
		mkdir -p "$CACHE/log" || die "$CACHE can't be written. Set PERFMON_CACHE to a directory that can."
		log=$CACHE/log/$kind-$key
		# Processes that the builder starts inherit the lock: as long as one of them runs, no
		# other run builds this entry.
		exec 9<>"$lock"
		flock -w 0.2 9 || wait_for_entry
		if [ ! -d "$dir" ]; then
			echo $$ >"$lock"
			build_entry "$@"
		fi
		exec 9>&-
	fi
	# prune() removes entries by this time. touch fails for the Debian root, which belongs to
	# root.
	touch "$dir" 2>/dev/null || true
	printf '%s\n' "$dir"
}

# Waits until no other run builds the entry. Uses entry()'s variables. The lock file has the PID of
# the run that builds, and the file's time is the start of the build.
wait_for_entry() {
	local pid since
	read -r pid <"$lock" || true
	since=$(time_in_words $(($(date +%s) - $(stat -c %Y "$lock"))))
	say "  Waiting for another build of $name (${pid:+process $pid, }since $since)"
	# The programs of a killed run in the Debian root end within a second or two (see `bound`).
	if [ -n "$pid" ] && ! is_running "$pid" && ! flock -w 5 9; then
		say "    Process $pid was killed, but what it started goes on. To end it:"
		say "        kill $(lock_holders "$lock")"
	fi
	run_with_progress build_progress "$kind" "$key" "waiting for $name" -- flock 9
}

# lock_holders LOCK : prints the processes that hold LOCK, which have inherited descriptor 9.
lock_holders() {
	local fd
	for fd in /proc/[0-9]*/fd/9; do
		[ "$fd" -ef "$1" ] && grep -qs ^lock: "${fd/\/fd\//\/fdinfo\/}" && echo "${fd//[!0-9 ]/ }"
	done | awk '{ print $1 }' | paste -sd' '
}

# Cargo builds incrementally, by the times of the sources, so each checkout has its own directory,
# $CACHE/cargo/$TARGET. The least recently used directories are removed. Where programs are compiled
# for the host and the machines, the directory has the same path in the root for all checkouts,
# because rustc compiles everything anew if the path changes.
TARGET=target-$(printf '%s' "$TOP" | sha256sum | cut -c1-16)

# Arguments of cargo in the Debian root, for `build` and for the tests on the host, so that
# they share what is compiled. Programs are static, because other roots lack the libraries.
# shellcheck disable=SC2034 # for the scripts that source this
CARGO_VARIABLES=(RUSTFLAGS="-C target-feature=+crt-static" "CARGO_TARGET_DIR=/cargo/target/static")
# shellcheck disable=SC2034
CARGO_OPTIONS=(--manifest-path /src/user/Cargo.toml --locked --target x86_64-unknown-linux-gnu)

cargo_directories() {
	local old
	mkdir -p "$CACHE/cargo/target"
	[ -d "$CACHE/cargo/$TARGET" ] || begin_cargo_directory
	touch "$CACHE/cargo/$TARGET"
	# shellcheck disable=SC2012
	ls -dt "$CACHE"/cargo/target-* | tail -n +9 | while IFS= read -r old; do
		rm -rf "$old"
	done
}

# Copies the directory of another checkout into the directory of a new checkout. Takes the directory
# where tests were built last, because rustc then has least to compile anew, or else the largest
# directory. Cargo recognizes crates of other projects by their version, and rustc checks its
# incremental files itself. The project's own crates are removed, since cargo would compare only the
# times of their sources.
begin_cargo_directory() {
	local old most lock new=$CACHE/cargo/.new-$$ member
	mkdir -p "$new"
	most=$(for old in "$CACHE"/cargo/target-*; do
		[ ! -d "$old" ] || find "$old" -maxdepth 5 -path '*/.fingerprint/*' |
			echo "$(stat -c %Y "$old/tested" 2>/dev/null || echo 0) $(wc -l) $old"
	done | sort -k 1,1nr -k 2,2nr | head -n 1)
	most=$(cut -d' ' -f3- <<<"$most")
	# Makes no hard links, because rustc and build scripts overwrite files in place. Holds
	# cargo's lock, so that no build changes the directory meanwhile.
	lock=$most/static/x86_64-unknown-linux-gnu/quick/.cargo-lock
	[ ! -e "$lock" ] || flock -s "$lock" cp -a --reflink=auto "$most"/{debug,static} "$new" 2>/dev/null || true
	rm -rf "$new"/static/{,*/}release
	sed -n 's/^name = "\(.*\)"$/\1/p' "$TOP"/user/*/Cargo.toml | sort -u | while read -r member; do
		find "$new" -type d -path "*/.fingerprint/$member-*" -prune -exec rm -rf {} +
	done
	# Removes old files, which would otherwise be copied from checkout to checkout.
	find "$new" -type f -mtime +14 -delete
	mv -T "$new" "$CACHE/cargo/$TARGET" 2>/dev/null || rm -rf "$new"
}

# Builds the entry, with its lock held. Uses entry()'s variables.
build_entry() {
	local start=$SECONDS last pid
	# Replaces the guess of the time in the message by the time of the last build.
	if read -r last _ 2>/dev/null <"$CACHE/took/$kind" && [[ $message =~ ^(.*\()[0-9][^(),]*\ (s|min)[^(),]*(.*)$ ]]; then
		message="${BASH_REMATCH[1]}$(time_in_words "$last") last time${BASH_REMATCH[3]}"
	fi
	say "  $message"
	: >"$log"
	# The lock is held, so a directory of this name is left from an interrupted run.
	remove "$CACHE/.tmp-$kind-$key"
	tmp=$CACHE/.tmp-$kind-$key
	mkdir "$tmp"
	# The builder has a process of its own: in a condition, a shell function would not stop at
	# its first error.
	if ! run_with_progress build_progress "$kind" "$key" "$name" -- builder "$@"; then
		# Exits silently if the build was killed together with a process that waits for it.
		for pid in $PERFMON_CALLERS; do
			is_running "$pid" || exit 1
		done
		# Shows the lines that a terminal would show, without the overwritten lines.
		tail -n 30 "$log" | sed 's/.*\r//; s/\x1b\[K//g' >&2
		die "" "Building $name failed. The end of the log is above; all of it is in" "    $log"
	fi
	mv -T "$tmp" "$dir"
	mkdir -p "$CACHE/took"
	echo "$((SECONDS - start)) $(wc -l <"$log")" >"$CACHE/took/$kind"
	sed -n 's/^note: /    /p' "$log" >&2
	say "    $name: done in $(time_in_words $((SECONDS - start)))"
	prune "$kind"
}

# Makes cargo print its progress, although the log is no terminal.
builder() {
	CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=120 \
		"$VM/build" --builder "$1" "$tmp" "${@:2}" >"$log" 2>&1 </dev/null
}

prune() {
	local old
	# If no process holds the lock, an interrupted build has left the directory.
	for old in "$CACHE/.tmp-$1"-*; do
		if [ -e "$old" ] && flock -n "$CACHE/.lock-${old##*/.tmp-}" true; then
			remove "$old"
		fi
	done
	# The names are made by this script, without white space.
	# shellcheck disable=SC2012
	ls -dt "$CACHE/$1"-???????????????? 2>/dev/null | tail -n +$((${KEEP[$1]:-2} + 1)) | while read -r old; do
		remove "$old"
		rm -f "$CACHE/log/${old##*/}"
	done
}

# root_prefix : prints the prefix of a command that root has to run.
root_prefix() {
	local command where=$PWD
	[ -z "${MAKE_GOAL-}" ] || where=$TOP
	if [ "$(id -u)" = 0 ]; then
		return
	elif command -v sudo >/dev/null; then
		echo sudo
	else
		command=$(printf 'cd %q && PERFMON_CACHE=%q %s' "$where" "$CACHE" "$TYPED")
		die "This step needs root (a Debian 13 root is made and mounts are set up in it), and" \
			"there is no sudo here. Run, as it stands:" "" \
			"    su -c '${command//\'/\'\\\'\'}'"
	fi
}

as_root() {
	local prefix
	prefix=$(root_prefix) || exit 1
	$prefix "$@"
}

# remove PATH : removes an entry. Files of the Debian root belong to root, others to the user.
remove() {
	[ -e "$1" ] || return 0
	case ${1##*/} in
	root-* | .tmp-root-*) as_root rm -rf --one-file-system "$1" ;;
	*) rm -rf "$1" ;;
	esac
}
