// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reports what programs map. The kernel reports mappings to its own events
 * only, by perf_event_mmap(), which it calls for each mapping even if there are
 * no such events. A kprobe on that function reports them to the module.
 */
#include <linux/build_bug.h>
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/hugetlb_inline.h>
#include <linux/irqflags.h>
#include <linux/kdev_t.h>
#include <linux/kprobes.h>
#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/ptrace.h>
#include <linux/string.h>

#include "perfmon_shim.h"

static void (*map_callback)(struct vm_area_struct *area);
static void (*exec_callback)(struct linux_binprm *program);

/*
 * Turns interrupts off: they are off if the probe is a breakpoint, but on if
 * the kernel has optimized it to a jump or a call.
 */
static int before_mmap(struct kprobe *probe, struct pt_regs *regs)
{
	unsigned long flags;

	local_irq_save(flags);
	map_callback((struct vm_area_struct *)regs_get_kernel_argument(regs, 0));
	local_irq_restore(flags);
	return 0;
}

/*
 * Called in execve(2) for programs of all formats, when the new credentials are known
 * and nothing of the program is mapped yet.
 */
static int before_new_exec(struct kprobe *probe, struct pt_regs *regs)
{
	unsigned long flags;

	local_irq_save(flags);
	exec_callback((struct linux_binprm *)regs_get_kernel_argument(regs, 0));
	local_irq_restore(flags);
	return 0;
}

static struct kprobe mmap_probe, exec_probe;
static struct kprobe *const probes[] = { &exec_probe, &mmap_probe };

static int register_probes(u32 flags)
{
	/* The probes are set up anew each time, since registration writes to the probes. */
	exec_probe = (struct kprobe){
		.symbol_name = "setup_new_exec",
		.pre_handler = before_new_exec,
		.flags = flags,
	};
	mmap_probe = (struct kprobe){
		.symbol_name = "perf_event_mmap",
		.pre_handler = before_mmap,
		.flags = flags,
	};
	return register_kprobes((struct kprobe **)probes, ARRAY_SIZE(probes));
}

int perfmon_mappings_check(void)
{
	/* A disabled probe is looked up, and changes nothing in the kernel's code. */
	int err = register_probes(KPROBE_FLAG_DISABLED);

	if (!err)
		perfmon_mappings_end();
	return err;
}

int perfmon_mappings_begin(void (*on_map)(struct vm_area_struct *area),
			   void (*on_exec)(struct linux_binprm *program))
{
	map_callback = on_map;
	exec_callback = on_exec;
	return register_probes(0);
}

void perfmon_mappings_end(void)
{
	unregister_kprobes((struct kprobe **)probes, ARRAY_SIZE(probes));
}

bool perfmon_mapping_is_executable(const struct vm_area_struct *area)
{
	return area->vm_flags & VM_EXEC;
}

/* Returns the name of a mapping without a file. */
static const char *name_of(struct vm_area_struct *area)
{
	const char *name = NULL;

	/*
	 * perf calls arch_vma_name(), too, which on x86 has no names for
	 * programs' mappings.
	 */
	if (area->vm_ops && area->vm_ops->name)
		name = area->vm_ops->name(area);
	if (name)
		return name;
	if (vma_is_initial_heap(area))
		return "[heap]";
	return vma_is_initial_stack(area) ? "[stack]" : "//anon";
}

/*
 * Does what perf_event_mmap_event() does, with the same size of buffer and the
 * same limit.
 */
size_t perfmon_mapping_describe(struct vm_area_struct *area, struct perfmon_mapping *to,
				char name[4096])
{
	const size_t limit = PATH_MAX - sizeof(u64);
	const vm_flags_t flags = area->vm_flags;
	struct file *file = area->vm_file;
	const struct inode *inode;
	const char *name_text;
	size_t size;

	static_assert(PATH_MAX == 4096);
	*to = (struct perfmon_mapping){
		.start = area->vm_start,
		.size = area->vm_end - area->vm_start,
		.offset = (u64)area->vm_pgoff << PAGE_SHIFT,
		.protection = (flags & VM_READ ? PROT_READ : 0) |
			      (flags & VM_WRITE ? PROT_WRITE : 0) |
			      (flags & VM_EXEC ? PROT_EXEC : 0),
		.flags = (flags & VM_MAYSHARE ? MAP_SHARED : MAP_PRIVATE) |
			 (flags & VM_LOCKED ? MAP_LOCKED : 0) |
			 (is_vm_hugetlb_page(area) ? MAP_HUGETLB : 0),
	};
	name_text = file ? d_path(file_user_path(file), name, limit) : name_of(area);
	if (IS_ERR(name_text))
		name_text = "//toolong";
	else if (file) {
		inode = file_user_inode(file);
		to->major = MAJOR(inode->i_sb->s_dev);
		to->minor = MINOR(inode->i_sb->s_dev);
		to->inode = inode->i_ino;
		to->generation = inode->i_generation;
	}
	/*
	 * d_path() puts a path at the end of the buffer. Other names have 15
	 * characters at most.
	 */
	size = min(strlen(name_text), file ? limit : 15);
	memmove(name, name_text, size);
	memset(name + size, 0, sizeof(u64));
	return round_up(size + 1, sizeof(u64));
}
