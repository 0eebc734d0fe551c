/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loading and unloading the module.
 */
#ifndef SELFTESTS_MODULE_H
#define SELFTESTS_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#define MODULE_PATH	"/lib/modules/perfmon.ko"

/* Of the tests: see selftests/kmod. */
#define OOPS_PATH	"/lib/modules/oops.ko"

/* The module's file, to be freed; NULL with errno. */
char *module_read(size_t *size);

/*
 * Lifts the limits to the time of overflow interrupts for tests: it depends on the
 * host.
 */
#define MODULE_ANY_RATE		"perf_event_max_sample_rate=0 "
#define MODULE_ANY_TIME		"perf_cpu_time_max_percent=0 "

/*
 * Return 0 or a negative errno. All but module_load_file() and module_load_image()
 * load the module without limits, unless @parameters set them.
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
 * Returns whether perf is kept off the counters by its own events, one on each CPU: then
 * it is not refused, and what it opens waits.
 */
bool module_has_place_holder(void);

#endif
