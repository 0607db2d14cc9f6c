#include "plan/pipeline/op.h"

const char *sl_op_name(int kind) {
    static const char *const names[SL_OP_KINDS] = {"F", "I", "W", "B"};
    return kind >= 0 && kind < SL_OP_KINDS ? names[kind] : "?";
}
