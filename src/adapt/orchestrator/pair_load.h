/* Unreported load: the common slowdown of the two devices of a two-rank pipeline. Two devices have no
 * majority, so changes decide: load makes both slower or faster in the same iteration by the same factor, but
 * a device slows down or recovers alone. The common factor of a row is that of the row before, times the
 * change that both share. */
#pragma once

/** The common factor now, from that of the row before (0: unknown) and from the slowdown factors of both
 * devices then and now. */
double sl_pair_load(double before, const double was[2], const double now[2]);
