/* How many delegates a kind of traffic needs: as many as keep the consumption of messages at pace with their
 * production (Adaptra, section 5.2: 8 activations a second against 2 that one delegate consumes need 4). */
#ifndef SL_RUN_TRANSPORT_DELEGATE_COUNT_H
#define SL_RUN_TRANSPORT_DELEGATE_COUNT_H

#include "base/time.h"

#define SL_DELEGATES_MOST 8

/** ceil(consumption / production), from 1 to SL_DELEGATES_MOST. `production`: ns between two messages of the
 * trainer; `consumption`: ns that one queue needs for one. Where either is unknown (<= 0): 1, respectively
 * the most when only the interval is 0. */
int sl_delegate_count(sl_time consumption, sl_time production);

#endif
