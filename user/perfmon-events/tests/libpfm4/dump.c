// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Prints libpfm4's events of cores: PMU, EVENT or EVENT.UMASK, and the values of the
 * event select and of a second register, in hexadecimal, without modes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <perfmon/pfmlib.h>

/* The bits that are no part of an event: both modes, the interrupt and the enable bit. */
#define NOT_EVENT_BITS 0x530000ULL

static void print(const char *pmu, const char *event, const char *umask)
{
	pfm_pmu_encode_arg_t arg = { .size = sizeof(arg) };
	char text[512];
	int i;

	snprintf(text, sizeof(text), "%s::%s%s%s", pmu, event, umask ? ":" : "", umask ? umask : "");
	/* An event that needs several unit masks has no encoding with a single unit mask. */
	if (pfm_get_os_event_encoding(text, PFM_PLM0 | PFM_PLM3, PFM_OS_NONE, &arg) != PFM_SUCCESS)
		return;
	printf("%s %s%s%s", pmu, event, umask ? "." : "", umask ? umask : "");
	for (i = 0; i < arg.count; i++)
		printf(" %llx", (unsigned long long)arg.codes[i] & (i ? ~0ULL : ~NOT_EVENT_BITS));
	printf("\n");
	free(arg.codes);
}

static void print_event(const pfm_pmu_info_t *pmu, int index)
{
	pfm_event_info_t event = { .size = sizeof(event) };
	int i;

	if (pfm_get_event_info(index, PFM_OS_NONE, &event) != PFM_SUCCESS)
		return;
	print(pmu->name, event.name, NULL);
	for (i = 0; i < event.nattrs; i++) {
		pfm_event_attr_info_t attr = { .size = sizeof(attr) };

		if (pfm_get_event_attr_info(index, i, PFM_OS_NONE, &attr) != PFM_SUCCESS)
			continue;
		if (attr.type == PFM_ATTR_UMASK)
			print(pmu->name, event.name, attr.name);
	}
}

int main(void)
{
	int i, index;

	/* Without this variable, libpfm4 encodes only the events of this CPU. */
	setenv("LIBPFM_ENCODE_INACTIVE", "1", 1);
	if (pfm_initialize() != PFM_SUCCESS)
		return 1;
	for (i = PFM_PMU_NONE; i < PFM_PMU_MAX; i++) {
		pfm_pmu_info_t pmu = { .size = sizeof(pmu) };

		if (pfm_get_pmu_info(i, &pmu) != PFM_SUCCESS || pmu.type != PFM_PMU_TYPE_CORE)
			continue;
		if (!strncmp(pmu.name, "arm", 3))
			continue;
		for (index = pmu.first_event; index != -1; index = pfm_get_event_next(index))
			print_event(&pmu, index);
	}
	return 0;
}
