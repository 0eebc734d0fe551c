/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The callers that Linux's policy for perf events distinguishes, as variants of the
 * fixture "policy". Include it after FIXTURE(policy).
 */
#ifndef SELFTESTS_PARANOID_VARIANTS_H
#define SELFTESTS_PARANOID_VARIANTS_H

FIXTURE_VARIANT(policy)
{
	int paranoid;	/* perf_event_paranoid */
	bool capable;	/* has CAP_PERFMON and no other capability */
	int err;	/* expected errno of a call that the policy restricts; 0: none */
};

FIXTURE_VARIANT_ADD(policy, paranoid_3) { .paranoid = 3, .err = EACCES };
FIXTURE_VARIANT_ADD(policy, paranoid_2) { .paranoid = 2, .err = EACCES };
FIXTURE_VARIANT_ADD(policy, paranoid_1) { .paranoid = 1, .err = EACCES };
FIXTURE_VARIANT_ADD(policy, paranoid_0) { .paranoid = 0 };
FIXTURE_VARIANT_ADD(policy, paranoid_off) { .paranoid = -1 };
FIXTURE_VARIANT_ADD(policy, capable) { .paranoid = 2, .capable = true };

#endif
