#include "plan/pipeline/op.h"

const char *sl_op_name(int kind) {
    static const char *const names[] = {"F", "I", "W", "B", "gather", "reduce", "offload", "fetch"};
    return kind >= 0 && kind < (int)(sizeof names / sizeof names[0]) ? names[kind] : "?";
}
