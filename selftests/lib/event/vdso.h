/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The code that the kernel maps into each program.
 */
#ifndef SELFTESTS_VDSO_H
#define SELFTESTS_VDSO_H

#include <stdint.h>

struct vdso {
	uintptr_t begin, end;	/* of its memory */
};

/*
 * Finds the function @name of the vDSO, and sets @vdso if that is not NULL. NULL if
 * there is none.
 */
void *vdso_find(const char *name, struct vdso *vdso);

#endif
