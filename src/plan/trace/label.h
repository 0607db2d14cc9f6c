/* Labels: the meaning of the name of a trace's event in a pipeline: an op, a message, or an iteration.
 *
 * A pattern must match the whole name: * stands for anything, {stage}, {microbatch} and {iteration} for
 * numbers, and {action} for an action of PyTorch's pipelining (0F7, 1SEND_B3, (0F7;7B3)OVERLAP_F_B). Values
 * that are not in the name may be in the event's arguments or follow from its rank: one stage per rank,
 * microbatches in order. There are known patterns (sl_label_known lists them); given patterns for ops replace
 * the known ones for ops, those for messages replace those for messages. */
#pragma once

#include "base/status.h"
#include "plan/pipeline/op.h"
#include <stdio.h>

typedef enum sl_label_kind {
    SL_LABEL_NONE,
    SL_LABEL_OP,
    SL_LABEL_PAIR, /* F and B as one block (DualPipe) */
    SL_LABEL_SEND,
    SL_LABEL_RECEIVE,
    SL_LABEL_COLLECTIVE, /* op.kind is SL_GATHER or SL_REDUCE */
    SL_LABEL_ITERATION
} sl_label_kind;

typedef struct sl_label {
    sl_label_kind kind;
    sl_op op;          /* stage and microbatch -1: not in the name. Messages: the stage that sends or
                          receives, and kind SL_F or SL_B, activation or gradient */
    sl_op second;      /* PAIR: the B */
    int64_t iteration; /* ITERATION; -1 elsewhere */
} sl_label;

#define SL_MAX_PATTERNS 64

typedef struct sl_pattern {
    int what; /* index into its own table of words */
    const char *text;
} sl_pattern;

typedef struct sl_label_map {
    sl_pattern pattern[SL_MAX_PATTERNS];
    int count;
    int ops, messages, iterations; /* patterns of each group */
} sl_label_map;

/** Adds "WHAT=PATTERN" (kept by the caller): WHAT is F, I, W, B, SEND_F, RECV_F, SEND_B, RECV_B, iteration or
 * action. SL_EINVAL with the reason. */
sl_status sl_label_map_add(sl_label_map *map, const char *assignment);

/** The meaning of `name`; kind SL_LABEL_NONE: none. Never fails. */
sl_label sl_label_read(const sl_label_map *map, const char *name);

/** Word number `index` and its known patterns, with commas between them, in text[size]; NULL: there are
 * fewer. */
const char *sl_label_known(int index, char *text, size_t size);
