#include "run/transport/delegate_count.h"

int sl_delegate_count(sl_time consumption, sl_time production) {
    if (consumption <= 0 || production < 0)
        return 1;
    if (production == 0)
        return SL_DELEGATES_MOST;
    sl_time count = consumption / production + (consumption % production != 0);
    return count > SL_DELEGATES_MOST ? SL_DELEGATES_MOST : (int)count;
}
