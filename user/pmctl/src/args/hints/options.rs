// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `perf stat` and `perf record` of Linux 7.3, each with a value if it takes one.

pub(super) const STAT_OPTIONS: &str = "-a -A -B -C=0 -D=10 -d -e=cycles -G=x -I=100 -i -j -M=insn_per_cycle -n -o=x -p=1 -r=2 -S -t=1 -T \
    -v -x=, --affinity --all-cpus --all-kernel --all-user --append --big-num --cgroup=x --control=fd:3 --cpu=0 --cputype=core \
    --delay=10 --detailed --event=cycles --field-separator=, --filter=x --for-each-cgroup=x --hide-zero-events \
    --hybrid-merge --interval-clear --interval-count=2 --interval-print=100 --iostat --json-output --log-fd=2 \
    --metric-no-group --metric-no-merge --metric-no-threshold --metric-only --metrics=insn_per_cycle --no-aggr \
    --no-csv-summary --no-inherit --no-merge --null --output=x --per-cache --per-cluster --per-core --per-die --per-node \
    --per-socket --per-thread --percore-show-thread --pid=1 --pmu-filter=cpu --post=x --pre=x --quiet --record-tpebs \
    --repeat=2 --scale --smi-cost --summary --sync --table --td-level=1 --tid=1 --timeout=100 --topdown --tpebs-mode=mean \
    --transaction --verbose";

pub(super) const RECORD_OPTIONS: &str = "-a -b -B -c=1 -C=0 -d -D=1 -e=cycles -F=99 -F=max -g -G=x -i -I -j=any,u -k=mono -m=8 -N -n -o=x \
    -P -p=1 -q -R -r=1 -S -s -t=1 -T -u=root -v -W -z --affinity=node --aio --all-cgroups --all-cpus --all-kernel \
    --all-user --aux-sample --branch-any --branch-filter=any --buildid-all --buildid-mmap --call-graph=fp --cgroup=x \
    --clockid=mono --code-page-size --compression-level=1 --control=fd:3 --cpu=0 --data --data-page-size --debuginfod \
    --delay=1 --dry-run --event=cycles --exclude-perf --filter=x --freq=99 --group --intr-regs --kcore \
    --kernel-callchains --max-size=1M --mmap-flush=1 --namespaces --no-bpf-event --no-buffering --no-buildid \
    --no-buildid-cache --no-inherit --no-samples --num-thread-synthesize=1 --off-cpu --output=x --overwrite \
    --per-thread --phys-data --pid=1 --proc-map-timeout=1 --quiet --raw-samples --realtime=1 --running-time \
    --sample-cpu --sample-identifier --snapshot --stat --strict-freq --switch-events --switch-output \
    --switch-output=signal --switch-output=10s --switch-output-event=x --synth=no --tail-synthesize --threads --tid=1 \
    --timestamp --timestamp-boundary --timestamp-filename --transaction --uid=root --user-callchains --user-regs \
    --verbose --vmlinux=x --weight --data-mmap --latency --off-cpu-thresh=1 --sample-mem-info --setup-filter=pin \
    --switch-max-files=2 --mmap-pages=8";
