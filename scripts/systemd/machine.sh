# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Machines with systemd, which boot-image has prepared. Tests source this file after cache.sh.

# shellcheck source=SCRIPTDIR/../../selftests/vm/machine.sh
. "$VM/machine.sh"

# boot_machine KERNEL MEMORY : boots $run/initrd, and returns the exit code of the test in it. The machine
# is killed after TIMEOUT seconds (3600), which is long because the waits of a test add up on a busy host.
boot_machine() {
	local log=$run/kernel.log
	# qemu_command of machine.sh reads these variables.
	# shellcheck disable=SC2034
	local k kernel=$1 accel=tcg cpu=intel smp=2 mem=$2 x2apic="" qemu_dir="" icount="" rr="" trace="" \
		append="rdinit=/usr/lib/systemd/systemd systemd.firstboot=off systemd.show_status=no"
	# shellcheck disable=SC2034
	k=$("$VM/build" "kernel-$kernel")
	rm -f "$run/code"
	qemu_command
	timeout --foreground --kill-after=5 "${TIMEOUT:-3600}" "${qemu[@]}" </dev/null 2> >(grep -v "TCG doesn't support requested feature" >&2) || true
	if [ ! -s "$run/code" ]; then
		tail -n 60 "$log"
		die "The machine with the kernel $kernel did not report an exit code: its log ends above."
	fi
	return "$(tr -cd 0-9 <"$run/code")"
}
