/* A round of validation, as every member runs it: introductions; wires; then, as often as requested, devices
 * in waves and links in passes, each started together; finally all samples go to all members, so that each
 * can compute the verdict. A lost member is named and the others continue. */
#pragma once

#include "notice/validate/member_samples.h"

/** `rank`: this member's. SL_EINVAL (links, address), SL_EPEER, SL_ESYS, SL_ENOMEM. Free with
 * sl_round_result_free, also on error. */
sl_status sl_round(const sl_validate_request *request, const sl_allgather *allgather, int rank,
                   sl_round_result *result);
