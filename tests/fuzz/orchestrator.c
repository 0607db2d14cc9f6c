/* Recordings of an orchestrator's calls, which may come from another machine, and its saves. */
#include "small_plan.h"

#include "adapt/orchestrator/measured.h"
#include "adapt/orchestrator/orchestrator.h"
#include "adapt/orchestrator/recording.h"

#include <stdlib.h>
#include <string.h>

static void put_line(void *out, const char *text) {
    fputs(text, out);
}

/* A job of two iterations. `lines` gets its recording, *saved its state. */
static void run_job(FILE *lines, char **saved) {
    sl_problem problem;
    sl_plan plan;
    sl_measured *measured;
    sl_orchestrator *o;
    sl_orchestrator_action action;
    sl_orchestrator_config config = sl_orchestrator_defaults();
    fuzz_small_plan(&problem, &plan);
    const sl_problem *problems[] = {&problem};
    const sl_plan *plans[] = {&plan};
    config.problem = problems;
    config.first = plans;
    config.job.replicas = 1;
    config.job.ranks = 2;
    config.job.schedule = "1f1b";
    if (lines) {
        config.record.line = put_line;
        config.record.context = lines;
    }
    fuzz_must(sl_orchestrator_open(&config, &o) == SL_OK);
    fuzz_must(sl_measured_of_problem(&problem, &measured) == SL_OK);
    for (int i = 0; i < 2; i++) {
        sl_measured *const replica[] = {measured};
        const sl_orchestrator_iteration iteration = {
            .iteration = i, .now = (i + 1) * SL_SECOND, .time = plan.makespan, .replica = replica};
        fuzz_must(sl_orchestrator_observe(o, &iteration) == SL_OK);
        fuzz_must(!sl_orchestrator_next(o, &action));
    }
    if (saved)
        fuzz_must(sl_orchestrator_save(o, saved) == SL_OK);
    sl_measured_drop(measured);
    sl_orchestrator_close(o);
    sl_plan_free(&plan);
    sl_problem_free(&problem);
}

static int read_recording(const uint8_t *data, size_t size) {
    sl_player *player;
    sl_orchestrator_action action;
    int played = 0;
    char *text = fuzz_text(data, size);
    fuzz_must(sl_player_open(&player) == SL_OK);
    for (char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        played += sl_player_line(player, line, length, &action) == SL_OK;
        line += length + (line[length] != 0);
    }
    sl_player_close(player);
    free(text);
    return played;
}

static int write_recording(int number, FILE *out) {
    if (number == 0)
        run_job(out, NULL);
    return number == 0;
}

static int read_save(const uint8_t *data, size_t size) {
    sl_problem problem;
    sl_plan plan;
    sl_orchestrator *o;
    sl_orchestrator_config config = sl_orchestrator_defaults();
    fuzz_small_plan(&problem, &plan);
    const sl_problem *problems[] = {&problem};
    const sl_plan *plans[] = {&plan};
    config.problem = problems;
    config.first = plans;
    config.job.replicas = 1;
    config.job.ranks = 2;
    config.job.schedule = "1f1b";
    fuzz_must(sl_orchestrator_open(&config, &o) == SL_OK);
    char *text = fuzz_text(data, size), *again;
    sl_status status = sl_orchestrator_load(o, text);
    if (status == SL_OK) {
        const sl_orchestrator_iteration iteration = {
            .iteration = 2000000000, .now = 3 * SL_SECOND, .time = plan.makespan};
        (void)sl_orchestrator_observe(o, &iteration);
        fuzz_must(sl_orchestrator_save(o, &again) == SL_OK);
        free(again);
    }
    free(text);
    sl_orchestrator_close(o);
    sl_plan_free(&plan);
    sl_problem_free(&problem);
    return status == SL_OK;
}

static int write_save(int number, FILE *out) {
    char *text = NULL;
    if (number > 0)
        return 0;
    run_job(NULL, &text);
    fputs(text, out);
    free(text);
    return 1;
}

const fuzz_reader fuzz_orchestrator[] = {
    {"recording", "sl_player_line", NULL, write_recording,
     "call open observe next report network moved offer skip load carried_out", read_recording},
    {"save", "sl_orchestrator_load", NULL, write_save, NULL, read_save},
    {0}};
