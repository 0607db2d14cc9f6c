/* Text inside XML, HTML and JSON: the document stays well-formed for any text. */
#pragma once

#include <stdio.h>

/** Writes `text` as character data or as the value of an attribute: & < > " are named, control characters
 * left out, and bytes that are not UTF-8 (or not an XML character) become U+FFFD. Errors show in ferror. */
void sl_put_escaped(FILE *out, const char *text);

/** The same as a JSON string with its quotes, control characters escaped. Usable within an HTML script
 * element: it contains no `<`, `>` or `&`. */
void sl_put_json(FILE *out, const char *text);
