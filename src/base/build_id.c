#include "base/build_id.h"

/* Only if the generated one is not linked. */
__attribute__((weak)) const char sl_build_mark[] = SL_BUILD_MARK SL_VERSION;
