#include "plan/explain/job_replay.h"
#include "base/memory.h"
#include "plan/timing/replay.h"

struct sl_hybrid_replay {
    const sl_hybrid_graph *graph;
    sl_problem problem;
    sl_program program;
    sl_replayer *replayer;
    int32_t *step; /* [nodes] step of a node, counted over all ranks */
    sl_time *time; /* [steps] */
    size_t steps;
};

/* Edges of each node, while the program is made. */
typedef struct job_ends {
    int32_t *in, *out;     /* [nodes] their number */
    int32_t *step, *first; /* [nodes] step of the node, and first of its steps, on its rank */
    int32_t *rank;         /* [nodes] */
    int32_t *ins, *outs;   /* [nodes] connected so far */
} job_ends;

static sl_status make_ends(const sl_hybrid_graph *g, job_ends *ends) {
    int32_t **arrays[] = {&ends->in,   &ends->out, &ends->step, &ends->first,
                          &ends->rank, &ends->ins, &ends->outs};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        SL_TRY(sl_alloc(arrays[i], g->nodes, sizeof **arrays[i]));
    for (size_t i = 0; i < g->edges; i++) {
        ends->out[g->edge[i].from]++;
        ends->in[g->edge[i].to]++;
    }
    return SL_OK;
}

static void free_ends(job_ends *ends) {
    SL_FREE(ends->in, ends->out, ends->step, ends->first, ends->rank, ends->ins, ends->outs);
}

static int steps_of(const job_ends *ends, size_t node) {
    return 1 + (ends->in[node] > 1 ? ends->in[node] - 1 : 0) +
           (ends->out[node] > 1 ? ends->out[node] - 1 : 0);
}

/* Numbers the streams that have nodes, and counts their steps. */
static sl_status make_ranks(sl_hybrid_replay *r, job_ends *ends) {
    const sl_hybrid_graph *g = r->graph;
    int streams = 0;
    int32_t *number;
    for (size_t i = 0; i < g->nodes; i++)
        streams = g->node[i].stream >= streams ? g->node[i].stream + 1 : streams;
    SL_TRY(sl_alloc(&number, (size_t)streams, sizeof *number)); /* rank + 1 */
    for (size_t i = 0; i < g->nodes; i++) {
        int32_t *rank = &number[g->node[i].stream];
        *rank = *rank ? *rank : ++r->program.ranks;
        ends->rank[i] = *rank - 1;
    }
    sl_free(number);
    SL_TRY(sl_alloc(&r->program.rank, (size_t)r->program.ranks, sizeof *r->program.rank));
    for (size_t i = 0; i < g->nodes; i++) {
        sl_rank_program *mine = &r->program.rank[ends->rank[i]];
        ends->first[i] = mine->steps;
        ends->step[i] = mine->steps + (ends->in[i] > 1 ? ends->in[i] - 1 : 0);
        mine->steps += steps_of(ends, i);
    }
    return SL_OK;
}

static sl_status make_steps(sl_hybrid_replay *r, const job_ends *ends) {
    for (int rank = 0; rank < r->program.ranks; rank++) {
        sl_rank_program *mine = &r->program.rank[rank];
        SL_TRY(sl_alloc(&mine->step, (size_t)mine->steps, sizeof *mine->step));
        for (int i = 0; i < mine->steps; i++)
            mine->step[i] = (sl_step){.op = {.kind = SL_F}, .after = -1, .receive = -1, .send = -1};
    }
    int32_t *first; /* steps before a rank's */
    SL_TRY(sl_alloc(&first, (size_t)r->program.ranks, sizeof *first));
    for (int rank = 0; rank < r->program.ranks; rank++) {
        first[rank] = (int32_t)r->steps;
        r->steps += (size_t)r->program.rank[rank].steps;
    }
    sl_status status = sl_alloc(&r->step, r->graph->nodes, sizeof *r->step);
    for (size_t i = 0; status == SL_OK && i < r->graph->nodes; i++)
        r->step[i] = first[ends->rank[i]] + ends->step[i];
    sl_free(first);
    SL_TRY(status);
    return sl_alloc(&r->time, r->steps, sizeof *r->time);
}

static sl_status make_messages(sl_hybrid_replay *r, job_ends *ends) {
    const sl_hybrid_graph *g = r->graph;
    SL_TRY(sl_alloc(&r->program.message, g->edges, sizeof *r->program.message));
    for (size_t i = 0; i < g->edges; i++) {
        int32_t from = g->edge[i].from, to = g->edge[i].to;
        int32_t producer = ends->step[from] + ends->outs[from]++,
                consumer = ends->first[to] + ends->ins[to]++;
        r->program.message[i] = (sl_message){.from = ends->rank[from],
                                             .to = ends->rank[to],
                                             .op = {.kind = SL_F},
                                             .producer = producer,
                                             .consumer = consumer};
        r->program.rank[ends->rank[from]].step[producer].send = (int32_t)i;
        r->program.rank[ends->rank[to]].step[consumer].receive = (int32_t)i;
    }
    r->program.messages = (int)g->edges;
    return SL_OK;
}

static sl_status make_problem(sl_hybrid_replay *r) {
    SL_TRY(sl_problem_make(1, 1, 1, &r->problem));
    sl_free(r->problem.link);
    r->problem.link = NULL; /* transfers are steps */
    r->problem.ranks = r->program.ranks;
    return SL_OK;
}

static sl_status make(sl_hybrid_replay *r) {
    job_ends ends = {0};
    sl_status status = make_ends(r->graph, &ends);
    r->program.stages = r->program.parts = 1;
    SL_THEN(status, make_ranks(r, &ends));
    SL_THEN(status, make_steps(r, &ends));
    SL_THEN(status, make_messages(r, &ends));
    free_ends(&ends);
    SL_THEN(status, make_problem(r));
    SL_THEN(status, sl_replayer_open(&r->problem, &r->program, &r->replayer));
    if (status != SL_OK)
        return status;
    sl_replayer_time(r->replayer, r->time);
    return sl_replayer_run(r->replayer, NULL) == SL_TIME_NEVER
               ? sl_error(SL_ENONE,
                          "its workers wait for each other in a circle: their ops do not fit together")
               : SL_OK;
}

sl_status sl_hybrid_replay_open(const sl_hybrid_graph *graph, sl_hybrid_replay **replay) {
    SL_TRY(sl_alloc(replay, 1, sizeof **replay));
    (*replay)->graph = graph;
    sl_status status = make(*replay);
    if (status != SL_OK) {
        sl_hybrid_replay_close(*replay);
        *replay = NULL;
    }
    return status;
}

sl_time sl_hybrid_replay_run(sl_hybrid_replay *r, const sl_time *time) {
    for (size_t i = 0; i < r->graph->nodes; i++)
        r->time[r->step[i]] = time[i];
    return sl_replayer_run(r->replayer, NULL);
}

size_t sl_hybrid_replay_steps(const sl_hybrid_replay *r) {
    return r->steps;
}

void sl_hybrid_replay_close(sl_hybrid_replay *r) {
    if (!r)
        return;
    sl_replayer_close(r->replayer);
    sl_program_free(&r->program);
    sl_problem_free(&r->problem);
    SL_FREE(r->step, r->time, r);
}
