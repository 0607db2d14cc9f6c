/* What is known, as JSON: the report and /status.json say it alike. */
#pragma once

#include "notice/control/job_status.h"

#include <jansson.h>

/** The list of suspects or verdicts; NULL: no memory. */
json_t *sl_words_suspects_json(const sl_suspect *suspect, int count);

/** The object of /status.json; NULL: no memory. */
json_t *sl_words_status_json(const sl_status_view *view);

/** Whether it is the same component, whatever the evidence. */
int sl_words_same(const sl_suspect *a, const sl_suspect *b);
