/* What is known, in words and as JSON: the live view, the report and /status.json say it alike. */
#ifndef SL_NOTICE_WATCH_WORDS_H
#define SL_NOTICE_WATCH_WORDS_H

#include "notice/control/status.h"

#include <jansson.h>
#include <stddef.h>

/** "device", "link", "host", "group", "unknown". */
const char *sl_words_component(sl_component component);

/** "device of rank 3", "link 2 -> 3", "link 2 <-> 3", "host of rank 4", ... in text[size]. */
void sl_words_suspect(const sl_suspect *suspect, char *text, size_t size);

/** The object of a suspect or verdict; NULL: no memory. */
json_t *sl_words_suspect_json(const sl_suspect *suspect);
json_t *sl_words_suspects_json(const sl_suspect *suspect, int count);

/** The object of /status.json; NULL: no memory. */
json_t *sl_words_status_json(const sl_status_view *view);

/** Whether it is the same component, whatever the evidence. */
int sl_words_same(const sl_suspect *a, const sl_suspect *b);

#endif
