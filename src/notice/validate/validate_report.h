/* The report of a validation: a table for people, JSON for programs. */
#pragma once

#include "notice/validate/member_samples.h"

/** The report as text, or JSON with a newline behind it; free *text with free. SL_ENOMEM. */
sl_status sl_report(const sl_round_result *result, const sl_verdicts *verdicts, int json, char **text);
