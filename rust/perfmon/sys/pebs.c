// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory that the processor writes its samples to (PEBS): the DS area, and the
 * buffer that the DS area points to.
 *
 * The processor writes both at linear addresses, whatever program runs. With
 * page-table isolation, these have to be in the page tables of programs, too.
 * So the kernel maps a page for each CPU in all page tables, struct debug_store.
 * Its first bytes are always the DS area. With page-table isolation, the buffer
 * is the rest of the page; without it, the module allocates pages for the buffer.
 *
 * struct debug_store belongs to perf, which does not use it while the module has
 * reserved the counters. With a place-holder, which is an event of perf, perf has
 * set the structure up, and events of perf that wait for the counters use it after
 * the module. So the module restores the words that it changes.
 */
#include <linux/align.h>
#include <linux/atomic.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <asm/cpu_entry_area.h>
#include <asm/cpufeature.h>
#include <asm/intel_ds.h>
#include <asm/processor.h>
#include <asm/special_insns.h>

#include "pebs.h"
#include "perfmon_shim.h"

/* 64 KiB, as perf's. */
#define BUFFER_ORDER	4

static DEFINE_PER_CPU(unsigned long, buffer);

/* The words of struct debug_store that the module changes. */
struct pebs_words {
	u64 base;
	u64 index;
	u64 maximum;
	u64 threshold;
	u64 reset[sizeof_field(struct debug_store, pebs_event_reset) / sizeof(u64)];
};

/* The values that these words had before perfmon_pebs_begin(), by perf. */
static DEFINE_PER_CPU(struct pebs_words, saved_words);

static struct debug_store *debug_store(void)
{
	return &get_cpu_entry_area(raw_smp_processor_id())->cpu_debug_store;
}

bool perfmon_pebs_has_area(void)
{
	/* The kernel maps the page for Intel's processors only. */
	return IS_ENABLED(CONFIG_CPU_SUP_INTEL) &&
	       boot_cpu_data.x86_vendor == X86_VENDOR_INTEL;
}

bool perfmon_vmx_is_on(void)
{
	return native_read_cr4() & X86_CR4_VMXE;
}

/*
 * Takes no lock: a holder of the lock that does not get to run would keep all other
 * callers waiting.
 */
static int alloc_buffer(unsigned int cpu)
{
	unsigned long new;
	struct page *page;

	if (READ_ONCE(per_cpu(buffer, cpu)))
		return 0;
	page = alloc_pages_node(cpu_to_node(cpu), GFP_KERNEL | __GFP_ZERO,
				BUFFER_ORDER);
	if (!page)
		return -ENOMEM;
	new = (unsigned long)page_address(page);
	if (cmpxchg(&per_cpu(buffer, cpu), 0, new))
		free_pages(new, BUFFER_ORDER);
	return 0;
}

int perfmon_pebs_alloc(void)
{
	unsigned int cpu;
	int error;

	if (boot_cpu_has(X86_FEATURE_PTI))
		return 0;
	for_each_possible_cpu(cpu) {
		error = alloc_buffer(cpu);
		if (error)
			return error;
	}
	return 0;
}

void perfmon_pebs_free(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		free_pages(per_cpu(buffer, cpu), BUFFER_ORDER);
		per_cpu(buffer, cpu) = 0;
	}
}

/*
 * Returns the address of the first record in the page, aligned so that records
 * cross few cache lines.
 */
static unsigned long first_record(struct debug_store *ds)
{
	return ALIGN((unsigned long)(ds->pebs_event_reset + ARRAY_SIZE(ds->pebs_event_reset)), 64);
}

static void save_words(const struct debug_store *ds, struct pebs_words *saved)
{
	saved->base = ds->pebs_buffer_base;
	saved->index = ds->pebs_index;
	saved->maximum = ds->pebs_absolute_maximum;
	saved->threshold = ds->pebs_interrupt_threshold;
	memcpy(saved->reset, ds->pebs_event_reset, sizeof(saved->reset));
}

static void restore_words(struct debug_store *ds, const struct pebs_words *saved)
{
	ds->pebs_buffer_base = saved->base;
	ds->pebs_index = saved->index;
	ds->pebs_absolute_maximum = saved->maximum;
	ds->pebs_interrupt_threshold = saved->threshold;
	memcpy(ds->pebs_event_reset, saved->reset, sizeof(saved->reset));
}

u64 perfmon_pebs_begin(u64 *start, u64 *end)
{
	struct debug_store *ds = debug_store();
	unsigned long own_buffer = __this_cpu_read(buffer);

	save_words(ds, this_cpu_ptr(&saved_words));

	if (own_buffer) {
		*start = own_buffer;
		*end = own_buffer + (PAGE_SIZE << BUFFER_ORDER);
	} else {
		*start = first_record(ds);
		*end = (unsigned long)ds + PAGE_SIZE;
	}
	return (unsigned long)ds;
}

void perfmon_pebs_hide(void)
{
	struct debug_store *ds = debug_store();
	unsigned long start = first_record(ds);

	if (!__this_cpu_read(buffer))
		memset((void *)start, 0, (unsigned long)ds + PAGE_SIZE - start);
}

void perfmon_pebs_end(void)
{
	/*
	 * The records have data of programs, and other programs might be able
	 * to read the page.
	 */
	perfmon_pebs_hide();
	restore_words(debug_store(), this_cpu_ptr(&saved_words));
}
