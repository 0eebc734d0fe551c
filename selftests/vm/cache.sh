# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# The cache of everything that is built: sourced by the other scripts.
#
# An entry is the directory $CACHE/KIND-KEY, where KEY is a hash of all that it
# is built from. It is built beside its place under a lock and renamed into
# it, so that an entry which exists is whole, whatever was interrupted and
# however many runs there are at once.

CACHE=${PERFMON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/perfmon}
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034 # for the scripts that source this
VM=$TOP/selftests/vm

# The number of entries of a kind that stay when a new one is made, if not two. The
# least recently used go first.
declare -A KEEP=([kernel]=3 [qemu]=3 [guest]=3 [module]=16 [user]=8 [tests]=8)

# shellcheck source=SCRIPTDIR/progress.sh
. "$VM/progress.sh"

# On a terminal it takes the place of a line that says how far something is.
say() {
	[ ! -t 2 ] || printf '\r\033[K' >&2
	printf '%s\n' "$*" >&2
}

die() {
	printf '%s\n' "$@" >&2
	exit 1
}

# typed [ARG...] : what was typed to start this script, ARG among it, so that it can be
# typed again. What make was told besides its goal is in the environment.
typed() {
	local words=("$0" "$@") name
	if [ -n "${MAKE_GOAL-}" ]; then
		words=(make "$MAKE_GOAL")
		for name in ROWS TIER FRESH JOBS MINUTES DEB KEYS; do
			[ -z "${!name-}" ] || words+=("$name=${!name}")
		done
	fi
	printf '%q ' "${words[@]}" | sed 's/ $//'
}

# The scripts that this one runs inherit it.
[ -n "${TYPED-}" ] || TYPED=$(typed "$@")
export TYPED

# The scripts that wait for this one, and this one. What is done in the Debian root ends
# with the first of them that ends.
export PERFMON_CALLERS="${PERFMON_CALLERS-} $$"

# A time span in words: 75 -> "1 min 15 s".
span() {
	if [ "$1" -ge 60 ]; then
		printf '%d min %d s' $(($1 / 60)) $(($1 % 60))
	else
		printf '%d s' "$1"
	fi
}

# sources PATHSPEC... : the files that git tracks or would track, each with a NUL behind
# it. Where the project is not a git repository of its own, all files.
sources() {
	local git=(git -c "safe.directory=$TOP" -C "$TOP") file spec found
	if [ "$("${git[@]}" rev-parse --show-toplevel 2>/dev/null)" = "$TOP" ]; then
		"${git[@]}" ls-files -z --cached --others --exclude-standard -- "$@"
		return
	fi
	(cd "$TOP" && find . -name .git -prune -o -type f -printf '%P\0') | while IFS= read -r -d '' file; do
		found=
		for spec; do
			# A path specification is a pattern.
			# shellcheck disable=SC2053
			case $spec in
			:!*) [[ $file != ${spec#:!} && $file != ${spec#:!}/* ]] || continue 2 ;;
			*) [[ $spec = . || $file = $spec || $file = $spec/* ]] && found=1 ;;
			esac
		done
		[ -z "$found" ] || printf '%s\0' "$file"
	done
}

# key WITH FILE-OR-DIR... : a hash over the names, modes and contents of the
# files, and over the text WITH: the name of the entry that they are built with,
# or what else it depends on.
#
# Only what git tracks or would track counts, so that an editor's backup or a
# build that was made in the tree changes nothing.
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

# entry KIND KEY MESSAGE BUILDER [ARG...] : the path of the entry, built with
# `BUILDER DIRECTORY ARG...` if it is not there. MESSAGE says what is being
# done and roughly how long it takes. BUILDER is a function of `build`.
entry() {
	local kind=$1 key=$2 message=$3 name=${3% (*} dir=$CACHE/$1-$2 tmp log lock=$CACHE/.lock-$1-$2
	shift 3
	if [ ! -d "$dir" ]; then
		mkdir -p "$CACHE/log" || die "$CACHE can't be written. Set PERFMON_CACHE to a directory that can."
		log=$CACHE/log/$kind-$key
		# The lock is inherited by what the builder starts: as long as any of
		# it runs, no other run builds this entry.
		exec 9<>"$lock"
		flock -w 0.2 9 || wait_for_entry
		if [ ! -d "$dir" ]; then
			echo $$ >"$lock"
			build_entry "$@"
		fi
		exec 9>&-
	fi
	# For prune(). The Debian root is root's, and stays when others try.
	touch "$dir" 2>/dev/null || true
	printf '%s\n' "$dir"
}

# Waits until no other run builds the entry; uses entry()'s variables. The lock file has
# that run's PID, and is as old as its build.
wait_for_entry() {
	local pid since
	read -r pid <"$lock" || true
	since=$(span $(($(date +%s) - $(stat -c %Y "$lock"))))
	say "  Waiting for another build of $name (${pid:+process $pid, }since $since)"
	# What a killed run has started in the Debian root ends by itself in a second or two.
	if [ -n "$pid" ] && ! runs "$pid" && ! flock -w 5 9; then
		say "    Process $pid was killed, but what it started goes on. To end it:"
		say "        kill $(holders "$lock")"
	fi
	watched how_far "$kind" "$key" "waiting for $name" -- flock 9
}

# holders LOCK : the processes that hold it, which are those that inherited descriptor 9.
holders() {
	local fd
	for fd in /proc/[0-9]*/fd/9; do
		[ "$fd" -ef "$1" ] && grep -qs ^lock: "${fd/\/fd\//\/fdinfo\/}" && echo "${fd//[!0-9 ]/ }"
	done | awk '{ print $1 }' | paste -sd' '
}

# Cargo builds incrementally, and goes by the times of the sources: so each
# checkout has a directory of its own, $CACHE/cargo/$TARGET. Those of checkouts
# that have not been used for longest are removed.
TARGET=target-$(printf '%s' "$TOP" | sha256sum | cut -c1-16)

# What cargo is run with in the Debian root, for `build` and for the tests on the host: what
# one of them has compiled serves the others. Programs need no library of the root.
# shellcheck disable=SC2034 # for the scripts that source this
CARGO_VARIABLES=(RUSTFLAGS="-C target-feature=+crt-static" "CARGO_TARGET_DIR=/cargo/$TARGET/static")
# shellcheck disable=SC2034
CARGO_OPTIONS=(--manifest-path /src/user/Cargo.toml --locked --target x86_64-unknown-linux-gnu)

cargo_directories() {
	local old
	[ -d "$CACHE/cargo/$TARGET" ] || begin_cargo_directory
	touch "$CACHE/cargo/$TARGET"
	# shellcheck disable=SC2012
	ls -dt "$CACHE"/cargo/target-* | tail -n +9 | while IFS= read -r old; do
		rm -rf "$old"
	done
}

# A new checkout begins with what another has compiled, the one that has most. Of crates of
# others cargo knows by the version that they are the same, and rustc compares what its
# incremental compilation keeps; but the project's own crates cargo knows by the times of
# their sources only.
begin_cargo_directory() {
	local old most new=$CACHE/cargo/.new-$$ member
	mkdir -p "$new"
	most=$(for old in "$CACHE"/cargo/target-*; do
		[ ! -d "$old" ] || find "$old" -maxdepth 5 -path '*/.fingerprint/*' | echo "$(wc -l) $old"
	done | sort -nr | head -n 1)
	most=${most#* }
	# No links: rustc and build scripts write into files that are there.
	cp -a --reflink=auto "$most"/{debug,static} "$new" 2>/dev/null || true
	rm -rf "$new"/static/{,*/}release
	sed -n 's/^name = "\(.*\)"$/\1/p' "$TOP"/user/*/Cargo.toml | sort -u | while read -r member; do
		find "$new" -type d -path "*/.fingerprint/$member-*" -prune -exec rm -rf {} +
	done
	# So that nothing stays for ever.
	find "$new" -type f -mtime +14 -delete
	mv -T "$new" "$CACHE/cargo/$TARGET" 2>/dev/null || rm -rf "$new"
}

# The part of entry() under the lock; uses its variables.
build_entry() {
	local start=$SECONDS last pid
	# The time that the message has is a guess.
	if read -r last _ 2>/dev/null <"$CACHE/took/$kind" && [[ $message =~ ^(.*\()[0-9][^(),]*\ (s|min)[^(),]*(.*)$ ]]; then
		message="${BASH_REMATCH[1]}$(span "$last") last time${BASH_REMATCH[3]}"
	fi
	say "  $message"
	: >"$log"
	# With the lock held, what is left under this name is an interrupted run's.
	remove "$CACHE/.tmp-$kind-$key"
	tmp=$CACHE/.tmp-$kind-$key
	mkdir "$tmp"
	# In a process of its own: a shell function would not stop at the first
	# error here, because it is a condition.
	if ! watched how_far "$kind" "$key" "$name" -- builder "$@"; then
		# It was killed with the processes that waited for it.
		for pid in $PERFMON_CALLERS; do
			runs "$pid" || exit 1
		done
		# As a terminal shows what is written over.
		tail -n 30 "$log" | sed 's/.*\r//; s/\x1b\[K//g' >&2
		die "" "Building $name failed. The end of the log is above; all of it is in" "    $log"
	fi
	mv -T "$tmp" "$dir"
	mkdir -p "$CACHE/took"
	echo "$((SECONDS - start)) $(wc -l <"$log")" >"$CACHE/took/$kind"
	sed -n 's/^note: /    /p' "$log" >&2
	say "    $name: done in $(span $((SECONDS - start)))"
	prune "$kind"
}

# cargo tells how far it is, though the log is no terminal.
builder() {
	CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=120 \
		"$VM/build" --builder "$1" "$tmp" "${@:2}" >"$log" 2>&1 </dev/null
}

prune() {
	local old
	# Left by interrupted builds: no process holds the lock.
	for old in "$CACHE/.tmp-$1"-*; do
		if [ -e "$old" ] && flock -n "$CACHE/.lock-${old##*/.tmp-}" true; then
			remove "$old"
		fi
	done
	# The names are ours: no white space.
	# shellcheck disable=SC2012
	ls -dt "$CACHE/$1"-???????????????? 2>/dev/null | tail -n +$((${KEEP[$1]:-2} + 1)) | while read -r old; do
		remove "$old"
		rm -f "$CACHE/log/${old##*/}"
	done
}

# The prefix of a command that root must run.
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

# The files of the Debian root are root's, all others the user's.
remove() {
	[ -e "$1" ] || return 0
	case ${1##*/} in
	root-* | .tmp-root-*) as_root rm -rf --one-file-system "$1" ;;
	*) rm -rf "$1" ;;
	esac
}
