/* The current state as JSON, the same in the report and in /status.json. */
#pragma once

#include "notice/control/job_status.h"

#include <jansson.h>

/** The list of suspects or verdicts; NULL: no memory. */
json_t *sl_words_suspects_json(const sl_suspect *suspect, int count);

/** The object of /status.json; NULL: no memory. */
json_t *sl_words_status_json(const sl_status_view *view);

/** Whether both name the same component, whatever the evidence. */
int sl_words_same(const sl_suspect *a, const sl_suspect *b);
