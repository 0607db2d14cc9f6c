/* Orders as a test writes them down. */
#ifndef SL_TESTS_PLAN_ORDER_TEXT_H
#define SL_TESTS_PLAN_ORDER_TEXT_H

#include "plan/pipeline/order.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One rank from a text such as "0F0 *1F1 0B0 2W0.1": stage, kind, microbatch, part; * pairs with the next. A
 * letter that is no kind becomes an op of none. */
static inline void fill(sl_order *order, int rank, const char *text) {
    static const struct {
        char letter;
        int kind;
    } kinds[] = {{'F', SL_F}, {'I', SL_I}, {'W', SL_W}, {'B', SL_B}};
    order->count[rank] = 0;
    while (*text) {
        sl_op op = {.kind = SL_OP_KINDS};
        char *end;
        op.paired = *text == '*';
        text += op.paired;
        op.stage = (int32_t)strtol(text, &end, 10);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            op.kind = *end == kinds[i].letter ? kinds[i].kind : op.kind;
        op.microbatch = (int32_t)strtol(end + 1, &end, 10);
        if (*end == '.')
            op.part = (int16_t)strtol(end + 1, &end, 10);
        order->ops[rank][order->count[rank]++] = op;
        for (text = end; isspace((unsigned char)*text);)
            text++;
    }
}

/* "F0 I0 ..." of a rank; good until the next call. */
static inline const char *text_of(const sl_order *order, int rank) {
    static char text[512];
    size_t used = 0;
    for (int i = 0; i < order->count[rank]; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%d", i ? " " : "",
                                 sl_op_name(order->ops[rank][i].kind), order->ops[rank][i].microbatch);
    return text;
}

#endif
