/* Shared by the files of the model.
 *
 *   model_open     opening, slow components, layouts
 *   model_answers  the cache of results
 *   model_replica  a replica in the current layout, and its time, computed once
 *   model_divide   groups of equal replicas; microbatches over groups
 *   model_gather   the replicas considered; slow devices gathered in few of them
 *   model_exchange the best of exchanges of two positions
 *   model_rearrange the topology search; the best of all
 *
 * A fingerprint is a 128-bit digest of a replica's healthy problem and its slow components. Results are
 * cached by fingerprint, so they outlive layouts and slow components and are valid when these recur. */
#pragma once

#include "adapt/model/model.h"
#include "base/random.h"

#include <string.h>

typedef struct sl_fingerprint {
    uint64_t word[2];
} sl_fingerprint;

static inline void sl_fingerprint_add(sl_fingerprint *f, uint64_t word) {
    f->word[0] = sl_random_mix(f->word[0] ^ word) + SL_RANDOM_STEP;
    f->word[1] = sl_random_mix(f->word[1] + word * SL_RANDOM_STEP) ^ f->word[0];
}
static inline void sl_fingerprint_add_real(sl_fingerprint *f, double value) {
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    sl_fingerprint_add(f, word);
}

/* A slow component of a replica, by ranks. Device: both ends are its rank. Card: no `to` for sends, no `from`
 * for receives (-1). */
typedef struct sl_excess {
    int from, to;
    double more[2]; /* device: factor; else ns, and ns per byte */
} sl_excess;

/* Equal replicas. */
typedef struct sl_alike {
    sl_fingerprint like;
    int replica; /* one of them */
    int count;
    int microbatches; /* per replica; 0: not divided yet */
    int fewer;        /* replicas with one less */
    int kept;
} sl_alike;

typedef struct sl_answer {
    sl_fingerprint asked; /* 0: free */
    double time;          /* ns; INFINITY: no plan fits */
} sl_answer;

/* The assignment of the given hosts to positions. */
typedef struct sl_host_arrangement {
    sl_fingerprint asked;
    int *host; /* NULL: unchanged */
} sl_host_arrangement;

struct sl_model_answers {
    sl_answer *answer; /* [slots] */
    size_t slots, answers;
    sl_host_arrangement *arrangement; /* a ring buffer */
    long long arrangements;           /* so far */
};

struct sl_model {
    sl_placement placement;
    sl_job job;
    int processes, stages;
    const sl_problem **healthy; /* [replicas] the caller's */
    int *base;                  /* [replicas] index of its distinct problem */
    sl_fingerprint *based;      /* [bases] */
    size_t bases, base_room;
    unsigned char *talks; /* [from * ranks + to] they hold neighboring stages */
    /* slow components: the ends of parts (2 * part + side) at a process, as a list */
    sl_slow_part *part;
    int parts;
    int *first;                                  /* [processes] end + 1; 0: none */
    int *next;                                   /* [2 * parts] likewise */
    /* the current layout */ const int *process; /* [position] the layout's */
    int *position;                               /* [process] */
    int delegated;
    double *growth;      /* [stages] of sums, ns */
    sl_fingerprint path; /* both */
    int *touched;        /* [replicas] those with a process of a slow part */
    unsigned char *is_touched;
    int touches;
    sl_excess *excess; /* of the last replica of sl_model_look */
    size_t excesses, excess_room;
    sl_alike *group;
    size_t groups, group_room;
    int *of; /* [replicas] group */
    /* answers */
    const char *rule; /* schedule of plans: the job's, or a quick one during a search for positions */
    const char *quick;
    long long allowed;         /* remaining budget in lookups; a planned op counts as ten */
    sl_model_answers *answers; /* the job's, or its own */
};

/* ---- model_answers.c */
/** The slot for a question; if its `asked` differs, there is no answer yet and the slot is free for it.
 * SL_ENOMEM. */
sl_status sl_model_answer(sl_model_answers *answers, const sl_fingerprint *asked, sl_answer **answer);
void sl_model_answered(sl_model_answers *answers, const sl_fingerprint *asked, double time,
                       sl_answer *answer);
/** Whether a search of positions is cached; *host: the assignment of the given hosts to positions. NULL:
 * unchanged. */
int sl_model_arrangement(const sl_model_answers *answers, const sl_fingerprint *asked, const int **host);
/** Takes ownership of *host, except on SL_ENOMEM. */
sl_status sl_model_arranged(sl_model_answers *answers, const sl_fingerprint *asked, int **host);

/* ---- model_open.c */
/** Sets the current layout. */
void sl_model_take(sl_model *model, const sl_job_layout *layout);
/** Exchanges the processes of two positions of the current layout; sl_model_sums may have to follow. */
void sl_model_swap(sl_model *model, sl_job_layout *layout, int a, int b);

/* ---- model_replica.c */
/** Additional time of a message between two processes: ns, and ns per byte. */
void sl_model_pair(const sl_model *model, int from, int to, double more[2]);
/** Slowdown factor of a process's ops. */
double sl_model_slowdown(const sl_model *model, int process);
/** ... at a position: the slowest of its tensor ranks holds up the others. */
double sl_model_slowness(const sl_model *model, int rank, int replica);
/** Additional time of a stage's sum because of a part, ns. */
double sl_model_sum_growth(const sl_model *model, const sl_slow_part *part, int stage);
/** Fills growth[] and `path` after processes have exchanged positions. */
void sl_model_sums(sl_model *model);
/** Fills excess[] for a replica; *like: its fingerprint. */
sl_status sl_model_look(sl_model *model, int replica, sl_fingerprint *like);
/** Time of a replica with this number of microbatches; INFINITY: no plan fits, or the budget is used up. */
sl_status sl_model_ask(sl_model *model, const sl_alike *group, int microbatches, double *time);
/** The fingerprint of a healthy problem. Never fails. */
sl_fingerprint sl_model_base(const sl_problem *problem);

/* ---- model_divide.c */
/** Adds a replica to the groups. */
sl_status sl_model_join(sl_model *model, int replica, int microbatches);
/** Groups all replicas of the current layout except those with skip[replica] (NULL: none). `split`: replicas
 * of a group have the same number; NULL: microbatches are not divided yet. */
sl_status sl_model_groups(sl_model *model, const int *split, const unsigned char *skip);
/** The slowest group. */
sl_status sl_model_slowest(sl_model *model, double *time);
/** Divides microbatches among the groups; INFINITY: they do not fit. */
sl_status sl_model_level(sl_model *model, long long microbatches, double *time);

/* ---- positions */
/* Replicas among which positions are exchanged, ascending. */
typedef struct sl_excerpt {
    int *replica, count;
} sl_excerpt;

/** The replicas of the current layout (just grouped by split) with slow components, the heaviest first, and
 * some healthy ones; in a small job, all. Free `replica`. */
sl_status sl_model_excerpt(sl_model *model, const int *split, sl_excerpt *excerpt);
/** Gathers slow devices in as few replicas of the excerpt as possible, in layout->process and the current
 * layout. 0: they already are. */
int sl_model_gather(sl_model *model, const sl_excerpt *excerpt, sl_job_layout *layout);
/** Sets layout->process to the best result of exchanges. */
sl_status sl_model_exchange(sl_model *model, const sl_excerpt *excerpt, int divides, sl_job_layout *layout);
