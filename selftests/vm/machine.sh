# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Converts the options of `run` to arguments for QEMU and the kernel. `run` sources this file, and
# the functions read its variables.
# shellcheck disable=SC2154

# Alder Lake's model number, for which Linux has two kinds of cores.
ALDER_LAKE=Skylake-Client,pmu=on,tcg-pcid=on,model=151

# QEMU's models by short names. Each except `none` has a PMU; core and atom are the cores of a
# hybrid processor.
declare -A MODELS=([intel]="Skylake-Client,pmu=on,tcg-pcid=on" [amd]="EPYC-Genoa,pmu=on,tcg-pcid=on" [none]="Skylake-Client"
	[core]="$ALDER_LAKE,pmu-kind=core" [atom]="$ALDER_LAKE,pmu-kind=atom")

# qemu_model KIND : prints QEMU's model and properties: for intel,pmu-width=24 that is
# Skylake-Client,pmu=on,tcg-pcid=on,pmu-width=24.
qemu_model() {
	local name=${1%%,*}
	printf '%s\n' "${MODELS[$name]-$name}${1#"$name"}"
}

# qemu_cpus KINDS COUNT [PROPERTIES] : sets `cpu_arguments`, QEMU's arguments for COUNT CPUs.
# KINDS is one kind for all CPUs, or A+B: the first CPU is of kind A, all others are of kind
# B.
qemu_cpus() {
	local first=${1%%+*} others=${1#*+} count=$2 properties=${3-} model i
	if [[ $1 != *+* ]]; then
		cpu_arguments=(-smp "$count" -cpu "$(qemu_model "$first")$properties")
		return
	fi
	if [[ -z $first || -z $others || $others = *+* || $count -lt 2 ]]; then
		die "run: --cpu A+B needs two kinds of CPU, and --smp 2 at least"
	fi
	# QEMU starts with the first CPU alone. The others are devices in sockets of their own,
	# which may be of another model.
	cpu_arguments=(-smp "1,maxcpus=$count,sockets=$count" -cpu "$(qemu_model "$first")$properties")
	model=$(qemu_model "$others")
	for ((i = 1; i < count; i++)); do
		cpu_arguments+=(-device "${model%%,*}-x86_64-cpu${model#"${model%%,*}"}$properties,socket-id=$i,core-id=0,thread-id=0")
	done
}

# host_pmu : succeeds if the host's own PMU can be used: KVM works, and gives a PMU to its guests.
# If the host is a guest itself, it may be unable to do so.
host_pmu() {
	grep -qE '^flags.* (arch_perfmon|perfctr_core)( |$)' /proc/cpuinfo &&
		[ -r /dev/kvm ] && [ -w /dev/kvm ] &&
		[ "$(cat /sys/module/kvm/parameters/enable_pmu 2>/dev/null)" = Y ] &&
		command -v qemu-system-x86_64 >/dev/null
}

# kernel_arguments : prints the kernel's command line.
kernel_arguments() {
	printf 'console=ttyS0 panic=-1 nmi_watchdog=0 unknown_nmi_panic=1 oops=panic ignore_loglevel kunit.autorun=0'
	# On a busy host the emulated timer may be too late for the kernel's check at boot.
	printf ' no_timer_check'
	# On a busy host the kernel could stop trusting the TSC, and times would be coarse.
	printf ' tsc=reliable'
	# On a busy host a CPU may stand still, and real-time programs of the tests keep RCU's thread
	# waiting: after 21 s, the default, that would be a complaint.
	printf ' rcupdate.rcu_cpu_stall_timeout=120'
	# While the kernel tests at boot whether there are five levels of page tables, KASAN would
	# report wild accesses in interrupts.
	[ "$kernel" != debug ] || printf ' no5lvl'
	[ -z "$icount" ] || printf ' nokaslr norandmaps'
	printf ' %s' "$append"
}

# qemu_command : sets `qemu` to the command line of the machine. $run has the files of this
# run, $k the kernel.
qemu_command() {
	local q
	if [ "$accel" = kvm ]; then
		qemu_cpus "host,pmu=on${cpu#"${cpu%%,*}"}" "$smp"
		qemu=(qemu-system-x86_64 -accel kvm)
	else
		qemu_cpus "$cpu" "$smp" "${x2apic:+,x2apic=on}"
		q=${qemu_dir:-$("$VM/build" qemu)}
		qemu=("$q/qemu-system-x86_64" -L "$q/share" -accel tcg)
	fi
	qemu+=("${cpu_arguments[@]}" -machine q35 -m "$mem" -display none -nodefaults -no-reboot
		-kernel "$k/linux/arch/x86/boot/bzImage" -initrd "$run/initrd" -append "$(kernel_arguments)"
		-chardev "file,id=log,path=$log,append=on" -serial chardev:log
		# Uses stdio also for a file, because QEMU would truncate a file that it opens
		# itself.
		-chardev "stdio,id=tty,signal=off" -serial chardev:tty
		-chardev "file,id=code,path=$run/code,append=on" -serial chardev:code)
	[ -z "$icount" ] || qemu+=(-icount "shift=0,sleep=off${rr:+,rr=${rr%%:*},rrfile=${rr#*:}}" -rtc "base=2026-01-01T00:00:00,clock=vm" -seed 1)
	[ -z "$x2apic" ] || qemu+=(-device "intel-iommu,intremap=on,eim=on")
	[ -z "$trace" ] || qemu+=(-trace "x86_pmu_*,file=$trace")
}

# monitor_command : adds QEMU's monitor to `qemu`, and opens it for writing as `commands`. Its answers
# are in the file $answers.
monitor_command() {
	answers=$run/monitor.log
	: >"$answers"
	mkfifo "$run/monitor"
	# The FIFO is opened for reading, too, so that QEMU does not see an end of file.
	exec {commands}<>"$run/monitor"
	qemu+=(-chardev "file,id=monitor,path=$answers,input-path=$run/monitor" -mon monitor)
}

# start_qemu SECONDS ARGUMENT... : starts QEMU as `pid`. It ends after SECONDS and with this script at
# the latest; the process `alarm`, if there is one, ends with this script, too.
start_qemu() {
	timeout --foreground --kill-after=5 "$1" "${qemu[@]}" "${@:2}" </dev/null {commands}>&- &
	pid=$!
	trap 'kill ${pid:+"$pid"} ${alarm:+"$alarm"} 2>/dev/null || true; rm -rf "$run"' EXIT
}

# run_once : runs the machine. If it takes longer than $timeout, the state of its CPUs and their
# pending interrupts are added to the kernel's log.
run_once() {
	local commands answers status=0 apic
	monitor_command
	# QEMU gets some seconds more, for the answers of the monitor.
	start_qemu $((timeout + 30))
	sleep "$timeout" {commands}>&- &
	alarm=$!
	wait -n "$pid" "$alarm" || status=$?
	if ! kill -0 "$alarm" 2>/dev/null; then
		alarm=""
		echo 'info registers -a' >&"$commands"
		for ((apic = 0; apic < ${smp%%,*}; apic++)); do
			echo "info lapic $apic" >&"$commands"
		done
		wait_for_answer 'VM status' 'info status'
		kill "$pid" 2>/dev/null
		wait "$pid" || true
		pid=""
		# Leaves out the prompts and the echoes of the questions.
		grep -av '^(qemu)' "$answers" >"$run/answers" || true
		cat "$run/answers" >>"$log"
		return 124
	fi
	kill "$alarm"
	# Forgets both PIDs, because other processes may get them.
	alarm="" pid=""
	return "$status"
}

# run_restored : runs the machine in several QEMUs, one after the other: after $restore seconds a
# QEMU saves the machine's state, and the next QEMU continues from this state. The machine's memory
# is a file.
run_restored() {
	local commands answers status=0 times=0 incoming=() end=$((SECONDS + timeout))
	monitor_command
	qemu+=(-object "memory-backend-file,id=ram,size=${mem}M,mem-path=$run/ram,share=on" -machine memory-backend=ram
		# The restored machine runs at once, without a command of the monitor's.
		-global migration.store-global-state=off)
	while [ "$SECONDS" -lt "$end" ]; do
		: >"$answers"
		start_qemu $((end - SECONDS)) "${incoming[@]}"
		echo 'migrate_set_capability x-ignore-shared on' >&"$commands"
		[ "$times" = 0 ] || echo "migrate_incoming file:$run/state" >&"$commands"
		# A machine can't be saved while it is still being restored.
		wait_for_answer 'VM status: running' 'info status'
		sleep "$restore"
		printf 'stop\nmigrate -d file:%s\n' "$run/state" >&"$commands"
		wait_for_answer 'status: (completed|failed)' 'info migrate'
		echo quit >&"$commands"
		wait "$pid" || status=$?
		pid=""
		if ! grep -q 'status: completed' "$answers"; then
			grep -a 'status: failed' "$answers" >&2
			echo "The machine was saved and restored $times times." >&2
			return "$status"
		fi
		incoming=(-incoming defer)
		times=$((times + 1))
	done
	return 124
}

# wait_for_answer REGEX COMMAND : repeats COMMAND until the answer matches REGEX, or QEMU has ended.
wait_for_answer() {
	until grep -qE "$1" "$answers" || ! kill -0 "$pid" 2>/dev/null; do
		echo "$2" >&"$commands"
		sleep 0.1
	done
}
