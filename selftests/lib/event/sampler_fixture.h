/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fixture of tests of one event with a ring, and of a task that it may sample. Include
 * it in place of event_fixture.h.
 */
#ifndef SELFTESTS_SAMPLER_FIXTURE_H
#define SELFTESTS_SAMPLER_FIXTURE_H

#include "device.h"
#include "samples.h"
#include "target.h"

FIXTURE(event)
{
	struct target target;
	struct sampler sampler;
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_PMU();
	self->sampler.fd = -1;
	prepare_maker(_metadata, variant);
}

FIXTURE_TEARDOWN(event)
{
	target_kill(&self->target);
	sampler_close(&self->sampler);
	restore_maker(_metadata, variant);
}

#endif
