/* Kinds of events in traces of hybrid-parallel jobs, by their names, and the part that each plays in an
 * iteration. The names are those of Megatron's timers, as in the traces published with "Understanding
 * Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025). */
#pragma once

typedef enum sl_traced_role {
    SL_ROLE_FORWARD,  /* of a model chunk and microbatch */
    SL_ROLE_BACKWARD, /* the same */
    SL_ROLE_LOCAL,    /* on the worker's own device: optimizer, weight gradients */
    SL_ROLE_MESSAGE,  /* a send or a receive between pipeline ranks, or both at once */
    SL_ROLE_REPLICAS, /* a collective over the replicas of a pipeline rank */
    SL_ROLE_ENDS,     /* over the first and the last pipeline rank of a replica */
    SL_ROLE_ALL,      /* over all workers */
    SL_ROLE_INSIDE,   /* part of another event: left out */
    SL_ROLE_TRANSFER  /* no event: what a send and its receive have in common */
} sl_traced_role;

typedef struct sl_traced_kind {
    const char *name;
    sl_traced_role role;
    int sends, receives; /* bit 0: activations, bit 1: gradients */
    int is_gather;       /* collective before the ops of its chunk, not after them */
} sl_traced_kind;

/* Numbers of kinds that the analysis names; others follow from the table. */
enum {
    SL_KIND_FORWARD,
    SL_KIND_BACKWARD,
    SL_KIND_FORWARD_TRANSFER,
    SL_KIND_BACKWARD_TRANSFER,
    SL_KIND_OTHERS
};

extern const sl_traced_kind sl_traced_kinds[];
extern const int sl_traced_kind_count;

/** The kind of an event's name (case and _ do not matter); -1: unknown. */
int sl_traced_kind_find(const char *name);

static inline int sl_traced_kind_is_collective(int kind) {
    sl_traced_role role = sl_traced_kinds[kind].role;
    return role == SL_ROLE_REPLICAS || role == SL_ROLE_ENDS || role == SL_ROLE_ALL;
}
static inline int sl_traced_kind_is_compute(int kind) {
    return sl_traced_kinds[kind].role <= SL_ROLE_LOCAL;
}
