/* Problem files as texts. */
#pragma once

#include "check.h"

#include "plan/pipeline/problem.h"

#define TIMES "  times_ms: {F: 10, I: 10, W: 10}\n"
#define SHAPE "pipeline:\n  ranks: 3\n  microbatches: 4\n" /* lines 1 to 3 */

static inline sl_status read_text(const char *text, sl_problem *problem) {
    sl_document document;
    *problem = (sl_problem){0};
    sl_status status = sl_document_parse("p.yaml", text, &document);
    if (status == SL_OK)
        status = sl_problem_read(&document, problem);
    sl_document_close(&document);
    return status;
}
