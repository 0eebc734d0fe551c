/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * Where a program written for Fuchsia looks for the interface, and the functions
 * that it calls. What remains to be changed in it is how it opens the device
 * and how it maps a buffer.
 *
 * The functions return 0 or a negative errno. (There, those that store
 * something return its size: a program that asks for less than 0 needs no
 * change.)
 */
#ifndef _COMPAT_CPU_TRACE_PERF_MON_H
#define _COMPAT_CPU_TRACE_PERF_MON_H

#include <errno.h>
#include <stddef.h>
#include <sys/ioctl.h>

#include <linux/perfmon.h>

/* A buffer's handle is a file descriptor, to be mapped by mmap(2). */
typedef int zx_handle_t;
typedef __s64 zx_ticks_t;

static inline int ioctl_perfmon_call(int fd, unsigned long command, void *arg)
{
	int result = ioctl(fd, command, arg);

	return result < 0 ? -errno : result;
}

static inline int ioctl_perfmon_get_properties(int fd,
					       perfmon_ioctl_properties_t *out)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_GET_PROPERTIES, out);
}

static inline int ioctl_perfmon_alloc_trace(int fd,
					    const ioctl_perfmon_alloc_t *in)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_ALLOC_TRACE, (void *)in);
}

static inline int ioctl_perfmon_free_trace(int fd)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_FREE_TRACE, NULL);
}

static inline int ioctl_perfmon_get_alloc(int fd, ioctl_perfmon_alloc_t *out)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_GET_ALLOC, out);
}

static inline int ioctl_perfmon_stage_config(int fd,
					     const perfmon_ioctl_config_t *in)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_STAGE_CONFIG, (void *)in);
}

static inline int ioctl_perfmon_get_config(int fd, perfmon_ioctl_config_t *out)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_GET_CONFIG, out);
}

/* The handle is the caller's, who closes it; mappings stay. */
static inline int
ioctl_perfmon_get_buffer_handle(int fd,
				const ioctl_perfmon_buffer_handle_req_t *in,
				zx_handle_t *out)
{
	int result = ioctl_perfmon_call(fd, IOCTL_PERFMON_GET_BUFFER_HANDLE,
					(void *)in);

	if (result < 0)
		return result;
	*out = result;
	return 0;
}

static inline int ioctl_perfmon_start(int fd)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_START, NULL);
}

static inline int ioctl_perfmon_stop(int fd)
{
	return ioctl_perfmon_call(fd, IOCTL_PERFMON_STOP, NULL);
}

#endif
