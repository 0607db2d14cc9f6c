#include "notice/watch/published.h"
#include "notice/watch/words.h"

#include <stdlib.h>
#include <string.h>

/* A text for the store; taken over. */
static char *text_of(json_t *object) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    return text;
}

void sl_published_status_put(sl_store *store, const sl_status_view *view, const char *program) {
    json_t *status = sl_words_status_json(view);
    if (status && program)
        json_object_set_new(status, "program", json_string(program));
    char *text = text_of(status);
    if (text)
        (void)sl_store_set(store, SL_PUBLISHED_STATUS, text, strlen(text), SL_PUBLISHED_LASTS);
    free(text);
}

void sl_published_event_put(sl_store *store, const sl_event *event) {
    char *text = text_of(sl_event_json(event));
    if (text)
        (void)sl_store_append(store, SL_PUBLISHED_EVENTS, text, strlen(text), SL_PUBLISHED_KEEP);
    free(text);
}

void sl_published_end_put(sl_store *store, int exit_code, sl_time lasts) {
    json_t *end = json_object();
    if (end && exit_code >= 0)
        json_object_set_new(end, "exit_code", json_integer(exit_code));
    char *text = text_of(end);
    if (text)
        (void)sl_store_set(store, SL_PUBLISHED_END, text, strlen(text), lasts);
    free(text);
}
