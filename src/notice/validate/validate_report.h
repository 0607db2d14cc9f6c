/* The report of a validation: a table for users, JSON for programs. */
#pragma once

#include "notice/validate/member_samples.h"

/** The report as text, or as JSON with a final newline; free *text with free. SL_ENOMEM. */
sl_status sl_report(const sl_round_result *result, const sl_verdicts *verdicts, int json, char **text);
