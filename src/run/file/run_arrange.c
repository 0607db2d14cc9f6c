#include "base/memory.h"
#include "plan/family/family.h"
#include "run/file/run_inside.h"

#define AT(field) offsetof(reading, field)

/* An item being read: the run determines the lengths of its lists. */
typedef struct reading {
    sl_run_arrangement item;
    const sl_run *run;
} reading;

/* A list of `count` integers >= `least`; `each` names the unit of an entry. */
static sl_status read_list(const sl_yaml *node, int count, const char *each, int least, int most,
                           int **numbers) {
    int64_t value;
    if (node->kind != SL_YAML_LIST || node->children != count)
        return sl_yaml_error(node, "must be a list of %d whole numbers, one for each %s", count, each);
    SL_TRY(sl_alloc(numbers, (size_t)count, sizeof **numbers));
    for (int i = 0; i < count; i++) {
        if (sl_yaml_int(node->child[i], least, most, &value) != SL_OK)
            return sl_yaml_error(node, "must hold whole numbers from %d to %d, got '%s'", least, most,
                                 node->child[i]->text ? node->child[i]->text : "?");
        (*numbers)[i] = (int)value;
    }
    return SL_OK;
}

static sl_status read_positions(const sl_yaml *node, void *object) {
    reading *r = object;
    int world = sl_run_ranks(r->run);
    char *taken;
    if (r->item.position)
        return sl_yaml_error(node, "is given twice: as 'positions' and by its former name 'seats'");
    SL_TRY(read_list(node, world, "process of the run", 0, world - 1, &r->item.position));
    SL_TRY(sl_alloc(&taken, (size_t)world, 1));
    int twice = -1;
    for (int i = 0; i < world; i++)
        if (taken[r->item.position[i]]++)
            twice = r->item.position[i];
    sl_free(taken);
    return twice < 0 ? SL_OK : sl_yaml_error(node, "gives process %d twice; each has one position", twice);
}

/* The schedule's family must be defined for each replica's share. */
static sl_status check_share(const sl_yaml *node, const sl_run *run, const int *split, int replica) {
    const sl_family *family = sl_family_find(run->schedule);
    sl_problem shape = sl_run_replica_shape(run, replica);
    shape.microbatches = split[replica];
    if ((int64_t)shape.stages * shape.microbatches * 3 * shape.parts > SL_MAX_OPS)
        return sl_yaml_error(node, "gives replica %d more microbatches than the planner takes", replica);
    if (!family || sl_family_check(family, &shape) == SL_OK)
        return SL_OK;
    return sl_yaml_error(node, "does not fit the schedule in replica %d: %s", replica, sl_error_text());
}

static sl_status read_split(const sl_yaml *node, void *object) {
    reading *r = object;
    int replicas = r->run->parallel.data, all = r->run->batch.microbatches, sum = 0;
    SL_TRY(read_list(node, replicas, "replica", 1, SL_MAX_MICROBATCHES, &r->item.split));
    for (int i = 0; i < replicas; i++)
        sum += r->item.split[i] <= all ? r->item.split[i] : all;
    if (sum != all)
        return sl_yaml_error(node, "must be batch.microbatches (%d) in sum", all);
    for (int i = 0; i < replicas; i++)
        SL_TRY(check_share(node, r->run, r->item.split, i));
    return SL_OK;
}

static sl_status read_without(const sl_yaml *node, void *object) {
    reading *r = object;
    const char *text;
    SL_TRY(sl_yaml_text(node, &text));
    if (!*text)
        return sl_yaml_error(node, "must be the name of a host");
    return sl_copy_text(&r->item.without, text);
}

/* A key is a line. */
/* clang-format off */
static const sl_key keys[] = {
    {.name = "iteration", .type = SL_KEY_INT, .required = 1, .offset = AT(item.iteration), .minimum = 0, .maximum = 1e9, .help = "the first that runs so; it is changed before it begins, in ascending order"},
    {.name = "positions", .type = SL_KEY_CUSTOM, .parse = read_positions, .help = "list: for each position (world rank: pipeline rank, then replica, then tensor rank) the process that takes it, by its position when the run was started; a permutation of all; absent: unchanged"},
    {.name = "seats", .type = SL_KEY_CUSTOM, .parse = read_positions, .help = "the former name of positions"},
    {.name = "split", .type = SL_KEY_CUSTOM, .parse = read_split, .help = "list: microbatches of each replica from there on, batch.microbatches in sum; absent: as before"},
    {.name = "without", .type = SL_KEY_CUSTOM, .parse = read_without, .help = "name of a host that is left out from there on: the run goes on from a checkpoint on the others"},
    {0}};
/* clang-format on */

static sl_status read_item(const sl_yaml *node, sl_run *run) {
    reading r = {.run = run};
    if (node->kind != SL_YAML_MAP)
        return sl_yaml_error(node, "an arrangement must be a map of keys");
    sl_status status = sl_config_read(node, "arrangements", keys, &r);
    run->arrangement[run->arrangements++] = r.item; /* what it holds is freed with the run */
    SL_TRY(status);
    if (!r.item.position && !r.item.split && !r.item.without)
        return sl_yaml_error(node, "must have one of positions, split and without");
    if (r.item.iteration >= run->iterations)
        return sl_yaml_error(sl_yaml_find(node, "iteration"),
                             "of %d is never reached: the run has %d iterations", r.item.iteration,
                             run->iterations);
    if (run->arrangements > 1 && r.item.iteration <= run->arrangement[run->arrangements - 2].iteration)
        return sl_yaml_error(sl_yaml_find(node, "iteration"),
                             "must be after that of the previous arrangement");
    return SL_OK;
}

sl_status sl_run_read_arrangements(const sl_document *document, sl_run *run) {
    const sl_yaml *node = sl_yaml_find(document->root, "arrangements");
    if (!node)
        return SL_OK;
    if (node->kind != SL_YAML_LIST)
        return sl_yaml_error(node, "must be a list");
    SL_TRY(sl_alloc(&run->arrangement, (size_t)node->children + 1, sizeof *run->arrangement));
    for (int i = 0; i < node->children; i++)
        SL_TRY(read_item(node->child[i], run));
    return SL_OK;
}

void sl_run_free_arrangements(sl_run *run) {
    for (int i = 0; i < run->arrangements; i++) {
        SL_FREE(run->arrangement[i].position, run->arrangement[i].split, run->arrangement[i].without);
    }
    sl_free(run->arrangement);
}

void sl_run_visit_arrangement_keys(sl_key_visit visit, void *context) {
    sl_config_visit(keys, "arrangements[].", visit, context);
}
