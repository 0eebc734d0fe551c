/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * Fuchsia's perf-mon.h: the interface of <linux/perfmon.h>, and Fuchsia's functions
 * that call it. To port a program, change the code that opens the device and the
 * code that maps a buffer.
 *
 * The functions return the number of bytes that they have stored, which may be 0, or
 * a negative status: in Fuchsia a ZX_ERR_*, here a negative errno.
 */
#ifndef _COMPAT_CPU_TRACE_PERF_MON_H
#define _COMPAT_CPU_TRACE_PERF_MON_H

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#include <linux/types.h>
#include <zircon/types.h>

/*
 * Programs for Fuchsia take pointers to members as pointers to uint64_t and int64_t.
 * Linux's __u64 and __s64 have the same size but are other types, whose pointers the
 * compiler refuses.
 */
#define __s64	int64_t
#define __u64	uint64_t
#include <linux/perfmon.h>
#undef __s64
#undef __u64

/* Fuchsia's constant is unsigned. */
#undef PERFMON_MAX_EVENTS
#define PERFMON_MAX_EVENTS	32U

/* The names of the same structures in earlier headers of the same version. */
typedef perfmon_ioctl_config_t perfmon_config_t;
typedef perfmon_ioctl_properties_t perfmon_properties_t;

#define PERFMON_GEN_MASK64(len, shift)	(((1ULL << (len)) - 1) << (shift))

static inline ssize_t ioctl_perfmon_call(int fd, unsigned long command,
					 const void *arg, size_t stored)
{
	if (ioctl(fd, command, arg) < 0)
		return -errno;
	return stored;
}

static inline ssize_t
ioctl_perfmon_get_properties(int fd, perfmon_ioctl_properties_t *out)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_GET_PROPERTIES, out,
				  sizeof(*out));
}

static inline ssize_t ioctl_perfmon_alloc_trace(int fd,
						const ioctl_perfmon_alloc_t *in)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_ALLOC_TRACE, in, 0);
}

static inline ssize_t ioctl_perfmon_free_trace(int fd)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_FREE_TRACE, NULL, 0);
}

static inline ssize_t ioctl_perfmon_get_alloc(int fd, ioctl_perfmon_alloc_t *out)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_GET_ALLOC, out,
				  sizeof(*out));
}

static inline ssize_t
ioctl_perfmon_stage_config(int fd, const perfmon_ioctl_config_t *in)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_STAGE_CONFIG, in, 0);
}

static inline ssize_t ioctl_perfmon_get_config(int fd,
					       perfmon_ioctl_config_t *out)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_GET_CONFIG, out,
				  sizeof(*out));
}

/* The caller closes the handle; mappings of the buffer outlive the handle. */
static inline ssize_t
ioctl_perfmon_get_buffer_handle(int fd,
				const ioctl_perfmon_buffer_handle_req_t *in,
				zx_handle_t *out)
{
	int handle = ioctl(fd, IOCTL_PERFMON_GET_BUFFER_HANDLE, in);

	if (handle < 0)
		return -errno;
	*out = handle;
	return sizeof(*out);
}

static inline ssize_t ioctl_perfmon_start(int fd)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_START, NULL, 0);
}

static inline ssize_t ioctl_perfmon_stop(int fd)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_STOP, NULL, 0);
}

#endif
