// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "branch_snapshot.h"
#include "kselftest.h"

/* The bytes of the whole branch entries that fit into the BPF program's stack of 512 bytes. */
#define ROOM	(512 / sizeof(struct perf_branch_entry) * sizeof(struct perf_branch_entry))

static int bpf(enum bpf_cmd cmd, union bpf_attr *attr)
{
	int ret = syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	return ret < 0 ? -errno : ret;
}

int branch_snapshot_load(void)
{
	/* return bpf_get_branch_snapshot(stack, ROOM, 0); */
	static const struct bpf_insn program[] = {
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_1, 0, 0, -(int)ROOM },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, ROOM },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, 0 },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_branch_snapshot },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT,
		.insns = (uintptr_t)program,
		.insn_cnt = ARRAY_SIZE(program),
		.license = (uintptr_t)"GPL",
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

int branch_snapshot_take(int program)
{
	union bpf_attr attr = { .test.prog_fd = program };

	return bpf(BPF_PROG_TEST_RUN, &attr) ?: (int)attr.test.retval;
}
