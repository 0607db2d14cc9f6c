/* The folder of a run or a watch, as report and dashboard read it; and what a run resumes from: checkpoints,
 * weights, their index and state, the hosts of the next attempt. */
#include "small_plan.h"

#include "base/file.h"
#include "base/lines.h"
#include "base/memory.h"
#include "dashboard/dashboard_watch.h"
#include "dashboard/newest.h"
#include "folder/follow.h"
#include "folder/row.h"
#include "launch/run_folder.h"
#include "plan/draw/trace.h"
#include "plan/timing/replay.h"
#include "report/recorded.h"
#include "report/report.h"
#include "run/checkpoint/checkpoint_state.h"
#include "run/checkpoint/safetensors.h"
#include "run/checkpoint/weights.h"
#include "run/file/roster.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- lines */

static int read_rows(const uint8_t *data, size_t size) {
    sl_row_iteration iteration;
    sl_row_event event;
    sl_row_link link;
    size_t i;
    const json_t *one;
    int taken = 0;
    char *text = fuzz_text(data, size);
    for (char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        if (sl_row_iteration_read(line, length, &iteration) == SL_OK) {
            taken++;
            json_array_foreach(iteration.links, i, one) sl_row_link_read(one, &link);
        }
        json_decref(iteration.object);
        taken += sl_row_event_read(line, length, &event) == SL_OK;
        json_decref(event.object);
        line += length + (line[length] != 0);
    }
    free(text);
    return taken;
}

static const char metrics[] =
    "{\"iteration\": 0, \"loss\": 2.5, \"time_ms\": 10.5, \"predicted_ms\": 10, \"tokens_per_s\": 5, "
    "\"schedule\": \"1f1b\", "
    "\"phase\": \"warm\", \"links\": [{\"from\": 0, \"to\": 1, \"latency_ms\": 1, \"transfer_ms\": 2}]}\n"
    "{\"iteration\": 1, \"loss\": 2, \"time_ms\": 12, \"works_ms\": [1, 2]}\n",
                  events[] = "{\"time_s\": 1.5, \"kind\": \"onset\", \"iteration\": 1, \"rank\": 0, "
                             "\"seen\": \"a\", \"decided\": \"b\", \"why\": \"c\"}\n",
                  watch[] = "{\"format\": \"slackline-watch-1\", \"program\": \"a\", \"iterations\": [[0, "
                            "1.5, 0], [1, 2.5, 1]], \"ranks\": [[1.5, 0, 7, "
                            "false]], \"nodes\": [\"n\"], \"links\": []}",
                  summary[] = "{\"iterations\": 2, \"exit_code\": 0, \"loss\": 2}";

static int write_rows(int number, FILE *out) {
    return number < 2 && fuzz_say(out, number ? events : metrics);
}

/* As a run records two iterations op by op. */
static int write_timeline(int number, FILE *out) {
    sl_problem problem;
    sl_plan plan;
    sl_timeline timeline;
    if (number > 0)
        return 0;
    fuzz_small_plan(&problem, &plan);
    fuzz_must(sl_replay(&problem, &plan.program, problem.communication, problem.queue, &timeline) == SL_OK);
    fuzz_must(sl_trace_begin(out, 2, 1) == SL_OK);
    for (int i = 0; i < 2; i++)
        fuzz_must(sl_trace_add(out, &timeline, 0, i * SL_SECOND, i) == SL_OK);
    fuzz_must(sl_trace_end(out) == SL_OK);
    sl_timeline_free(&timeline);
    sl_plan_free(&plan);
    sl_problem_free(&problem);
    return 1;
}

/* ---- a whole folder: files as (which, length, bytes) */

static const char *place(void) {
    static char folder[64];
    return fuzz_place(folder);
}

static void name_file(sl_folder_file file, char path[128]) {
    snprintf(path, 128, "%s/%s", place(),
             file < SL_FOLDER_FILES ? sl_folder_file_name(file) : "timeline.json");
}

static void put_file(sl_folder_file file, const uint8_t *data, size_t size) {
    char path[128];
    name_file(file, path);
    FILE *out = fopen(path, "ae");
    fuzz_must(out && fwrite(data, 1, size, out) == size && fclose(out) == 0);
}

static void clear_folder(void) {
    for (int file = 0; file <= SL_FOLDER_FILES; file++) {
        char path[128];
        name_file((sl_folder_file)file, path);
        unlink(path);
    }
}

/* The dashboard's rows: as they come, while the files grow. */
static sl_status ignore_iteration(void *context, const sl_row_iteration *row) {
    (void)context;
    fuzz_must(row->iteration >= -1);
    return SL_OK;
}

static sl_status ignore_event(void *context, const sl_row_event *row) {
    (void)context;
    fuzz_must(row->kind && row->seen && row->decided && row->why);
    return SL_OK;
}

static sl_status ignore_decision(void *context, const char *line, size_t length) {
    (void)context;
    fuzz_must(strlen(line) <= length);
    return SL_OK;
}

static sl_status take_text(void *context, sl_folder_file file, char *text, json_t *object) {
    (void)text;
    if (file != SL_FOLDER_WATCH || !object)
        return SL_OK;
    return sl_watched_take(context, object);
}

/* The newest picture, and how far the run has come. */
static void look_at_run(void) {
    sl_newest newest;
    sl_launch_folder own = {.lock = -1};
    char *picture = NULL;
    size_t size;
    FILE *out = open_memstream(&picture, &size);
    fuzz_must(sl_newest_open(place(), NULL, &newest) == SL_OK);
    sl_newest_put(&newest, out);
    sl_newest_close(&newest);
    fclose(out);
    free(picture);
    snprintf(own.path, sizeof own.path, "%s", place());
    fuzz_must(sl_launch_folder_reached(&own).iteration >= -1);
}

static int read_folder(const uint8_t *data, size_t size) {
    sl_board board;
    sl_folder *folder;
    int more = 1;
    clear_folder();
    fuzz_must(sl_board_open("fuzz", 0, &board) == SL_OK);
    const sl_folder_follower follower = {.context = &board,
                                         .files = ~0u,
                                         .iteration = ignore_iteration,
                                         .event = ignore_event,
                                         .decision = ignore_decision,
                                         .text = take_text};
    fuzz_must(sl_folder_open(place(), &follower, &folder) == SL_OK);
    for (int i = 0; size > 0 && i < 16; i++) {
        sl_folder_file file = (sl_folder_file)(fuzz_take(&data, &size, 1) % (SL_FOLDER_FILES + 1));
        size_t length = (size_t)fuzz_take(&data, &size, 2);
        length = length < size ? length : size;
        put_file(file, data, length);
        data += length;
        size -= length;
        fuzz_must(sl_folder_step(folder, &more) != SL_ENOMEM);
    }
    sl_folder_close(folder);
    sl_board_close(&board);
    look_at_run();
    char *page;
    size_t length;
    sl_status status = sl_report_make(place(), -1, &page, &length);
    if (status == SL_OK)
        sl_free(page);
    return status == SL_OK;
}

static void put_piece(FILE *out, sl_folder_file file, const char *text) {
    size_t size = strlen(text);
    fputc((int)file, out);
    fputc((int)(size & 255), out);
    fputc((int)(size >> 8), out);
    fputs(text, out);
}

static int write_folder(int number, FILE *out) {
    if (number == 0) {
        put_piece(out, SL_FOLDER_METRICS, metrics);
        put_piece(out, SL_FOLDER_EVENTS, events);
        put_piece(out, SL_FOLDER_DECISIONS, "iteration 1: swap\n");
        put_piece(out, SL_FOLDER_SUMMARY, summary);
        char *timeline;
        size_t size;
        FILE *made = open_memstream(&timeline, &size);
        write_timeline(0, made);
        fclose(made);
        put_piece(out, SL_FOLDER_FILES, timeline);
        free(timeline);
        put_piece(out, SL_FOLDER_PROFILE, "pipeline: {ranks: 2, microbatches: 2, times_ms: {F: 1, B: 2}}\n");
    }
    if (number == 1) {
        put_piece(out, SL_FOLDER_WATCH, watch);
        put_piece(out, SL_FOLDER_EVENTS, events);
        put_piece(out, SL_FOLDER_REPORT, "{\"exit_code\": 0}");
    }
    return number < 2;
}

static int read_timeline(const uint8_t *data, size_t size) {
    sl_recorded recorded;
    char *text = fuzz_text(data, size);
    sl_status status = sl_recorded_read_text(text, size, &recorded);
    size_t events_read = status == SL_OK ? recorded.events : 0;
    for (size_t i = 0; status == SL_OK && i < recorded.iterations; i++) {
        sl_timeline one = {0};
        fuzz_must(sl_recorded_timeline(&recorded, i, &one) == SL_OK);
        sl_timeline_free(&one);
    }
    sl_recorded_free(&recorded);
    free(text);
    return events_read > 0;
}

/* ---- weights */

/* Every value of what is accepted can be read. */
static int read_safetensors(const uint8_t *data, size_t size) {
    char path[64];
    sl_safetensors *tensors;
    int file = fuzz_file(data, size, path);
    sl_status status = sl_safetensors_open(path, &tensors);
    for (int i = 0; status == SL_OK && i < sl_safetensors_count(tensors); i++) {
        const sl_tensor *t = sl_safetensors_tensor(tensors, i);
        float *values = malloc(t->dtype == SL_DTYPE_OTHER ? 1 : t->count * sizeof *values + 1);
        fuzz_must(sl_safetensors_find(tensors, t->name) == t);
        if (t->dtype != SL_DTYPE_OTHER) {
            sl_status got = sl_safetensors_read(tensors, t, 0, t->count, values);
            fuzz_must(got == SL_OK || t->sealed);
        }
        free(values);
    }
    if (status == SL_OK)
        sl_safetensors_close(tensors);
    close(file);
    return status == SL_OK;
}

static void put_safetensors(FILE *out, const char *header, size_t bytes) {
    uint64_t length = strlen(header);
    fwrite(&length, 1, sizeof length, out);
    fputs(header, out);
    for (size_t i = 0; i < bytes; i++)
        fputc((int)i, out);
}

static int write_safetensors(int number, FILE *out) {
    if (number == 0)
        put_safetensors(out,
                        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},\"b\":{\"dtype\":"
                        "\"BF16\",\"shape\":[3],"
                        "\"data_offsets\":[16,22]},\"__metadata__\":{\"format\":\"pt\"}}",
                        22);
    return number == 0;
}

/* model.safetensors.index.json, next to the files that it names */
static int read_index(const uint8_t *data, size_t size) {
    char path[128];
    sl_weights *weights;
    snprintf(path, sizeof path, "%s/model-1.safetensors", place());
    if (access(path, F_OK) != 0) {
        FILE *out = fopen(path, "we");
        put_safetensors(out, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
        fuzz_must(fclose(out) == 0);
    }
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", place());
    fuzz_must(sl_file_renew(path, data, size) == SL_OK);
    sl_status status = sl_weights_open(place(), &weights);
    if (status == SL_OK) {
        fuzz_must(sl_weights_has(weights, "a"));
        sl_weights_close(weights);
    }
    unlink(path);
    return status == SL_OK;
}

static int write_index(int number, FILE *out) {
    return number == 0 &&
           fuzz_say(out,
                    "{\"metadata\": {\"total_size\": 8}, \"weight_map\": {\"a\": \"model-1.safetensors\"}}");
}

/* ---- state.json and hosts.json: what is read is written as it was, and read again */

static int read_state(const uint8_t *data, size_t size) {
    char path[64], other[128];
    sl_checkpoint_state state, again;
    int file = fuzz_file(data, size, path);
    sl_status status = sl_checkpoint_state_read(path, &state);
    if (status == SL_OK) {
        snprintf(other, sizeof other, "%s/state.json", place());
        fuzz_must(sl_checkpoint_state_write(other, &state) == SL_OK);
        fuzz_must(sl_checkpoint_state_read(other, &again) == SL_OK);
        fuzz_must(again.iteration == state.iteration && again.files == state.files &&
                  again.keys == state.keys);
        sl_checkpoint_state_free(&again);
        sl_checkpoint_state_free(&state);
        unlink(other);
    }
    close(file);
    return status == SL_OK;
}

static int write_state(int number, FILE *out) {
    char path[128], *text;
    size_t size;
    sl_checkpoint_file file = {.name = "stage-0.safetensors", .size = 100, .checksum = 7, .header = 9};
    sl_checkpoint_state state = {.iteration = 5,
                                 .stages = 1,
                                 .key = {{"model.kind", "\"gpt2\""}},
                                 .keys = 1,
                                 .file = &file,
                                 .files = 1};
    if (number > 0)
        return 0;
    snprintf(path, sizeof path, "%s/state.json", place());
    fuzz_must(sl_checkpoint_state_write(path, &state) == SL_OK && sl_file_read(path, &text, &size) == SL_OK);
    fwrite(text, 1, size, out);
    sl_free(text);
    unlink(path);
    return 1;
}

static int read_roster(const uint8_t *data, size_t size) {
    char path[128];
    sl_roster roster = sl_roster_empty(), again = sl_roster_empty();
    snprintf(path, sizeof path, "%s/hosts.json", place());
    fuzz_must(sl_file_renew(path, data, size) == SL_OK);
    sl_status status = sl_roster_read(place(), &roster);
    if (status == SL_OK) {
        fuzz_must(sl_roster_write(place(), &roster) == SL_OK && sl_roster_read(place(), &again) == SL_OK);
        fuzz_must(again.count == roster.count && sl_roster_slots(&again) == sl_roster_slots(&roster));
        for (int i = 0; i < roster.count; i++)
            (void)sl_roster_may_be(roster.host[i].name, "localhost");
    }
    sl_roster_free(&roster);
    sl_roster_free(&again);
    unlink(path);
    return status == SL_OK;
}

static int write_roster(int number, FILE *out) {
    char path[128], *text;
    size_t size;
    sl_roster_host hosts[] = {{.name = "a", .slots = 2},
                              {.name = "u@b", .slots = 1, .why = "x", .slow = "y", .leave = 1}};
    sl_roster roster = {.host = hosts,
                        .count = 2,
                        .local = "a",
                        .started = 5,
                        .move = {.iteration = 3, .why = "z"},
                        .last = {.iteration = -1}};
    if (number > 0)
        return 0;
    snprintf(path, sizeof path, "%s/hosts.json", place());
    fuzz_must(sl_roster_write(place(), &roster) == SL_OK && sl_file_read(path, &text, &size) == SL_OK);
    fwrite(text, 1, size, out);
    sl_free(text);
    unlink(path);
    return 1;
}

const fuzz_reader fuzz_folders[] = {
    {"rows", "sl_row_iteration_read sl_row_event_read sl_row_link_read sl_json_object", NULL, write_rows,
     "iteration loss time_ms predicted_ms links from to latency_ms transfer_ms replica kind seen decided why "
     "time_s",
     read_rows},
    {"folder",
     "sl_folder_step sl_lines_step sl_report_make sl_run_data_read sl_watched_take sl_row_point_read  "
     "sl_recorded_read_file sl_file_read_max sl_launch_folder_reached sl_newest_put "
     "sl_recorded_read",
     NULL, write_folder, "slackline-watch-1 iterations ranks links nodes report exit_code", read_folder},
    {"timeline", "sl_recorded_read_text", NULL, write_timeline,
     "ph pid tid ts dur name args iteration replica process_name", read_timeline},
    {"safetensors", "sl_safetensors_open sl_safetensors_read", NULL, write_safetensors,
     "dtype shape data_offsets F32 F16 BF16 __metadata__ xxh64.a", read_safetensors},
    {"index", "sl_weights_open", NULL, write_index, "weight_map metadata model-1.safetensors", read_index},
    {"state", "sl_checkpoint_state_read", NULL, write_state, NULL, read_state},
    {"roster", "sl_roster_read", NULL, write_roster, NULL, read_roster},
    {0}};
