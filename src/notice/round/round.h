/* A round of validation, as every member runs it: introductions; wires; then, so often as asked, devices in
 * waves and links in passes, each begun together; and everybody's samples to all, from which each can say the
 * verdict. A member that is lost is named and the others go on. */
#pragma once

#include "notice/validate/member_samples.h"

/** `rank`: this member's. SL_EINVAL (links, address), SL_EPEER, SL_ESYS, SL_ENOMEM. Free with
 * sl_round_result_free, also on error. */
sl_status sl_round(const sl_validate_request *request, const sl_allgather *allgather, int rank,
                   sl_round_result *result);
