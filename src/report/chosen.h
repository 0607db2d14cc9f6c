/* Which recorded iteration is shown, and what it is called. */
#ifndef SL_REPORT_CHOSEN_H
#define SL_REPORT_CHOSEN_H

#include "report/recorded.h"

#define SL_CHOSEN_SLOWEST (-1)

/** The index of iteration `wanted`, of its replicas the one that ends last; or of the slowest one after the
 * first, which is cold. kept[recorded->iterations] says which may be chosen; NULL: all. SL_ENONE: it was not
 * recorded. */
sl_status sl_chosen_find(const sl_told *told, const sl_recorded *recorded, int wanted,
                         const unsigned char *kept, size_t *index);

/** "iteration 7, replica 1"; the replica where there are several. Returns as snprintf. */
int sl_chosen_name(const sl_recorded *recorded, size_t index, char *text, size_t size);
/** "iteration 7, replica 1: zb-h2, 210 ms (predicted 200 ms)", as far as it is known. */
void sl_chosen_title(const sl_told *told, const sl_recorded *recorded, size_t index, char *text, size_t size);

#endif
