/* Text inside XML, HTML and JSON: whatever it holds, the document stays well-formed. */
#pragma once

#include <stdio.h>

/** Writes `text` as character data or as the value of an attribute: & < > " are named, control characters
 * left out, and bytes that are no UTF-8 (or no character of XML) become U+FFFD. Errors show in ferror. */
void sl_put_escaped(FILE *out, const char *text);

/** The same as a JSON string with its quotes, control characters escaped. It may stand within an HTML script
 * element: no `<`, `>` or `&` is left in it. */
void sl_put_json(FILE *out, const char *text);
