/* What the devices of a pipeline of two ranks have in common in a row: load that nobody has told of. Of two
 * none is the majority, so it is told by what changes: load makes both slower in the same iteration, or both
 * faster, by the same factor; a device becomes slow or well alone. From row to row it is what it was, times
 * what both have changed by. */
#pragma once

/** Times as long as both take, from what it was in the row before (0: nobody knows) and from how many times
 * as long as healthy each took there and takes now. */
double sl_common_of_pair(double before, const double was[2], const double now[2]);
