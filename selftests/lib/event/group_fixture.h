/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fixture of tests of a group of events, which may count a task. Include it in place of
 * event_fixture.h.
 */
#ifndef SELFTESTS_GROUP_FIXTURE_H
#define SELFTESTS_GROUP_FIXTURE_H

#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "target.h"

#define MEMBERS	3

FIXTURE(event)
{
	struct target target;
	int fd[MEMBERS];	/* the first is the leader */
};

#include "event_fixture.h"

FIXTURE_SETUP(event)
{
	int i;

	SKIP_WITHOUT_PMU();
	prepare_maker(_metadata, variant);
	for (i = 0; i < MEMBERS; i++)
		self->fd[i] = -1;
}

FIXTURE_TEARDOWN(event)
{
	int i;

	for (i = 0; i < MEMBERS; i++)
		close(self->fd[i]);
	target_kill(&self->target);
	restore_maker(_metadata, variant);
}

#endif
