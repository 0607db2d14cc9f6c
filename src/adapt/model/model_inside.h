/* What the files of the model share.
 *
 *   model_open     opening, what is slow, layouts
 *   model_answers  what was found out once
 *   model_replica  what a replica is like in the layout at hand; what it takes, asked once
 *   model_divide   replicas that are alike as groups; microbatches over groups
 *   model_gather   the replicas that are looked at; slow devices in few of them
 *   model_exchange the best of exchanges of two places
 *   model_places   the topology search; the best of all
 *
 * A fingerprint is 128 bits that stand for a replica's healthy problem and all that is slow in it. Answers
 * are kept by fingerprint, so that they outlive layouts and slow parts, and are as good when the same comes
 * again. */
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

/* Something slow in a replica, by ranks. A device: both ends are its rank. A card: what it sends has no `to`,
 * what it receives no `from` (-1). */
typedef struct sl_excess {
    int from, to;
    double more[2]; /* device: times as long; else ns, and ns a byte */
} sl_excess;

/* Replicas that are alike. */
typedef struct sl_alike {
    sl_fingerprint like;
    int replica; /* one of them */
    int count;
    int microbatches; /* of each; 0: not divided yet */
    int fewer;        /* of them take one less */
    int kept;
} sl_alike;

typedef struct sl_answer {
    sl_fingerprint asked; /* 0: free */
    double time;          /* ns; INFINITY: no plan fits */
} sl_answer;

/* Which of the hosts that were asked about sits at each place. */
typedef struct sl_host_arrangement {
    sl_fingerprint asked;
    int *host; /* NULL: as they did */
} sl_host_arrangement;

struct sl_model_answers {
    sl_answer *answer; /* [slots] */
    size_t slots, answers;
    sl_host_arrangement *arrangement; /* as a ring, of so many */
    long long arrangements;      /* so far */
};

struct sl_model {
    sl_placement placement;
    sl_job job;
    int processes, stages;
    const sl_problem **healthy; /* [replicas] the caller's */
    int *base;                  /* [replicas] which of the problems that differ */
    sl_fingerprint *based;      /* [bases] */
    size_t bases, base_room;
    unsigned char *talks; /* [from * ranks + to] neighbouring stages are there */
    /* what is slow: the ends of parts (2 * part + side) that a process is at, as a list */
    sl_slow_part *part;
    int parts;
    int *first; /* [processes] end + 1; 0: none */
    int *next;  /* [2 * parts] likewise */
    /* the layout at hand */
    const int *process; /* [position] the layout's */
    int *position;      /* [process] */
    int delegated;
    double *growth;      /* [stages] of sums, ns */
    sl_fingerprint path; /* both */
    int *touched;        /* [replicas] those that a slow part's process sits in */
    unsigned char *is_touched;
    int touches;
    sl_excess *excess; /* of the replica last looked at */
    size_t excesses, excess_room;
    sl_alike *group;
    size_t groups, group_room;
    int *of; /* [replicas] group */
    /* answers */
    const char
        *rule; /* what plans are made with: the job's schedule, or a quick one while places are looked for */
    const char *quick;
    long long allowed;         /* answers that may be looked up; an op planned counts as ten */
    sl_model_answers *answers; /* the job's, or its own */
};

/* ---- model_answers.c */
/** The answer to what is asked; not `asked`: there is none yet, and here it belongs. SL_ENOMEM. */
sl_status sl_model_answer(sl_model_answers *answers, const sl_fingerprint *asked, sl_answer **answer);
void sl_model_answered(sl_model_answers *answers, const sl_fingerprint *asked, double time,
                       sl_answer *answer);
/** Whether a search of places was answered; *host: which of the hosts asked about sits at each place. NULL:
 * as they did. */
int sl_model_arrangement(const sl_model_answers *answers, const sl_fingerprint *asked, const int **host);
/** Takes *host over. SL_ENOMEM: it does not. */
sl_status sl_model_arranged(sl_model_answers *answers, const sl_fingerprint *asked, int **host);

/* ---- model_open.c */
/** What follows is about this layout. */
void sl_model_take(sl_model *model, const sl_job_layout *layout);
/** Two positions of the layout at hand exchange their processes; sl_model_sums may have to follow. */
void sl_model_swap(sl_model *model, sl_job_layout *layout, int a, int b);

/* ---- model_replica.c */
/** What a message between two processes takes more: ns, and ns a byte. */
void sl_model_pair(const sl_model *model, int from, int to, double more[2]);
/** How many times as long ops take in a process. */
double sl_model_slowdown(const sl_model *model, int process);
/** ... at a place: the slowest of its tensor ranks holds up the others. */
double sl_model_slowness(const sl_model *model, int rank, int replica);
/** By how much the sum of a stage is held up by a part, ns. */
double sl_model_sum_growth(const sl_model *model, const sl_slow_part *part, int stage);
/** Fills growth[] and `path` after processes have changed places. */
void sl_model_sums(sl_model *model);
/** Fills excess[] for a replica; *like: what it is like. */
sl_status sl_model_look(sl_model *model, int replica, sl_fingerprint *like);
/** What a replica takes with so many microbatches; INFINITY: no plan fits, or no more may be planned. */
sl_status sl_model_ask(sl_model *model, const sl_alike *group, int microbatches, double *time);
/** The fingerprint of a healthy problem. Never fails. */
sl_fingerprint sl_model_base(const sl_problem *problem);

/* ---- model_divide.c */
/** One more replica among the groups. */
sl_status sl_model_join(sl_model *model, int replica, int microbatches);
/** Groups of all replicas of the layout at hand but those with skip[replica] (NULL: of all); `split`: those
 * of a group take the same; NULL: their microbatches are to be divided. */
sl_status sl_model_groups(sl_model *model, const int *split, const unsigned char *skip);
/** The slowest group. */
sl_status sl_model_slowest(sl_model *model, double *time);
/** Divides microbatches among the groups; INFINITY: they do not fit. */
sl_status sl_model_level(sl_model *model, long long microbatches, double *time);

/* ---- places */
/* Replicas among which places are exchanged, ascending. */
typedef struct sl_excerpt {
    int *replica, count;
} sl_excerpt;

/** The replicas of the layout at hand (its groups by split were just made) that something slow concerns, the
 * heaviest first, and healthy ones beside them; of a small job all. Free `replica`. */
sl_status sl_model_excerpt(sl_model *model, const int *split, sl_excerpt *excerpt);
/** layout->process, the layout at hand: slow devices gathered in as few replicas of the excerpt as can be. 0:
 * they are. */
int sl_model_gather(sl_model *model, const sl_excerpt *excerpt, sl_job_layout *layout);
/** layout->process: the best that exchanges lead to. */
sl_status sl_model_exchange(sl_model *model, const sl_excerpt *excerpt, int divides, sl_job_layout *layout);
