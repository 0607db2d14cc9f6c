/* A run file from a text. */
#ifndef SL_TESTS_READ_RUN_H
#define SL_TESTS_READ_RUN_H

#include "run/file/run.h"

static inline sl_status read_run(const char *text, sl_run *run) {
    sl_document document;
    sl_status status = sl_document_parse("run.yaml", text, &document);
    *run = (sl_run){0};
    if (status == SL_OK)
        status = sl_run_read(&document, run);
    sl_document_close(&document);
    return status;
}

#endif
