# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Reads the plans. Scripts that run them source this file, after cache.sh.
#
# A row of a plan has four fields with tabs between them; `-` is an empty field:
#
#   name      unique in its plan
#   tier      when the row runs: check, matrix, kernels, stress; soak; mutate
#   options   attributes, then options of selftests/vm/run
#   command   what runs in the guest
#
# Attributes:
#
#   host      the command runs on the host: a script in scripts/, or one with its path
#   needs=W   the row also needs the entry of `selftests/vm/build W`; W,W: two entries
#   slots=N   the row counts as N rows, of those that may run at the same time
#   alone     no other row may run beside this one
#   budget=N  the CPU seconds that the row may take (10 by default in the tier check):
#             `make check` prints the rows that took more
#   share=N   soak: the row's share of the minutes

# plan_rows FILE... : prints the rows, with exactly one tab between two fields.
plan_rows() {
	awk -F '\t+' -v OFS='\t' '
		/^(#|$)/ { next }
		$1 in line { printf "%s:%d: the row %s is in line %d, too\n", FILENAME, FNR, $1, line[$1] >"/dev/stderr"; exit 2 }
		{ line[$1] = FNR }
		NF != 4 { printf "%s:%d: %d fields; a row has 4\n", FILENAME, FNR, NF >"/dev/stderr"; exit 2 }
		{ print $1, $2, $3, $4 }' "$@"
}

# plan_require FILE NAME... : ends the script unless each name is a row of the plan.
plan_require() {
	local plan=$1 names name
	shift
	names=$(plan_rows "$plan" | cut -f 1)
	for name; do
		grep -qxF -- "$name" <<<"$names" || die "There is no row '$name' in $plan. There are:" \
			"$(paste -sd ' ' <<<"$names" | fold -s -w 78)"
	done
}

# attribute NAME DEFAULT OPTIONS : prints the value of the attribute; 1 if it has no value.
attribute() {
	local word
	# The options are split into words.
	# shellcheck disable=SC2086
	for word in ${3/#-}; do
		case $word in
		--*) break ;;
		"$1") echo 1 && return ;;
		"$1="*) echo "${word#*=}" && return ;;
		esac
	done
	echo "$2"
}

# run_options OPTIONS : prints the options without the attributes.
run_options() {
	case $1 in
	*--*) printf '%s\n' "--${1#*--}" ;;
	esac
}

# run_option NAME DEFAULT OPTIONS : prints the value of `--NAME` in the options.
run_option() {
	local word value=$2 take=
	# shellcheck disable=SC2086
	for word in $3; do
		[ -z "$take" ] || value=$word
		take=
		[ "$word" != "--$1" ] || take=1
	done
	printf '%s\n' "$value"
}
