// SPDX-License-Identifier: GPL-2.0-only
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "vdso.h"

/* Tables of the dynamic section. The addresses in the section are relative to the first segment. */
struct dynamic_tables {
	const ElfW(Sym) *symbols;
	const char *strings;
	const uint32_t *hash;
};

static struct dynamic_tables tables_of(const ElfW(Dyn) *dynamic, uintptr_t base)
{
	struct dynamic_tables t = { NULL, NULL, NULL };

	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		const void *p = (const void *)(base + dynamic->d_un.d_ptr);

		if (dynamic->d_tag == DT_SYMTAB)
			t.symbols = p;
		else if (dynamic->d_tag == DT_STRTAB)
			t.strings = p;
		else if (dynamic->d_tag == DT_GNU_HASH)
			t.hash = p;
	}
	return t;
}

/* Searches all chains of the hash table for symbol @name. Returns its address, or 0. */
static uintptr_t look_up(const struct dynamic_tables *t, const char *name)
{
	const uint32_t buckets = t->hash[0], first = t->hash[1];
	const uint32_t *bucket = t->hash + 4 + t->hash[2] * (sizeof(uintptr_t) / 4);
	const uint32_t *chain = bucket + buckets;
	uint32_t i, at;

	for (i = 0; i < buckets; i++) {
		for (at = bucket[i]; at >= first; at++) {
			if (!strcmp(t->strings + t->symbols[at].st_name, name))
				return t->symbols[at].st_value;
			if (chain[at - first] & 1)
				break;
		}
	}
	return 0;
}

struct vdso_image {
	const ElfW(Ehdr) *header;
	const ElfW(Phdr) *segment;
	const ElfW(Dyn) *dynamic;
};

void *vdso_find(const char *name, struct vdso *vdso)
{
	uintptr_t begin = getauxval(AT_SYSINFO_EHDR), base = begin, value;
	struct vdso_image e = { .header = (const void *)begin };
	struct dynamic_tables t;
	int i;

	if (!begin)
		return NULL;
	e.segment = (const void *)(begin + e.header->e_phoff);
	for (i = 0; i < e.header->e_phnum; i++, e.segment++) {
		if (e.segment->p_type == PT_LOAD) {
			base = begin + e.segment->p_offset - e.segment->p_vaddr;
			if (vdso)
				*vdso = (struct vdso) { begin, begin + e.segment->p_memsz };
		} else if (e.segment->p_type == PT_DYNAMIC) {
			e.dynamic = (const void *)(begin + e.segment->p_offset);
		}
	}
	if (!e.dynamic)
		return NULL;
	t = tables_of(e.dynamic, base);
	if (!t.symbols || !t.strings || !t.hash)
		return NULL;
	value = look_up(&t, name);
	return value ? (void *)(base + value) : NULL;
}
