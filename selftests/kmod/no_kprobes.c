// SPDX-License-Identifier: GPL-2.0-only
/*
 * While this is loaded no other module gets a kprobe by register_kprobes(), as in a
 * kernel without CONFIG_KPROBES.
 */
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/ptrace.h>

static int refuse(struct kprobe **probes, int number)
{
	return -EOPNOTSUPP;
}

/* The caller goes on in refuse(), which returns to where it was called. */
static int before_registering(struct kprobe *probe, struct pt_regs *regs)
{
	instruction_pointer_set(regs, (unsigned long)refuse);
	return 1;
}

/* With this the probe is not made a jump, which could not go elsewhere. */
static void after_registering(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe = {
	.symbol_name = "register_kprobes",
	.pre_handler = before_registering,
	.post_handler = after_registering,
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
