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

/* Return 0 or a negative errno. */
int module_load_image(const char *image, size_t size);
int module_load(void);
int module_load_with(const char *parameters);
int module_load_file(const char *path, const char *parameters);
int module_unload(void);

/* Unloads the module if it is loaded, and loads it with @parameters. */
int module_reload(const char *parameters);

bool module_loaded(void);

#endif
