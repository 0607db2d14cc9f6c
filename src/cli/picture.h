/* Pictures in forms that other programs make of an SVG: FILE.png and FILE.pdf. */
#pragma once

#include "base/status.h"

#include <stddef.h>

/** "png" or "pdf" if the name of the file ends so, else NULL. */
const char *sl_picture_form(const char *file);

/** SL_ESYS, with what to install: no program that makes this form is in PATH. */
sl_status sl_picture_check(const char *file);

/** Makes the file of the SVG text, completely or not at all. SL_ESYS: also if the program fails. */
sl_status sl_picture_write(const char *file, const char *svg, size_t size);
