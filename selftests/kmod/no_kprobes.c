// SPDX-License-Identifier: GPL-2.0-only
/*
 * While this module is loaded, register_kprobes() fails for all other modules: as in a kernel
 * without CONFIG_KPROBES, or with another error.
 */
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/ptrace.h>

static int error = -EOPNOTSUPP;
module_param(error, int, 0444);
MODULE_PARM_DESC(error, "The result of register_kprobes()");

static int refuse(struct kprobe **probes, int number)
{
	return error;
}

/* Makes the caller of register_kprobes() call refuse() instead. */
static int redirect_to_refuse(struct kprobe *probe, struct pt_regs *regs)
{
	instruction_pointer_set(regs, (unsigned long)refuse);
	return 1;
}

/* With a post handler, the probe is not optimized to a jump, which could not redirect the call. */
static void unused_post_handler(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe = {
	.symbol_name = "register_kprobes",
	.pre_handler = redirect_to_refuse,
	.post_handler = unused_post_handler,
};

static int __init no_kprobes_init(void)
{
	return register_kprobe(&probe);
}

static void __exit no_kprobes_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(no_kprobes_init);
module_exit(no_kprobes_exit);
MODULE_DESCRIPTION("A kernel without kprobes for other modules, for tests");
MODULE_LICENSE("GPL");
