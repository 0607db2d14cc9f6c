/* What the two that read folders share: folder.c reads a run's, folder_watch.c a watch's. */
#ifndef SL_REPORT_FOLDER_INSIDE_H
#define SL_REPORT_FOLDER_INSIDE_H

#include "report/folder.h"

/* Whose sl_told.room. */
enum { SL_TOLD_ITERATIONS, SL_TOLD_LINKS, SL_TOLD_SAMPLES, SL_TOLD_EVENTS, SL_TOLD_NAMES, SL_TOLD_NOTES };

/** A number whose size is at most `most`, else NaN. */
double sl_told_number(const json_t *object, const char *key, double most);
/** A count; `otherwise` where there is none. */
int sl_told_count(const json_t *object, const char *key, int otherwise);

/** A taker of events.jsonl's lines; the context is the sl_told. */
sl_status sl_told_take_event(void *context, char *line, size_t length);

/** A file as a whole. *text: NULL where it is absent or cannot be read, which is noted; `missing`: what its
 * absence means, NULL: nothing. Free with sl_free. */
sl_status sl_told_read_text(sl_told *told, const char *name, const char *missing, char **text);
/** *object: NULL where `name` is absent or damaged; *text as above. */
sl_status sl_told_read_object(sl_told *told, const char *name, const char *missing, char **text,
                              json_t **object);

/* ---- folder_watch.c ---- */

int sl_told_is_watch(const sl_told *told);
/** *found: whether anything could be read. */
sl_status sl_told_read_watch(sl_told *told, int *found);

#endif
