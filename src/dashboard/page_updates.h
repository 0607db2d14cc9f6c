/* Updates for the page, as JSON in one line (docs/dashboard.md lists the fields): the full state, or changes
 * since the last update. The caller owns the texts (free). */
#pragma once

#include "dashboard/board.h"

/** Of more iterations than these, only the first, lowest and highest of each piece are sent. */
enum { SL_PAGE_ROWS = 1500, SL_PAGE_EVENTS = 400, SL_PAGE_LINES = 300 };

/** The full state; NULL: no memory. Marks nothing as sent. */
char *sl_page_whole(const sl_board *board);

/** The changes; NULL: none, or no memory. Marks them as sent. `version` is the board's at the last update,
 * and advances. *renewed: readers need the full state instead. */
char *sl_page_change(sl_board *board, int64_t *version, int *renewed);
