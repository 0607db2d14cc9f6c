/* An earlier report as the healthy reference of a later validation, and the names that reports use. */
#pragma once

#include "notice/validate/verdict.h"

#define SL_VALIDATION_FORMAT "slackline-validation-1"
extern const char *const sl_link_kind_name[SL_LINK_KINDS];

/** The medians of an earlier report (its `kinds`). SL_EINVAL names the file. */
sl_status sl_reference_read(const char *path, sl_reference *reference);
