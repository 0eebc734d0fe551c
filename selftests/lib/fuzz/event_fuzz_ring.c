// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <string.h>

#include "event_fuzz.h"
#include "event_fuzz_parts.h"
#include "event_ring.h"

#define PAGE	4096UL

/* Returns an unused piece, or NULL if fewer than @n pieces are unused. */
static struct mapping_piece *free_piece(struct event_fuzz *f, int n)
{
	int i;

	for (i = PIECES - 1; i >= 0; i--) {
		if (!f->piece[i].at && !--n)
			return &f->piece[i];
	}
	return NULL;
}

bool fuzz_map(struct event_fuzz *f, const struct fuzz_step *s)
{
	struct model_event *e = &f->model.event[s->slot];
	size_t pages = 1 + (s->value % 8 ? (1UL << s->value / 8 % 6) / 2 : s->value / 8 % 20);
	size_t first = s->value / 512 % 10 ? 0 : s->value / 5120 % 3;
	bool shared = s->value / 20000 % 10, is_first = !e->mappings;
	struct mapping_piece *piece = free_piece(f, 1);
	int prot, want, got = 0;
	void *p;

	switch (s->value / 200000 % 8) {
	case 0:
		prot = PROT_NONE;
		break;
	case 1 ... 2:
		prot = PROT_READ;
		break;
	case 3:
		prot = PROT_WRITE;
		break;
	default:
		prot = PROT_READ | PROT_WRITE;
	}
	if (!piece)
		return true;
	want = model_map(&f->model, s->slot, pages, first, shared);
	p = mmap(NULL, pages * PAGE, prot, shared ? MAP_SHARED : MAP_PRIVATE, f->fd[s->slot],
		 first * PAGE);
	if (p == MAP_FAILED)
		got = -errno;
	if (!fuzz_compare(f, MAP, "mmap", want, got))
		return false;
	if (got)
		return true;
	*piece = (struct mapping_piece) {
		.at = p,
		.pages = pages,
		.event = s->slot,
		.readable = prot & PROT_READ,
		.writable = prot & PROT_WRITE,
		.first = true,
		.whole = true,
	};
	if (is_first) {
		f->ring_writes[s->slot] = CLEAN;
		f->overwrites[s->slot] = !piece->writable;
	}
	return true;
}

bool fuzz_map_once(struct event_fuzz *f, int i)
{
	size_t pages = 1 + f->model.event[i].ring_pages;
	int want = model_map(&f->model, i, pages, 0, true), got = 0;
	void *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd[i], 0);

	if (p == MAP_FAILED)
		got = -errno;
	return fuzz_compare(f, MAP, "mmap", want, got);
}

/* Splits the entry of a mapping at page @at. Returns NULL if there is no unused piece. */
static struct mapping_piece *split_piece(struct event_fuzz *f, struct mapping_piece *p, size_t at)
{
	struct mapping_piece *rest = free_piece(f, 1);

	if (!rest)
		return NULL;
	*rest = *p;
	rest->at += at * PAGE;
	rest->pages -= at;
	rest->first = rest->whole = false;
	p->pages = at;
	p->whole = false;
	model_split(&f->model, p->event);
	return rest;
}

/*
 * Marks a piece as unused. Must be called as soon as the mapping has ended, because its end allows
 * other processes to open events.
 */
static void drop_piece(struct event_fuzz *f, struct mapping_piece *p)
{
	model_unmap(&f->model, p->event);
	fuzz_uncount_if_gone(f, p->event);
	p->at = NULL;
}

/* Unmaps all of a piece, or a part at its beginning, in its middle or at its end. */
static bool unmap(struct event_fuzz *f, struct mapping_piece *p, __u64 value)
{
	size_t from = 0, to = p->pages;
	struct mapping_piece *middle = p;
	char *at;
	int err;

	if (p->pages > 1 && value % 4) {
		from = value / 4 % p->pages;
		to = from + 1 + value / 1000 % (p->pages - from);
	}
	at = p->at + from * PAGE;
	if (!free_piece(f, 2))
		return true;
	if (from)
		middle = split_piece(f, p, from);
	if (to - from < middle->pages)
		split_piece(f, middle, to - from);
	err = munmap(at, (to - from) * PAGE) ? -errno : 0;
	drop_piece(f, middle);
	return fuzz_compare(f, UNMAP, "munmap", 0, err);
}

/* Shrinks or moves a piece, or tries to enlarge it. */
static bool remap(struct event_fuzz *f, struct mapping_piece *p, __u64 value)
{
	size_t size = p->pages * PAGE;
	struct mapping_piece *rest;
	char *to, *at;

	switch (value % 3) {
	case 0:
		if (p->pages < 2)
			return true;
		rest = split_piece(f, p, 1 + value / 3 % (p->pages - 1));
		if (!rest)
			return true;
		at = mremap(p->at, size, p->pages * PAGE, 0);
		drop_piece(f, rest);
		return fuzz_compare(f, REMAP, "mremap, smaller", 0, at == p->at ? 0 : -errno);
	case 1:
		at = mremap(p->at, size, size + PAGE, MREMAP_MAYMOVE);
		return fuzz_compare(f, REMAP, "mremap, larger", -EFAULT, at == MAP_FAILED ? -errno : 0);
	default:
		to = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		at = mremap(p->at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		if (at == to)
			p->at = at;
		return fuzz_compare(f, REMAP, "mremap, to another place", 0, at == to ? 0 : -errno);
	}
}

/* Changes the protection of a piece, or of its pages up to a random page. */
static bool protect(struct event_fuzz *f, struct mapping_piece *p, __u64 value)
{
	static const int prots[] = { PROT_NONE, PROT_READ, PROT_WRITE, PROT_READ | PROT_WRITE };
	int prot = prots[value % 4];
	bool readable = prot & PROT_READ, writable = prot & PROT_WRITE;
	size_t pages = value / 4 % 2 ? p->pages : 1 + value / 8 % p->pages;

	/* The kernel splits the mapping only if the protection differs. */
	if ((readable != p->readable || writable != p->writable) && pages < p->pages &&
	    !split_piece(f, p, pages))
		return true;
	p->readable = readable;
	p->writable = writable;
	return fuzz_compare(f, PROTECT, "mprotect", 0,
			 mprotect(p->at, pages * PAGE, prot) ? -errno : 0);
}

static bool write_junk(struct event_fuzz *f, struct mapping_piece *p, __u64 value)
{
	struct rng r = rng_seed(value);
	__u64 *words = (__u64 *)p->at;
	size_t count = p->pages * PAGE / sizeof(*words);
	int i;

	if (!p->writable)
		return true;
	if (rng_once_in(&r, 8)) {
		memset(p->at, rng_below(&r, 256), p->pages * PAGE);
	} else {
		for (i = 1 + rng_below(&r, 20); i; i--)
			words[rng_below(&r, count)] = rng_below(&r, ~0ULL);
	}
	f->ring_writes[p->event] = SPOILED;
	return fuzz_compare(f, JUNK, "junk", 0, 0);
}

/* Sets the tail to the head, which frees all space, or to a random position. */
static bool move_tail(struct event_fuzz *f, struct mapping_piece *p, __u64 value)
{
	struct perf_event_mmap_page *page = (void *)p->at;

	if (!p->writable || !p->readable || !p->first)
		return true;
	if (value & 1) {
		__atomic_store_n(&page->data_tail, page->data_head, __ATOMIC_RELEASE);
		if (f->ring_writes[p->event] == TAIL_MOVED)
			f->ring_writes[p->event] = CLEAN;
	} else {
		page->data_tail = value & 2 ? page->data_head + (__s16)(value >> 2) :
					      rng_below(&(struct rng) { value | 1 }, ~0ULL);
		if (f->ring_writes[p->event] == CLEAN)
			f->ring_writes[p->event] = TAIL_MOVED;
	}
	return fuzz_compare(f, TAIL, "tail", 0, 0);
}

static bool is_known(const struct event_record *record)
{
	const __u64 types = 1 << PERF_RECORD_LOST | 1 << PERF_RECORD_COMM | 1 << PERF_RECORD_EXIT |
			    1 << PERF_RECORD_THROTTLE | 1 << PERF_RECORD_UNTHROTTLE |
			    1 << PERF_RECORD_FORK | 1 << PERF_RECORD_READ | 1 << PERF_RECORD_SAMPLE |
			    1 << PERF_RECORD_SWITCH | 1 << PERF_RECORD_SWITCH_CPU_WIDE;

	return record->header.type < 64 && types >> record->header.type & 1;
}

/* Reads the records of a ring that only the kernel has written to. */
static bool drain_ring(struct event_fuzz *f, struct mapping_piece *p)
{
	const struct model_event *e = &f->model.event[p->event];
	static struct event_record record;
	struct event_ring ring = {
		.page = (void *)p->at,
		.data = (unsigned char *)p->at + PAGE,
		.size = (p->pages - 1) * PAGE,
	};
	int i;

	if (!p->whole || !p->readable || !p->writable || !ring.size || e->ring_owner != p->event ||
	    f->ring_writes[p->event] != CLEAN || f->overwrites[p->event] ||
	    e->attr.fields.write_backward)
		return true;
	for (i = 0; i < 200; i++) {
		__u64 tail = ring.page->data_tail;

		if (!event_ring_next(&ring, &record)) {
			/*
			 * Finding no record is correct at the end of the data; elsewhere, a record
			 * is missing.
			 */
			if (__atomic_load_n(&ring.page->data_head, __ATOMIC_ACQUIRE) == tail)
				break;
			if (event_ring_next(&ring, &record))
				continue;
			snprintf(f->difference, sizeof(f->difference), "no record at %llu of %llu",
				 tail, ring.page->data_head);
			return false;
		}
		__atomic_add_fetch(&f->counts->records, 1, __ATOMIC_RELAXED);
		if (!is_known(&record)) {
			snprintf(f->difference, sizeof(f->difference), "a record of type %u at %llu",
				 record.header.type, tail);
			return false;
		}
	}
	return fuzz_compare(f, DRAIN, "drain", 0, 0);
}

bool fuzz_use_mapping(struct event_fuzz *f, const struct fuzz_step *s)
{
	struct mapping_piece *p = NULL;
	int i;

	/* Choose a piece that is in use. */
	for (i = 0; i < PIECES && !p; i++) {
		p = &f->piece[(s->value + i) % PIECES];
		if (!p->at)
			p = NULL;
	}
	if (!p)
		return true;
	switch (s->action) {
	case UNMAP:
		return unmap(f, p, s->value / PIECES);
	case REMAP:
		return remap(f, p, s->value / PIECES);
	case PROTECT:
		return protect(f, p, s->value / PIECES);
	case JUNK:
		return write_junk(f, p, s->value / PIECES);
	case TAIL:
		return move_tail(f, p, s->value / PIECES);
	default:
		return drain_ring(f, p);
	}
}

void fuzz_unmap_all(struct event_fuzz *f)
{
	int i;

	for (i = 0; i < PIECES; i++) {
		struct mapping_piece *p = &f->piece[i];

		if (!p->at)
			continue;
		munmap(p->at, p->pages * PAGE);
		drop_piece(f, p);
	}
}
