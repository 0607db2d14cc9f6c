/* The tables of a watched program: how it stands or ended, its phases with suspects and verdicts, its ranks
 * and links, what was watched. From watch.json, which a living watch writes too, and report.json, which it
 * writes at its end (docs/watching.md); fields that are not there are left out. */
#ifndef SL_REPORT_WATCHED_H
#define SL_REPORT_WATCHED_H

#include "report/read_back.h"

#include <stdio.h>

/** The headline. */
void sl_watched_figures(const sl_told *told, FILE *out);

#endif
