/* The report of a validation: a table for people, JSON for programs, and an earlier JSON as the healthy
 * reference of a later validation. */
#ifndef SL_NOTICE_VALIDATE_REPORT_H
#define SL_NOTICE_VALIDATE_REPORT_H

#include "notice/validate/round.h"

/** Of an earlier report (its `kinds`). SL_EINVAL names the file. */
sl_status sl_reference_read(const char *path, sl_reference *reference);

/** The report as text, or JSON with a newline behind it; free *text with free. SL_ENOMEM. */
sl_status sl_report(const sl_round_result *result, const sl_verdicts *verdicts, int json, char **text);

#endif
