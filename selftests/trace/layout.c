// SPDX-License-Identifier: GPL-2.0-only
/*
 * The layout of the structures and records of a trace, and the numbers of its commands. These
 * values are the same in 64-bit and 32-bit programs, so this file is built for both. A wrong value
 * fails the build.
 *
 * The numbers come from the reference, Fuchsia's perfmon, and are not computed from the header.
 */
#include <stddef.h>
#include <string.h>

#include <linux/perfmon.h>

#include "kselftest_harness.h"
#include "layout.h"

#define ASSERT_RECORD(type, size)					\
	_Static_assert(sizeof(type) == (size) && _Alignof(type) == 4 &&	\
		       offsetof(type, header) == 0, #type)

/* Commands */
ASSERT_VALUE(IOCTL_PERFMON_GET_PROPERTIES, 0x80183600U);
ASSERT_VALUE(IOCTL_PERFMON_ALLOC_TRACE, 0x40083601U);
ASSERT_VALUE(IOCTL_PERFMON_FREE_TRACE, 0x3602U);
ASSERT_VALUE(IOCTL_PERFMON_GET_ALLOC, 0x80083603U);
ASSERT_VALUE(IOCTL_PERFMON_STAGE_CONFIG, 0x41403604U);
ASSERT_VALUE(IOCTL_PERFMON_GET_CONFIG, 0x81403605U);
ASSERT_VALUE(IOCTL_PERFMON_GET_BUFFER_HANDLE, 0x40043606U);
ASSERT_VALUE(IOCTL_PERFMON_START, 0x3607U);
ASSERT_VALUE(IOCTL_PERFMON_STOP, 0x3608U);
ASSERT_VALUE(PERFMON_DEFINE_EVENT, 0x40283620U);
ASSERT_VALUE(PERFMON_GET_INFO, 0x80403621U);

/* Programs test for a command with #ifdef. */
#if !defined(IOCTL_PERFMON_GET_PROPERTIES) ||				\
	!defined(IOCTL_PERFMON_ALLOC_TRACE) ||				\
	!defined(IOCTL_PERFMON_FREE_TRACE) ||				\
	!defined(IOCTL_PERFMON_GET_ALLOC) ||				\
	!defined(IOCTL_PERFMON_STAGE_CONFIG) ||				\
	!defined(IOCTL_PERFMON_GET_CONFIG) ||				\
	!defined(IOCTL_PERFMON_GET_BUFFER_HANDLE) ||			\
	!defined(IOCTL_PERFMON_START) || !defined(IOCTL_PERFMON_STOP) || \
	!defined(PERFMON_DEFINE_EVENT) || !defined(PERFMON_GET_INFO)
#error "a command is not a macro"
#endif

/* Arguments */
ASSERT_SIZE(struct perfmon_info, 64);
ASSERT_MEMBER(struct perfmon_info, nr_cpu_ids, 0, 4);
ASSERT_MEMBER(struct perfmon_info, flags, 4, 4);
ASSERT_MEMBER(struct perfmon_info, features, 8, 8);
ASSERT_MEMBER(struct perfmon_info, misc_events, 16, 8);
ASSERT_MEMBER(struct perfmon_info, reserved, 24, 40);

ASSERT_SIZE(struct perfmon_event_definition, 40);
ASSERT_MEMBER(struct perfmon_event_definition, id, 0, 2);
ASSERT_MEMBER(struct perfmon_event_definition, reserved, 2, 2);
ASSERT_MEMBER(struct perfmon_event_definition, type, 4, 4);
ASSERT_MEMBER(struct perfmon_event_definition, select, 8, 8);
ASSERT_MEMBER(struct perfmon_event_definition, extra, 16, 8);
ASSERT_MEMBER(struct perfmon_event_definition, reserved2, 24, 16);

ASSERT_SIZE(ioctl_perfmon_alloc_t, 8);
ASSERT_MEMBER(struct perfmon_alloc, num_buffers, 0, 4);
ASSERT_MEMBER(struct perfmon_alloc, buffer_size_in_pages, 4, 4);

ASSERT_SIZE(ioctl_perfmon_buffer_handle_req_t, 4);
ASSERT_MEMBER(struct perfmon_buffer_handle_req, descriptor, 0, 4);

ASSERT_SIZE(perfmon_ioctl_config_t, 320);
ASSERT_MEMBER(struct perfmon_config, events, 0, 64);
ASSERT_MEMBER(struct perfmon_config, rate, 64, 128);
ASSERT_MEMBER(struct perfmon_config, flags, 192, 128);

/* A buffer */
ASSERT_SIZE(perfmon_buffer_header_t, 24);
ASSERT_MEMBER(struct perfmon_buffer_header, version, 0, 2);
ASSERT_MEMBER(struct perfmon_buffer_header, arch, 2, 2);
ASSERT_MEMBER(struct perfmon_buffer_header, flags, 4, 4);
ASSERT_MEMBER(struct perfmon_buffer_header, ticks_per_second, 8, 8);
ASSERT_MEMBER(struct perfmon_buffer_header, capture_end, 16, 8);

ASSERT_SIZE(perfmon_record_header_t, 4);
ASSERT_MEMBER(struct perfmon_record_header, type, 0, 1);
ASSERT_MEMBER(struct perfmon_record_header, reserved_flags, 1, 1);
ASSERT_MEMBER(struct perfmon_record_header, event, 2, 2);

ASSERT_RECORD(perfmon_time_record_t, 12);
ASSERT_MEMBER(struct perfmon_time_record, time, 4, 8);
ASSERT_RECORD(perfmon_tick_record_t, 4);
ASSERT_RECORD(perfmon_count_record_t, 12);
ASSERT_MEMBER(struct perfmon_count_record, count, 4, 8);
ASSERT_RECORD(perfmon_value_record_t, 12);
ASSERT_MEMBER(struct perfmon_value_record, value, 4, 8);
ASSERT_RECORD(perfmon_pc_record_t, 20);
ASSERT_MEMBER(struct perfmon_pc_record, aspace, 4, 8);
ASSERT_MEMBER(struct perfmon_pc_record, pc, 12, 8);

ASSERT_SIZE(perfmon_last_branch_t, 24);
ASSERT_MEMBER(struct perfmon_last_branch, from, 0, 8);
ASSERT_MEMBER(struct perfmon_last_branch, to, 8, 8);
ASSERT_MEMBER(struct perfmon_last_branch, info, 16, 8);
ASSERT_RECORD(perfmon_last_branch_record_t, 784);
ASSERT_MEMBER(struct perfmon_last_branch_record, num_branches, 4, 4);
ASSERT_MEMBER(struct perfmon_last_branch_record, aspace, 8, 8);
ASSERT_MEMBER(struct perfmon_last_branch_record, branches, 16, 768);

/* Constants */
ASSERT_VALUE(PERFMON_API_VERSION, 3);
ASSERT_VALUE(PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH, 1);
ASSERT_VALUE(PERFMON_FEATURE_FULL_WIDTH_WRITES, 1);
ASSERT_VALUE(PERFMON_FEATURE_PLACE_HOLDER, 2);
ASSERT_VALUE(PERFMON_FEATURE_MAPPINGS, 4);
ASSERT_VALUE(PERFMON_MAX_EVENTS, 32);
ASSERT_VALUE(PERFMON_MAX_BUFFER_PAGES, 65536);
ASSERT_VALUE(PERFMON_MAX_GROUP, 63);
ASSERT_VALUE(PERFMON_MAX_EVENT, 1023);
ASSERT_VALUE(PERFMON_EVENT_ID_NONE, 0);
ASSERT_VALUE(PERFMON_GROUP_RESERVED, 0);
ASSERT_VALUE(PERFMON_GROUP_ARCH, 1);
ASSERT_VALUE(PERFMON_GROUP_FIXED, 2);
ASSERT_VALUE(PERFMON_GROUP_MODEL, 3);
ASSERT_VALUE(PERFMON_GROUP_MISC, 4);
ASSERT_VALUE(PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_FIXED, 3), 0x803);
ASSERT_VALUE(PERFMON_EVENT_ID_GROUP(0x803), PERFMON_GROUP_FIXED);
ASSERT_VALUE(PERFMON_EVENT_ID_EVENT(0x803), 3);
ASSERT_VALUE(PERFMON_ARCH_EVENT_UNHALTED_CORE_CYCLES, 0);
ASSERT_VALUE(PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED, 1);
ASSERT_VALUE(PERFMON_ARCH_EVENT_UNHALTED_REFERENCE_CYCLES, 2);
ASSERT_VALUE(PERFMON_ARCH_EVENT_LLC_REFERENCES, 3);
ASSERT_VALUE(PERFMON_ARCH_EVENT_LLC_MISSES, 4);
ASSERT_VALUE(PERFMON_ARCH_EVENT_BRANCHES_RETIRED, 5);
ASSERT_VALUE(PERFMON_ARCH_EVENT_BRANCH_MISSES_RETIRED, 6);
ASSERT_VALUE(PERFMON_ARCH_EVENT_TOPDOWN_SLOTS, 7);
ASSERT_VALUE(PERFMON_FIXED_EVENT_INSTRUCTIONS_RETIRED, 1);
ASSERT_VALUE(PERFMON_FIXED_EVENT_UNHALTED_CORE_CYCLES, 2);
ASSERT_VALUE(PERFMON_FIXED_EVENT_UNHALTED_REFERENCE_CYCLES, 3);
ASSERT_VALUE(PERFMON_FIXED_EVENT_TOPDOWN_SLOTS, 4);
ASSERT_VALUE(PERFMON_CONFIG_FLAG_OS, 1);
ASSERT_VALUE(PERFMON_CONFIG_FLAG_USER, 2);
ASSERT_VALUE(PERFMON_CONFIG_FLAG_PC, 4);
ASSERT_VALUE(PERFMON_CONFIG_FLAG_TIMEBASE0, 8);
ASSERT_VALUE(PERFMON_CONFIG_FLAG_LAST_BRANCH, 16);
ASSERT_VALUE(PERFMON_CONFIG_FLAG_MASK, 31);
ASSERT_VALUE(PERFMON_BUFFER_VERSION, 0);
ASSERT_VALUE(PERFMON_BUFFER_ARCH_UNKNOWN, 0);
ASSERT_VALUE(PERFMON_BUFFER_ARCH_X86_64, 1);
ASSERT_VALUE(PERFMON_BUFFER_ARCH_ARM64, 2);
ASSERT_VALUE(PERFMON_BUFFER_FLAG_FULL, 1);
ASSERT_VALUE(PERFMON_BUFFER_FLAG_THROTTLED, 2);
ASSERT_VALUE(PERFMON_BUFFER_FLAG_OFFLINE, 4);
ASSERT_VALUE(PERFMON_BUFFER_FLAG_NOT_TRACED, 8);
ASSERT_VALUE(PERFMON_RECORD_RESERVED, 0);
ASSERT_VALUE(PERFMON_RECORD_TIME, 1);
ASSERT_VALUE(PERFMON_RECORD_TICK, 2);
ASSERT_VALUE(PERFMON_RECORD_COUNT, 3);
ASSERT_VALUE(PERFMON_RECORD_VALUE, 4);
ASSERT_VALUE(PERFMON_RECORD_PC, 5);
ASSERT_VALUE(PERFMON_RECORD_LAST_BRANCH, 6);
ASSERT_VALUE(PERFMON_MAX_NUM_LAST_BRANCH, 32);
ASSERT_VALUE(PERFMON_LAST_BRANCH_INFO_CYCLES_SHIFT, 0);
ASSERT_VALUE(PERFMON_LAST_BRANCH_INFO_CYCLES_MASK, 0xffff);
ASSERT_VALUE(PERFMON_LAST_BRANCH_INFO_MISPRED_SHIFT, 16);
ASSERT_VALUE(PERFMON_LAST_BRANCH_INFO_MISPRED_MASK, 0x10000);

TEST(size_of_last_branch_record_depends_on_its_branches)
{
	struct perfmon_last_branch_record record;
	unsigned int n;

	for (n = 0; n <= PERFMON_MAX_NUM_LAST_BRANCH; n++) {
		record.num_branches = n;
		EXPECT_EQ(16 + 24 * n,
			  PERFMON_LAST_BRANCH_RECORD_SIZE(&record));
	}
}

/* Records follow each other without gaps, at multiples of 4. */
TEST(members_are_where_the_bytes_are)
{
	static const unsigned char bytes[] = {
		PERFMON_RECORD_PC, 0, 0x01, 0x08,
		1, 2, 3, 4, 5, 6, 7, 8,
		9, 10, 11, 12, 13, 14, 15, 16,
	};
	struct perfmon_pc_record record;

	ASSERT_EQ(sizeof(bytes), sizeof(record));
	memcpy(&record, bytes, sizeof(bytes));
	EXPECT_EQ(PERFMON_RECORD_PC, record.header.type);
	EXPECT_EQ(0x801, record.header.event);
	EXPECT_EQ(0x0807060504030201ULL, record.aspace);
	EXPECT_EQ(0x100f0e0d0c0b0a09ULL, record.pc);
}

TEST_HARNESS_MAIN
