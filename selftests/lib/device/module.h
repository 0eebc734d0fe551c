/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loading and unloading the module.
 */
#ifndef SELFTESTS_MODULE_H
#define SELFTESTS_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#define MODULE_PATH	"/lib/modules/perfmon.ko"

/* Modules of the tests: see selftests/kmod. */
#define OOPS_PATH	"/lib/modules/oops.ko"
#define SLOW_NMI_PATH	"/lib/modules/slow_nmi.ko"

/* Reads the module's file, to be freed by the caller. Returns NULL with errno set. */
char *module_read(size_t *size);

/*
 * Parameters that lift the limits of samples and of the time of PMIs. Tests need them because the
 * time depends on the host.
 */
#define MODULE_ANY_RATE		"perf_event_max_sample_rate=0 "
#define MODULE_ANY_TIME		"perf_cpu_time_max_percent=0 "

/*
 * Load or unload the module. Return 0 or a negative errno. All but module_load_file() and
 * module_load_image() lift the limits, unless @parameters set them.
 */
int module_load_image(const char *image, size_t size);
int module_load(void);
int module_load_with(const char *parameters);
int module_load_file(const char *path, const char *parameters);
int module_unload(void);

/* Unloads the module if it is loaded, and loads it with @parameters. */
int module_reload(const char *parameters);

bool module_loaded(void);

/*
 * Returns whether the module keeps perf off the counters by place-holders, one on each CPU. With
 * place-holders, perf's events are not refused, but wait for a counter.
 */
bool module_has_place_holder(void);

#endif
