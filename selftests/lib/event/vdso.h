/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The vDSO: code that the kernel maps into each program.
 */
#ifndef SELFTESTS_VDSO_H
#define SELFTESTS_VDSO_H

#include <stdint.h>

struct vdso {
	uintptr_t begin, end;	/* bounds of its mapping */
};

/*
 * Returns the function @name of the vDSO, or NULL. Sets @vdso if it is not NULL.
 */
void *vdso_find(const char *name, struct vdso *vdso);

#endif
