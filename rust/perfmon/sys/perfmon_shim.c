// SPDX-License-Identifier: GPL-2.0-only
#include <linux/anon_inodes.h>
#include <linux/build_bug.h>
#include <linux/capability.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/notifier.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/reboot.h>
#include <linux/suspend.h>
#include <linux/topology.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>

#include <asm/apic.h>
#include <asm/extable_fixup_types.h>
#include <asm/msr.h>
#include <asm/nmi.h>
#include <asm/processor.h>

#include "pebs.h"
#include "perfmon_shim.h"

/* cpu/msr.rs repeats these numbers, since Rust has no binding for the macros. */
static_assert(EX_TYPE_WRMSR == 8);
static_assert(EX_TYPE_RDMSR == 9);

static void __percpu *areas;

int perfmon_percpu_alloc(size_t size, size_t align)
{
	areas = __alloc_percpu(size, align);
	return areas ? 0 : -ENOMEM;
}

void perfmon_percpu_free(void)
{
	free_percpu(areas);
	perfmon_pebs_free();
}

void *perfmon_percpu_of(unsigned int cpu)
{
	return per_cpu_ptr(areas, cpu);
}

/* For a caller that can't leave its CPU. */
void *perfmon_percpu_here(void)
{
	return raw_cpu_ptr(areas);
}

void *perfmon_pin(void)
{
	preempt_disable();
	return this_cpu_ptr(areas);
}

void perfmon_unpin(void)
{
	preempt_enable();
}

void *perfmon_irqs_off(void)
{
	lockdep_assert_irqs_enabled();
	local_irq_disable();
	return raw_cpu_ptr(areas);
}

void perfmon_irqs_on(void)
{
	local_irq_enable();
}

int perfmon_rdmsr_safe(u32 msr, u64 *value)
{
	return rdmsrq_safe(msr, value);
}

int perfmon_wrmsr_safe(u32 msr, u64 value)
{
	return wrmsrq_safe(msr, value);
}

bool perfmon_same_core(unsigned int a, unsigned int b)
{
	return cpumask_test_cpu(b, topology_sibling_cpumask(a));
}

bool perfmon_may_have_sibling(unsigned int cpu)
{
	return cpu_smt_possible() || cpumask_weight(topology_sibling_cpumask(cpu)) > 1;
}

bool perfmon_same_package(unsigned int a, unsigned int b)
{
	if (boot_cpu_data.x86_vendor == X86_VENDOR_INTEL)
		return cpumask_test_cpu(b, topology_die_cpumask(a));
	return cpumask_test_cpu(b, topology_core_cpumask(a));
}

bool perfmon_reserve_counter(u32 msr)
{
	return reserve_perfctr_nmi(msr);
}

bool perfmon_reserve_select(u32 msr)
{
	return reserve_evntsel_nmi(msr);
}

void perfmon_release_counter(u32 msr)
{
	release_perfctr_nmi(msr);
}

void perfmon_release_select(u32 msr)
{
	release_evntsel_nmi(msr);
}

int perfmon_allow_kernel(void)
{
	return perf_allow_kernel();
}

const struct cred *perfmon_current_cred(void)
{
	return current_cred();
}

bool perfmon_is_capable(const struct cred *cred)
{
	return cred->user_ns == &init_user_ns &&
	       (cap_raised(cred->cap_effective, CAP_PERFMON) ||
		cap_raised(cred->cap_effective, CAP_SYS_ADMIN));
}

int perfmon_copy_from_user_16(void *to, unsigned long from)
{
	const u64 __user *user = (const u64 __user *)from;
	u64 *words = to;

	might_fault();
	if (!user_read_access_begin(user, 16))
		return -EFAULT;
	unsafe_get_user(words[0], &user[0], fault);
	unsafe_get_user(words[1], &user[1], fault);
	user_read_access_end();
	return 0;
fault:
	user_read_access_end();
	return -EFAULT;
}

int perfmon_copy_to_user_16(unsigned long to, const void *from)
{
	u64 __user *user = (u64 __user *)to;
	const u64 *words = from;

	might_fault();
	if (!user_write_access_begin(user, 16))
		return -EFAULT;
	unsafe_put_user(words[0], &user[0], fault);
	unsafe_put_user(words[1], &user[1], fault);
	user_write_access_end();
	return 0;
fault:
	user_write_access_end();
	return -EFAULT;
}

int perfmon_copy_struct(void *to, size_t size, unsigned long from,
			size_t from_size)
{
	return copy_struct_from_user(to, size, (const void __user *)from,
				     from_size);
}

int perfmon_get_u32(u32 *to, unsigned long from)
{
	return get_user(*to, (const u32 __user *)from);
}

int perfmon_put_u32(unsigned long to, u32 value)
{
	return put_user(value, (u32 __user *)to);
}

int perfmon_put_words(unsigned long to, const u64 *words, size_t count)
{
	u64 __user *user = (u64 __user *)to;
	size_t n;

	might_fault();
	if (!user_write_access_begin(user, count * sizeof(*user)))
		return -EFAULT;
	for (n = 0; n < count; n++)
		unsafe_put_user(words[n], &user[n], fault);
	user_write_access_end();
	return 0;
fault:
	user_write_access_end();
	return -EFAULT;
}

/*
 * A program may ask for gigabytes. Its own cgroup is charged, and the allocation
 * fails rather than wake the OOM killer.
 */
void *perfmon_buffer_alloc(size_t size)
{
	return __vmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN |
			 __GFP_RETRY_MAYFAIL);
}

void perfmon_buffer_free(void *start)
{
	vfree(start);
}

int perfmon_open_anonymous(const void *operations, void *data)
{
	return anon_inode_getfd("[perfmon]", operations, data, O_RDONLY | O_CLOEXEC);
}

struct file *perfmon_anonymous_file(const void *operations, void *data)
{
	struct file *file = anon_inode_getfile("[perfmon_event]", operations, data, O_RDWR);

	/*
	 * Lets io_uring read at once: a read waits only while another event is
	 * opened in the same group, so io_uring need not poll first.
	 */
	if (!IS_ERR(file))
		file->f_mode |= FMODE_NOWAIT;
	return file;
}

bool perfmon_is_file_of(struct file *file, const void *operations)
{
	return file->f_op == operations;
}

void perfmon_area_keep_to_program(struct vm_area_struct *area)
{
	vm_flags_set(area, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
}

static int (*nmi_handler)(void *area, struct pt_regs *regs);

/* Finds the area here: in Rust this would take one more call. */
static int handle_nmi(unsigned int type, struct pt_regs *regs)
{
	return nmi_handler(raw_cpu_ptr(areas), regs);
}

static struct nmiaction action = {
	.list = LIST_HEAD_INIT(action.list),
	.handler = handle_nmi,
	.name = "perfmon",
	/* Runs before the handler of perf, which clears overflows of counters it does not know. */
	.flags = NMI_FLAG_FIRST,
};

int perfmon_nmi_register(int (*handler)(void *area, struct pt_regs *regs))
{
	nmi_handler = handler;
	return __register_nmi_handler(NMI_LOCAL, &action);
}

void perfmon_nmi_unregister(void)
{
	unregister_nmi_handler(NMI_LOCAL, action.name);
}

/*
 * Calls the APIC driver itself, since modules can't make the static calls of
 * apic_read() and apic_write().
 */
u32 perfmon_lvtpc_read(void)
{
	return apic->read(APIC_LVTPC);
}

void perfmon_lvtpc_write(u32 value)
{
	apic->write(APIC_LVTPC, value);
}

static DEFINE_PER_CPU(struct hrtimer, timers);
static u64 (*timer_tick)(void);

static enum hrtimer_restart timer_event(struct hrtimer *timer)
{
	u64 ns = timer_tick();

	if (!ns)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(ns));
	return HRTIMER_RESTART;
}

void perfmon_timers_init(u64 (*tick)(void))
{
	unsigned int cpu;

	timer_tick = tick;
	for_each_possible_cpu(cpu)
		hrtimer_setup(per_cpu_ptr(&timers, cpu), timer_event,
			      CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
}

u64 perfmon_tick_ns(void)
{
	return TICK_NSEC;
}

void perfmon_timer_start(u64 ns)
{
	hrtimer_start(this_cpu_ptr(&timers), ns_to_ktime(ns),
		      HRTIMER_MODE_REL_PINNED_HARD);
}

void perfmon_timer_stop(void)
{
	hrtimer_cancel(this_cpu_ptr(&timers));
}

static void (*power_down)(void);
static void (*power_up)(void);

static int pm_event(struct notifier_block *block, unsigned long event, void *data)
{
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		power_down();
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		power_up();
		break;
	}
	return NOTIFY_DONE;
}

static int reboot_event(struct notifier_block *block, unsigned long event, void *data)
{
	power_down();
	return NOTIFY_DONE;
}

static struct notifier_block pm_block = { .notifier_call = pm_event };
static struct notifier_block reboot_block = { .notifier_call = reboot_event };

int perfmon_power_register(void (*down)(void), void (*up)(void))
{
	int err;

	power_down = down;
	power_up = up;
	err = register_pm_notifier(&pm_block);
	if (err)
		return err;
	err = register_reboot_notifier(&reboot_block);
	if (err)
		unregister_pm_notifier(&pm_block);
	return err;
}

void perfmon_power_unregister(void)
{
	unregister_reboot_notifier(&reboot_block);
	unregister_pm_notifier(&pm_block);
}
