/* slackline balance: how many microbatches each replica takes. */
#include "cli/balance.h"
#include "cli/command.h"
#include "cli/planning.h"

#include "adapt/balance/balance.h"
#include "adapt/balance/pipelines.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct answer {
    int *split;      /* [replicas] */
    double *time;    /* [replicas] ms */
    double makespan; /* ms */
    double even;     /* ms, of the even split; negative: it does not fit */
    int slowest;     /* replica */
} answer;

static const char usage[] =
    "Usage: slackline balance --microbatches M --times T0,T1,.. [--fill P] [--limits L]\n"
    "                         [--format json|text]\n"
    "       slackline balance --microbatches M --problem FILE [--times T0,T1,..] [--limits L]\n"
    "                         [--schedule NAME] [--set KEY=VALUE]... [--format json|text]\n\n"
    "Divides M microbatches among replicas, at least one each, so that the slowest replica is done as\n"
    "early as can be: the exact minimum of the largest iteration time. Of equally good splits it takes\n"
    "the one whose second-largest time is least, and so on; then the lower replica takes more.\n\n"
    "  --microbatches M  of one iteration, over all replicas\n"
    "  --times LIST      ms of a microbatch on each replica's slowest rank, one number a replica\n"
    "  --fill LIST       microbatches that filling and draining a pipeline cost, so that m take\n"
    "                    T * (m + P): ranks - 1 for an even pipeline; default 0\n"
    "  --limits LIST     most microbatches that a replica's memory takes, or none\n"
    "  --problem FILE    the replicas' pipeline: iteration times are planned and replayed for every\n"
    "                    number that is looked at, links, collectives and memory limit included; its\n"
    "                    op times are multiplied so that F, I and W of a microbatch take the busiest\n"
    "                    rank T. Given several times: a replica each, as they are, without --times\n"
    "  --schedule NAME   of --problem: a family, or auto (default), the best family\n"
    "  --set KEY=VALUE   change a key of --problem, by its dotted path\n"
    "  --format FORM     json (default): {\"microbatches\",\"makespan_ms\",\"times_ms\",\"slowest\",\n"
    "                    \"even_ms\"}; or text\n\n"
    "A LIST has commas or blanks between its numbers, or is @FILE (@-: standard input); of --fill and\n"
    "--limits one number stands for all. `train` takes the split as batch.split and weights gradients by "
    "it.\n\n"
    "Example: slackline balance --microbatches 20 --times 30,45 --fill 1\n";

/* ---- answers ---- */

static sl_status make_room(const sl_balance_request *r, answer *a) {
    SL_TRY(sl_alloc(&a->split, (size_t)r->replicas, sizeof *a->split));
    return sl_alloc(&a->time, (size_t)r->replicas, sizeof *a->time);
}

static int even_fits(const sl_balance_request *r, const int *even) {
    for (int i = 0; i < r->replicas && r->limit; i++)
        if (r->limit[i] > 0 && even[i] > r->limit[i])
            return 0;
    return 1;
}

static double largest(const double *time, int count, int *place) {
    *place = 0;
    for (int i = 1; i < count; i++)
        *place = time[i] > time[*place] ? i : *place;
    return time[*place];
}

/* The largest of `split`, by formula; *time of each. */
static double formula_times(const sl_balance_request *r, const sl_replica *replica, const int *split,
                            double *time, int *place) {
    for (int i = 0; i < r->replicas; i++)
        time[i] = sl_replica_time(&replica[i], split[i]);
    return largest(time, r->replicas, place);
}

static sl_status by_formula(const sl_balance_request *r, sl_replica *replica, int *even, answer *a) {
    int place;
    for (int i = 0; i < r->replicas; i++)
        replica[i] = (sl_replica){
            .time = r->time[i], .fill = r->fill ? r->fill[i] : 0, .limit = r->limit ? r->limit[i] : 0};
    SL_TRY(sl_balance(replica, r->replicas, r->microbatches, a->split, &a->makespan));
    sl_split_evenly(r->replicas, r->microbatches, even);
    a->even = formula_times(r, replica, even, a->time, &place);
    formula_times(r, replica, a->split, a->time, &a->slowest);
    return SL_OK;
}

static sl_status add_replicas(const sl_balance_request *r, sl_pipelines *pipelines) {
    for (int i = 0; i < r->replicas; i++)
        SL_TRY(sl_pipelines_add(pipelines, &r->problem[r->problems > 1 ? i : 0],
                                r->time ? 1e6 * r->time[i] : 0));
    return SL_OK;
}

static sl_status by_pipelines(const sl_balance_request *r, sl_pipelines *pipelines, sl_time *time, int *even,
                              answer *a) {
    SL_TRY(add_replicas(r, pipelines));
    SL_TRY(sl_pipelines_balance(pipelines, r->microbatches, r->limit, a->split, time));
    for (int i = 0; i < r->replicas; i++)
        a->time[i] = sl_to_ms(time[i]);
    a->makespan = largest(a->time, r->replicas, &a->slowest);
    sl_split_evenly(r->replicas, r->microbatches, even);
    if (!even_fits(r, even))
        return SL_OK;
    for (int i = 0; i < r->replicas; i++) {
        sl_status status = sl_pipelines_planned(pipelines, i, even[i], &time[i]);
        if (status == SL_ENONE) {
            a->even = -1;
            return SL_OK;
        }
        SL_TRY(status);
        a->even = sl_to_ms(time[i]) > a->even ? sl_to_ms(time[i]) : a->even;
    }
    return SL_OK;
}

/* Before anything is planned for it. */
static sl_status check_shares(const sl_balance_request *r, int *room, int *most) {
    *most = 1;
    for (int i = 0; i < r->replicas; i++)
        room[i] = r->limit ? r->limit[i] : 0;
    SL_TRY(sl_balance_room(r->replicas, r->microbatches, room));
    for (int i = 0; i < r->replicas; i++)
        *most = room[i] > *most ? room[i] : *most;
    return SL_OK;
}

static sl_status plan_pipelines(const sl_balance_request *r, int *even, answer *a) {
    sl_pipelines *pipelines = NULL;
    sl_time *time = NULL;
    int most;
    SL_TRY(check_shares(r, even, &most));
    SL_TRY(sl_pipelines_open(r->schedule, most, &pipelines));
    sl_status status = sl_alloc(&time, (size_t)r->replicas, sizeof *time);
    SL_THEN(status, by_pipelines(r, pipelines, time, even, a));
    sl_free(time);
    sl_pipelines_close(pipelines);
    return status;
}

static sl_status balance(const sl_balance_request *r, answer *a) {
    sl_replica *replica = NULL;
    int *even = NULL;
    SL_TRY(make_room(r, a));
    sl_status status = sl_alloc(&even, (size_t)r->replicas, sizeof *even);
    if (status == SL_OK && r->problems > 0)
        status = plan_pipelines(r, even, a);
    else if (status == SL_OK)
        status = sl_alloc(&replica, (size_t)r->replicas, sizeof *replica);
    if (status == SL_OK && r->problems == 0)
        status = by_formula(r, replica, even, a);
    if (status == SL_OK && !even_fits(r, even))
        a->even = -1;
    SL_FREE(replica, even);
    return status;
}

/* ---- printing ---- */

/* As few digits as read back to the same number. */
static const char *shortest(double value, char text[32]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

static void print_json(const sl_balance_request *r, const answer *a) {
    char number[32];
    printf("{\"microbatches\":[");
    for (int i = 0; i < r->replicas; i++)
        printf("%s%d", i ? "," : "", a->split[i]);
    printf("],\"makespan_ms\":%s,\"times_ms\":[", shortest(a->makespan, number));
    for (int i = 0; i < r->replicas; i++)
        printf("%s%s", i ? "," : "", shortest(a->time[i], number));
    printf("],\"slowest\":%d,\"even_ms\":%s}\n", a->slowest,
           a->even < 0 ? "null" : shortest(a->even, number));
}

static void print_text(const sl_balance_request *r, const answer *a) {
    printf("replica  microbatches        time ms\n");
    for (int i = 0; i < r->replicas; i++)
        printf("%7d  %12d  %13.6g%s\n", i, a->split[i], a->time[i], i == a->slowest ? "  slowest" : "");
    printf("\n%d microbatches in %.6g ms", r->microbatches, a->makespan);
    if (a->even >= 0)
        printf("; divided evenly %.6g ms (%.2f times as long)\n", a->even, a->even / a->makespan);
    else
        printf("; divided evenly they do not fit\n");
}

int sl_command_balance(int argc, char **argv) {
    sl_balance_request request;
    answer a = {0};
    sl_status status = sl_balance_request_read(argc, argv, usage, &request);
    if (status == SL_OK && !request.help)
        status = balance(&request, &a);
    if (status == SL_OK && !request.help)
        (request.is_text ? print_text : print_json)(&request, &a);
    SL_FREE(a.split, a.time);
    sl_balance_request_close(&request);
    return sl_planning_end(status);
}
