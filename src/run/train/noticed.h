/* The rank that leads: which device or link made the iterations slow (notice/detect/localise.h), as events.
 * It decides nothing: adaptation goes by what it measures itself. */
#ifndef SL_RUN_TRAIN_NOTICED_H
#define SL_RUN_TRAIN_NOTICED_H

#include "run/arrange/state.h"

/** The records of all ranks of a replica, in its clock. */
sl_status sl_noticed_add(sl_trainer *t, int replica, const sl_record *records, int count);

/** After the decisions on an iteration: events `suspect` and `verdict`, where there is news. */
sl_status sl_noticed_end(sl_trainer *t, int iteration, sl_time time);

#endif
