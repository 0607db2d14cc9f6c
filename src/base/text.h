/* Texts of events, suspects and messages have a fixed size. Longer text is cut between two words and ends
 * with "...", so that the cut is visible and no number or name is cut in half. */
#pragma once

#include <stddef.h>

/** Copies `text` to text[size] (size > 3). A single word that is too long is cut between two UTF-8
 * characters. Returns the length of the copy. */
size_t sl_text_fit(char *to, size_t size, const char *text);

/** As snprintf, and cut as by sl_text_fit. The whole text may have 4095 bytes. An argument may be the old
 * `to`. */
size_t sl_text_format(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/** A link as users read it everywhere: "link 0-1" for both directions, "link 0 -> 1" for one. Returns the
 * length, as snprintf. */
int sl_text_link(char *to, size_t size, int from, int other, int both);

/** Appends `piece` to the text in to[size], after `between` if there is text already. A cut text is not
 * changed. */
void sl_text_add(char *to, size_t size, const char *between, const char *piece);
