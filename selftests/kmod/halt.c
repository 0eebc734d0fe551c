// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/halt: a write of a number N halts the CPU N times, by STI and HLT as the idle loop does,
 * each time with an interrupt pending. Meanwhile perf samples the kernel's instructions.
 *
 * STI lets no interrupt come before the HLT that follows it, so that the interrupt ends the halt.
 * After an NMI between the two, the interrupt would come before the HLT, and nothing would end the
 * halt. `between` counts such NMIs.
 */
#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/kstrtox.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/perf_event.h>
#include <linux/ptrace.h>
#include <linux/smp.h>

/* Instructions of a sample: a prime, so that each instruction of a halt has its turn. */
#define PERIOD 997

/* The address of HLT. */
static unsigned long halt_ip;

static unsigned long between, samples;
module_param(between, ulong, 0444);
MODULE_PARM_DESC(between, "Samples that perf took between STI and HLT");
module_param(samples, ulong, 0444);
MODULE_PARM_DESC(samples, "All samples");

static void interrupt(struct irq_work *work)
{
}

static DEFINE_IRQ_WORK(pending, interrupt);

static noinline void halt_once(void)
{
	local_irq_disable();
	irq_work_queue(&pending);
	asm volatile("lea 1f(%%rip), %%rax\n"
		     "mov %%rax, %0\n"
		     "sti\n"
		     "1: hlt" : "=m" (halt_ip) : : "rax", "memory");
}

static void take_sample(struct perf_event *event, struct perf_sample_data *data,
			struct pt_regs *regs)
{
	samples++;
	if (instruction_pointer(regs) == halt_ip)
		between++;
}

static ssize_t halt_write(struct file *file, const char __user *from, size_t size, loff_t *offset)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.size = sizeof(attr),
		.sample_period = PERIOD,
		.exclude_user = 1,
		.pinned = 1,
	};
	struct perf_event *event;
	unsigned long n;
	int err = kstrtoul_from_user(from, size, 0, &n);

	if (err)
		return err;
	event = perf_event_create_kernel_counter(&attr, -1, current, take_sample, NULL);
	if (IS_ERR(event))
		return PTR_ERR(event);
	while (n--)
		halt_once();
	perf_event_release_kernel(event);
	return size;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.write = halt_write,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "halt",
	.fops = &operations,
};

module_misc_device(device);
MODULE_DESCRIPTION("Halts beside the interrupts of a counter, for tests");
MODULE_LICENSE("GPL");
