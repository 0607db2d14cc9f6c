/* slackline check: whether an order is valid, whether its ranks can stop, and what holds up what. */
#include "base/memory.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "plan/lower/receive_buffers.h"
#include "plan/pipeline/csv_shape.h"
#include "plan/timing/order_check.h"

#include <jansson.h>
#include <string.h>

enum { REGIME = 32 };

typedef struct check_options {
    sl_texts files, set;
    int is_json;
    const char *output;
} check_options;

static const sl_option options[] = {SL_OPTION_TEXT_OR_JSON(check_options, is_json),
                                    SL_OPTION_OUTPUT(check_options, output),
                                    SL_OPTION_SET(check_options, set, sl_problem_visit_keys, "PROBLEM"),
                                    SL_OPTION("", TEXTS, check_options, files, "ORDER [PROBLEM]", NULL,
                                              .completes = SL_COMPLETES_FILE, .required = 1),
                                    SL_OPTIONS_END};

typedef struct checked_order {
    const char *file;
    int timed; /* there is a problem file */
    sl_document document;
    sl_problem problem;
    sl_written written;
    sl_checked_regime regime[SL_CHECKED_REGIMES];
    FILE *out;
} checked_order;

/* "decoupled", "fifo, pair". */
static const char *regime_name(const sl_checked_regime *r, char text[REGIME]) {
    snprintf(text, REGIME, "%s%s%s", sl_regime_names[r->regime], r->regime == SL_FIFO ? ", " : "",
             r->regime == SL_FIFO ? sl_communicators_names[r->communicators] : "");
    return text;
}

/* ---- text ---- */

static void print_cell(FILE *out, const sl_named_cell *cell) {
    fprintf(out, "%s", cell->name);
    if (cell->line > 0)
        fprintf(out, " (line %d, column %d)", cell->line, cell->column);
}

static void print_cycle(const checked_order *c, const sl_wait_cycle *cycle) {
    const sl_cells cells = sl_written_cells(&c->written);
    for (int i = 0; i < cycle->length; i++) {
        sl_named_cell cell = sl_cell_of_wait(&cells, &cycle->wait[i]),
                      next = sl_cell_of_wait(&cells, &cycle->wait[(i + 1) % cycle->length]);
        fprintf(c->out, "    ");
        print_cell(c->out, &cell);
        fprintf(c->out, " waits for ");
        print_cell(c->out, &next);
        fprintf(c->out, "\n");
    }
}

static void print_text(const checked_order *c) {
    const sl_cells cells = sl_written_cells(&c->written);
    const sl_problem *p = &c->problem;
    char name[REGIME];
    fprintf(c->out, "%s: %d ranks, %d stages (%s), %d microbatches, %s; valid\n\n", c->file, p->ranks,
            p->stages, sl_placement_name(p->placement), p->microbatches,
            c->written.reader.comms > 0 ? "with messages" : "messages as PyTorch adds them");
    for (int i = 0; i < SL_CHECKED_REGIMES; i++) {
        const sl_checked_regime *r = &c->regime[i];
        fprintf(c->out, "%-16s %s", regime_name(r, name), r->cycle.length > 0 ? "DEADLOCK:" : "no deadlock");
        if (r->makespan != SL_TIME_NEVER)
            fprintf(c->out, ", makespan %.6g ms", sl_to_ms(r->makespan));
        fprintf(c->out, "\n");
        print_cycle(c, &r->cycle);
        for (int k = 0; k < r->blockers; k++) {
            sl_named_cell cell = sl_cell_of_issue(&cells, r->blocker[k].rank, r->blocker[k].issue);
            fprintf(c->out, "    ");
            print_cell(c->out, &cell);
            fprintf(c->out, " blocks the next message of its communicator for %.6g ms\n",
                    sl_to_ms(r->blocker[k].time));
        }
    }
}

/* ---- JSON ---- */

static json_t *cell_json(const sl_named_cell *cell, int rank) {
    json_t *item = json_pack("{s:s,s:i}", "cell", cell->name, "rank", rank);
    if (cell->line > 0) {
        json_object_set_new(item, "line", json_integer(cell->line));
        json_object_set_new(item, "column", json_integer(cell->column));
    }
    return item;
}

static json_t *regime_json(const checked_order *c, const sl_checked_regime *r) {
    const sl_cells cells = sl_written_cells(&c->written);
    json_t *item = json_object(), *cycle = json_array(), *blockers = json_array();
    json_object_set_new(item, "regime", json_string(sl_regime_names[r->regime]));
    if (r->regime == SL_FIFO)
        json_object_set_new(item, "communicators", json_string(sl_communicators_names[r->communicators]));
    for (int i = 0; i < r->cycle.length; i++) {
        sl_named_cell cell = sl_cell_of_wait(&cells, &r->cycle.wait[i]);
        json_array_append_new(cycle, cell_json(&cell, r->cycle.wait[i].rank));
    }
    for (int i = 0; i < r->blockers; i++) {
        sl_named_cell cell = sl_cell_of_issue(&cells, r->blocker[i].rank, r->blocker[i].issue);
        json_t *blocker = cell_json(&cell, r->blocker[i].rank);
        json_object_set_new(blocker, "blocks_ms", json_real(sl_to_ms(r->blocker[i].time)));
        json_array_append_new(blockers, blocker);
    }
    json_object_set_new(item, "deadlock", cycle);
    if (r->makespan != SL_TIME_NEVER)
        json_object_set_new(item, "makespan_ms", json_real(sl_to_ms(r->makespan)));
    json_object_set_new(item, "blockers", blockers);
    return item;
}

static void print_json(const checked_order *c) {
    const sl_problem *p = &c->problem;
    json_t *regimes = json_array();
    for (int i = 0; i < SL_CHECKED_REGIMES; i++)
        json_array_append_new(regimes, regime_json(c, &c->regime[i]));
    json_t *root =
        json_pack("{s:s,s:i,s:i,s:s,s:i,s:b,s:o}", "format", "slackline-check-1", "ranks", p->ranks, "stages",
                  p->stages, "placement", sl_placement_name(p->placement), "microbatches", p->microbatches,
                  "messages", c->written.reader.comms > 0, "regimes", regimes);
    json_dumpf(root, c->out, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    fputc('\n', c->out);
    json_decref(root);
}

/* ---- the command ---- */

static sl_status read_problem(const check_options *o, checked_order *c) {
    c->timed = o->files.count == 2;
    if (!c->timed && strcmp(c->file, "-") == 0)
        return sl_error(SL_EINVAL, "check: an order from standard input needs PROBLEM");
    if (!c->timed)
        return o->set.count > 0 ? sl_error(SL_EINVAL, "check: --set changes PROBLEM, and none is given")
                                : sl_csv_shape(c->file, &c->problem);
    SL_TRY(sl_document_read(o->files.text[1], &c->document));
    SL_TRY(sl_document_set_all(&c->document, o->set.text, o->set.count));
    return sl_problem_read(&c->document, &c->problem);
}

/* In the problem's regime, with its eager messages. */
static sl_status verdict_of_problem(const checked_order *c) {
    const sl_cells cells = sl_written_cells(&c->written);
    sl_status status = sl_deadlock_check(&cells);
    return status == SL_EINVAL ? sl_error(SL_ENONE, "%s", sl_error_text()) : status;
}

/* Without a problem, all regimes count. */
static sl_status verdict(const checked_order *c) {
    char name[REGIME];
    if (c->timed)
        return verdict_of_problem(c);
    for (int i = 0; i < SL_CHECKED_REGIMES; i++)
        if (c->regime[i].cycle.length > 0)
            return sl_error(SL_ENONE, "%s: the ranks stop in regime %s", c->file,
                            regime_name(&c->regime[i], name));
    return SL_OK;
}

static sl_status check(const check_options *o, checked_order *c) {
    sl_leaving leaving;
    if (o->files.count < 1 || o->files.count > 2)
        return sl_error(SL_EINVAL, "check: give ORDER, or ORDER and PROBLEM; see slackline check --help");
    c->file = o->files.text[0];
    SL_TRY(read_problem(o, c));
    SL_TRY(sl_written_open(c->file, &c->problem, &c->written));
    const sl_cells cells = sl_written_cells(&c->written);
    if (c->timed && c->problem.communication == SL_FIFO && c->written.issuer)
        SL_TRY(sl_receive_buffers_check(&cells));
    SL_TRY(sl_order_check_regimes(&c->written, c->timed, c->regime));
    SL_TRY(sl_leaving_open(o->output, &leaving));
    c->out = leaving.out;
    if (o->is_json)
        print_json(c);
    else
        print_text(c);
    SL_TRY(sl_leaving_close(&leaving, SL_OK));
    return verdict(c);
}

static int run(int argc, char **argv) {
    check_options asked = {0};
    checked_order c = {0};
    sl_status status = sl_command_options(argc, argv, &asked);
    SL_THEN(status, check(&asked, &c));
    for (int i = 0; i < SL_CHECKED_REGIMES; i++)
        sl_checked_regime_free(&c.regime[i]);
    sl_written_close(&c.written);
    sl_problem_free(&c.problem);
    sl_document_close(&c.document);
    SL_FREE(asked.files.text, asked.set.text);
    return sl_plan_request_end(status);
}

const sl_command sl_command_check = {
    .name = "check",
    .summary = "prove that an order cannot deadlock, and find what holds it up",
    .about =
        "Checks ORDER (CSV of PyTorch's pipelining, with or without SEND and RECV cells, one line per rank) "
        "as "
        "simulate does. For regime decoupled, and for fifo with each kind of communicators, it proves that "
        "the "
        "ranks cannot stop, whatever the times are, or prints the shortest cycle of cells that wait for each "
        "other. With PROBLEM it also times the order, and names the sends and receives that hold up "
        "others.\n"
        "Messages wait for their receive in fifo (docs/formats.md). Without SEND and RECV cells, messages "
        "are "
        "in the order in which PyTorch adds them.",
    .options = options,
    .exit_code =
        "0: the ranks cannot stop in the regime of PROBLEM, or without PROBLEM in any of them; 1: they "
        "can; 2: wrong request, or an invalid order",
    .example = "slackline plan examples/four-ranks.yaml --format csv-comms -o order.csv\n"
               "slackline check order.csv examples/four-ranks.yaml",
    .run = run};
