/* A line of pieces that is redrawn in place: if it does not fit the terminal, less important pieces are
 * dropped first. */
#pragma once

#include <stddef.h>

typedef enum sl_tone { SL_TONE_PLAIN, SL_TONE_BOLD, SL_TONE_GOOD, SL_TONE_BAD } sl_tone;

typedef struct sl_piece {
    char text[256];
    sl_tone tone;
    int rank; /* the lowest ranks are kept */
} sl_piece;

/** The pieces in their order in at most `width` characters, escapes not counted, without the end of a line;
 * colour 0: no escapes. Changes the pieces. Returns the number of characters without escapes. */
int sl_pieces_line(sl_piece *piece, int count, int width, int colour, char *text, size_t size);
