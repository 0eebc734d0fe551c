// SPDX-License-Identifier: GPL-2.0-only
/*
 * While this module is loaded, each NMI takes `rounds` rounds of a loop more, as under a hypervisor
 * that makes interrupts expensive.
 */
#include <linux/compiler.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include <asm/nmi.h>

static unsigned long rounds = 6000;
module_param(rounds, ulong, 0444);
MODULE_PARM_DESC(rounds, "Rounds of the loop, of a few instructions each");

static int waste_time(unsigned int type, struct pt_regs *regs)
{
	unsigned long n = rounds;

	while (n--)
		barrier();
	return NMI_DONE;
}

static int __init slow_nmi_init(void)
{
	return register_nmi_handler(NMI_LOCAL, waste_time, 0, "slow_nmi");
}

static void __exit slow_nmi_exit(void)
{
	unregister_nmi_handler(NMI_LOCAL, "slow_nmi");
}

module_init(slow_nmi_init);
module_exit(slow_nmi_exit);
MODULE_DESCRIPTION("Expensive NMIs, for tests");
MODULE_LICENSE("GPL");
