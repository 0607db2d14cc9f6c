/* What the page is told, as JSON in one line (docs/dashboard.md lists the fields): everything, or what has
 * changed since it was told last. The texts are the caller's (free). */
#pragma once

#include "dashboard/board.h"

/** Of more iterations than these, those are told that are the first, lowest or highest of their piece. */
enum { SL_PAGE_ROWS = 1500, SL_PAGE_EVENTS = 400, SL_PAGE_LINES = 300 };

/** Everything; NULL: no memory. Marks nothing as told. */
char *sl_page_whole(const sl_board *board);

/** What has changed; NULL: nothing has, or no memory. Marks it as told. `version` is the board's when it was
 * told last, and moves on. *renewed: readers need everything instead. */
char *sl_page_change(sl_board *board, int64_t *version, int *renewed);
