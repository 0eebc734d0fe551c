/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compile-time assertions about the layout of an ABI.
 */
#ifndef SELFTESTS_LAYOUT_H
#define SELFTESTS_LAYOUT_H

#include <stddef.h>

#define ASSERT_SIZE(type, size) \
	_Static_assert(sizeof(type) == (size), #type)
#define ASSERT_MEMBER(type, member, offset, size)			\
	_Static_assert(offsetof(type, member) == (offset) &&		\
		       sizeof(((type *)0)->member) == (size),		\
		       #type "." #member)
#define ASSERT_VALUE(name, value) \
	_Static_assert((name) == (value), #name)

#endif
