/* A folder that is read once to its end and one that is followed while its files grow, are cut off, replaced,
 * removed and started over give the same rows, the same damage and the same state. SL_SEED repeats a case,
 * SL_ROUNDS makes it longer. */
#include "base/file.h"
#include "base/memory.h"
#include "check.h"
#include "folder/follow.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

static char place[64];
static uint64_t chance;

/* xorshift */
static unsigned draw(unsigned below) {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (unsigned)(chance >> 33) % below;
}

/* ---- one who keeps what is handed out ---- */

typedef struct keeper {
    char *rows[SL_FOLDER_FILES]; /* a line each; of a whole file its last text */
    int anew, failing;           /* as many calls fail */
} keeper;

static void add(char **text, const char *more) {
    const size_t size = *text ? strlen(*text) : 0;
    *text = realloc(*text, size + strlen(more) + 1);
    strcpy(*text + size, more);
}

static sl_status fail_once(keeper *k) {
    return k->failing-- > 0 ? sl_error(SL_ENOMEM, "no memory") : SL_OK;
}

static sl_status keep_iteration(void *context, const sl_row_iteration *row) {
    keeper *k = context;
    char text[400];
    size_t i, links = 0;
    json_t *one;
    sl_row_link link;
    SL_TRY(fail_once(k));
    json_array_foreach(row->links, i, one) links += (size_t)sl_row_link_read(one, &link);
    snprintf(text, sizeof text, "%d %g %g %s %zu\n", row->iteration, row->time, row->loss, row->schedule,
             links);
    add(&k->rows[SL_FOLDER_METRICS], text);
    return SL_OK;
}

static sl_status keep_event(void *context, const sl_row_event *row) {
    keeper *k = context;
    char text[400];
    SL_TRY(fail_once(k));
    snprintf(text, sizeof text, "%d %s %s %d %d %d\n", row->iteration, row->kind, row->why, row->from,
             row->to, row->rank);
    add(&k->rows[SL_FOLDER_EVENTS], text);
    return SL_OK;
}

static sl_status keep_decision(void *context, const char *line, size_t length) {
    keeper *k = context;
    SL_TRY(fail_once(k));
    assert_int_equal(strlen(line), length);
    add(&k->rows[SL_FOLDER_DECISIONS], line);
    add(&k->rows[SL_FOLDER_DECISIONS], "\n");
    return SL_OK;
}

static sl_status keep_text(void *context, sl_folder_file file, char *text, json_t *object) {
    keeper *k = context;
    SL_TRY(fail_once(k));
    free(k->rows[file]);
    k->rows[file] = NULL;
    add(&k->rows[file], text);
    add(&k->rows[file], object ? " is an object" : "");
    return strstr(text, "refuse") ? sl_error(SL_EINVAL, "%s is refused", sl_folder_file_name(file)) : SL_OK;
}

static void keep_anew(void *context, sl_folder_file file) {
    keeper *k = context;
    k->anew++;
    free(k->rows[file]);
    k->rows[file] = NULL;
}

static sl_folder *follow(keeper *k) {
    sl_folder *f;
    *k = (keeper){.anew = 0};
    const sl_folder_follower follower = {.context = k,
                                         .files = ~0u,
                                         .iteration = keep_iteration,
                                         .event = keep_event,
                                         .decision = keep_decision,
                                         .text = keep_text,
                                         .restarted = keep_anew};
    assert_ok(sl_folder_open(place, &follower, &f));
    return f;
}

static void leave(sl_folder *f, keeper *k) {
    sl_folder_close(f);
    for (int i = 0; i < SL_FOLDER_FILES; i++)
        free(k->rows[i]);
}

static void step(sl_folder *f) {
    int more = 1;
    while (more)
        assert_ok(sl_folder_step(f, &more));
}

/* ---- a folder ---- */

static const char *path_of(sl_folder_file file) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", place, sl_folder_file_name(file));
    return path;
}

static void put(sl_folder_file file, const char *mode, const char *text) {
    FILE *out = fopen(path_of(file), mode);
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void replace(sl_folder_file file, const char *text) {
    char other[160];
    snprintf(other, sizeof other, "%s/new", place);
    FILE *out = fopen(other, "w");
    fputs(text, out);
    fclose(out);
    assert_int_equal(rename(other, path_of(file)), 0);
}

static int begin(void **state) {
    (void)state;
    strcpy(place, "/tmp/sl-follow-XXXXXX");
    return mkdtemp(place) ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    return sl_path_remove(place) == SL_OK ? 0 : -1;
}

/* ---- what becomes of it ---- */

static int told; /* lines and texts that were made: each is another */

static void make_line(sl_folder_file file, char *line, size_t size) {
    static const char *const kinds[] = {"start",  "onset",   "swap",   "relief",  "end",
                                        "failed", "restart", "warned", "resumed", "verdict"};
    const int number = ++told;
    if (draw(8) == 0)
        snprintf(line, size, "%s%d\n", draw(2) ? "{\"iteration\":" : "\n  \n[", number);
    else if (file == SL_FOLDER_METRICS)
        snprintf(line, size,
                 "{\"iteration\":%d,\"time_ms\":%u.5,\"loss\":%s,\"schedule\":\"s%u\",\"links\":[{\"from\":0,"
                 "\"to\":1,\"latency_ms\":%u,\"transfer_ms\":1},{\"from\":-1}]}\n",
                 number, draw(900), draw(4) ? "2.5" : "null", draw(3), draw(90));
    else if (file == SL_FOLDER_EVENTS)
        snprintf(line, size, "{\"time_s\":1,\"iteration\":%d,\"kind\":\"%s\",\"why\":\"w%d\"%s}\n", number,
                 kinds[draw(10)], number, draw(2) ? ",\"link\":[0,1]" : ",\"rank\":3");
    else
        snprintf(line, size, "decision %d\n", number);
}

/* Several lines, and in places half of one. */
static void make_lines(sl_folder_file file, char *text, size_t size) {
    size_t used = 0;
    for (unsigned count = draw(6); count > 0; count--) {
        make_line(file, text + used, size - used);
        used += strlen(text + used);
    }
    text[used] = 0;
    if (used > 0 && draw(3) == 0)
        text[draw((unsigned)used)] = 0;
}

/* Iterations 0 to last, each always the same, as a watch renews them. */
static void make_watch(char *text, size_t size, int is_whole) {
    size_t used = (size_t)snprintf(text, size, "{\"told\":%d,\"iterations\":[", ++told);
    for (unsigned i = 0, last = draw(40); i <= last; i++)
        used += (size_t)snprintf(text + used, size - used, "%s[%u,%u.25%s]", i ? "," : "", i, 5 + i % 7,
                                 i % 9 == 4 ? ",1" : "");
    snprintf(text + used, size - used, is_whole ? "]}%*s" : "]%*s", told % 100 + 1, "");
}

static void renew(sl_folder_file file) {
    char text[4000];
    const int number = ++told,
              width = number % 100 + 1; /* another size each time: clocks of files are coarse */
    if (file == SL_FOLDER_WATCH)
        make_watch(text, sizeof text, draw(6) > 0);
    else if (file == SL_FOLDER_REPORT || file == SL_FOLDER_SUMMARY)
        snprintf(text, sizeof text, draw(6) ? "{\"exit_code\":%u,\"told\":%d}%*s" : "{%u%d%*s", draw(3),
                 number, width, "");
    else
        snprintf(text, sizeof text, "%s: %d%*s", draw(6) ? "a" : "refuse", number, width, "");
    replace(file, text);
}

static void happen(void) {
    const sl_folder_file file = (sl_folder_file)draw(SL_FOLDER_FILES);
    char text[8000];
    if (file >= SL_FOLDER_LINES) {
        if (draw(5) == 0)
            unlink(path_of(file));
        else
            renew(file);
        return;
    }
    make_lines(file, text, sizeof text);
    const unsigned what = draw(12);
    struct stat found;
    if (what < 7)
        put(file, "a", text);
    else if (what == 7)
        put(file, "w", text); /* started over */
    else if (what == 8)
        replace(file, text);
    else if (what == 9)
        unlink(path_of(file));
    else if (stat(path_of(file), &found) == 0) { /* cut, and maybe grown past where it was */
        assert_int_equal(truncate(path_of(file), draw((unsigned)found.st_size + 1)), 0);
        if (what == 10)
            put(file, "a", text);
    }
}

static void assert_same(const sl_folder *one, const keeper *a, const sl_folder *other, const keeper *b) {
    for (int i = 0; i < SL_FOLDER_FILES; i++) {
        const int counts =
            i < SL_FOLDER_LINES || other->whole[i].file.st_ino != 0; /* a text that went stays */
        if (counts)
            assert_string_equal(a->rows[i] ? a->rows[i] : "", b->rows[i] ? b->rows[i] : "");
        assert_int_equal(sl_folder_is_unread(one, (sl_folder_file)i),
                         sl_folder_is_unread(other, (sl_folder_file)i));
    }
    for (int i = 0; i < SL_FOLDER_LINES; i++) {
        assert_int_equal(one->lines[i].number, other->lines[i].number);
        assert_int_equal(one->lines[i].good, other->lines[i].good);
        assert_int_equal(one->lines[i].damaged, other->lines[i].damaged);
        assert_int_equal(one->lines[i].first, other->lines[i].first);
    }
    assert_int_equal(one->is_watch, other->is_watch);
    assert_int_equal(one->state, other->state);
    assert_string_equal(one->why, other->why);
}

static void reading_once_and_following_give_the_same_rows(void **state) {
    (void)state;
    const char *seed = getenv("SL_SEED"), *rounds = getenv("SL_ROUNDS");
    const int first = seed ? atoi(seed) : 1, count = seed ? 1 : rounds ? atoi(rounds) : 200;
    int watches = 0, anew = 0, damaged = 0;
    printf("SL_SEED from %d, SL_ROUNDS=%d\n", first, count);
    for (int round = first; round < first + count; round++) {
        keeper following, once;
        int more;
        chance = 0x9e3779b97f4a7c15u * (uint64_t)round;
        assert_ok(sl_path_remove(place));
        sl_folder *f = follow(&following);
        step(f); /* the folder is not there yet */
        assert_ok(sl_directory_make(place));
        for (unsigned steps = 1 + draw(120); steps > 0; steps--) {
            happen();
            following.failing = draw(20) == 0 ? 1 + (int)draw(2) : 0;
            if (draw(3) == 0) /* fails where the keeper does, and goes on from there */
                (void)sl_folder_step(f, &more);
        }
        following.failing = 0;
        for (int i = 0; i < SL_FOLDER_LINES;
             i++) /* a line without an end is taken by who does not come back */
            if (access(path_of((sl_folder_file)i), F_OK) == 0)
                put((sl_folder_file)i, "a", "\n");
        char text[4000];
        make_watch(text, sizeof text, 1); /* what a damaged one does not say stays as it was */
        replace(SL_FOLDER_WATCH, text);
        step(f);
        step(f); /* run.yaml again after iterations that start over */
        sl_folder *whole = follow(&once);
        assert_ok(sl_folder_read(whole));
        assert_same(f, &following, whole, &once);
        watches += f->is_watch;
        anew += following.anew;
        damaged += f->lines[SL_FOLDER_METRICS].damaged > 0;
        leave(f, &following);
        leave(whole, &once);
    }
    assert_true(seed || (watches > 0 && anew > count && damaged > 0)); /* it all happened */
}

static void a_line_without_an_end_is_waited_for_and_taken_by_who_reads_once(void **state) {
    (void)state;
    keeper following, once;
    char text[400];
    put(SL_FOLDER_METRICS, "w", "{\"iteration\":0,\"time_ms\":7}\n{\"iteration\":1,\"time_ms\":8}");
    put(SL_FOLDER_EVENTS, "w", "{\"kind\":\"start\",\"iteration\":0}\n{\"kind\":\"en");
    sl_folder *f = follow(&following), *whole = follow(&once);
    step(f);
    assert_string_equal(following.rows[SL_FOLDER_METRICS], "0 7 nan  0\n");
    assert_int_equal(f->lines[SL_FOLDER_EVENTS].damaged, 0);
    assert_ok(sl_folder_read(whole));
    assert_string_equal(once.rows[SL_FOLDER_METRICS], "0 7 nan  0\n1 8 nan  0\n");
    sl_folder_trouble(whole, SL_FOLDER_METRICS, text, sizeof text);
    assert_string_equal(text, "");
    sl_folder_trouble(whole, SL_FOLDER_EVENTS, text, sizeof text);
    assert_says(text, "events.jsonl");
    sl_folder_trouble(whole, SL_FOLDER_DECISIONS, text, sizeof text);
    assert_string_equal(text, "");
    sl_folder_trouble(whole, SL_FOLDER_SUMMARY, text, sizeof text);
    assert_says(text, "summary.json");
    put(SL_FOLDER_EVENTS, "a", "d\",\"iteration\":9}\n");
    step(f);
    assert_string_equal(following.rows[SL_FOLDER_EVENTS], "0 start  -1 -1 -1\n9 end  -1 -1 -1\n");
    assert_int_equal(f->state, SL_FOLDER_ENDED);
    leave(f, &following);
    leave(whole, &once);
}

static void a_living_run_is_told_from_a_dead_one_and_a_folder_that_went_keeps_its_rows(void **state) {
    (void)state;
    keeper k;
    put(SL_FOLDER_METRICS, "w", "{\"iteration\":0}\n");
    put(SL_FOLDER_EVENTS, "w", "{\"kind\":\"start\"}\n");
    sl_folder *f = follow(&k);
    step(f);
    assert_false(f->living);
    int lock = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    step(f);
    assert_true(f->living && f->there);
    close(lock);
    put(SL_FOLDER_METRICS, "a", "{\"iteration\":1}\n"); /* grows without a lock: a run of another machine */
    step(f);
    assert_true(f->living);
    put(SL_FOLDER_EVENTS, "a", "{\"kind\":\"warned\"}\n{\"kind\":\"failed\",\"why\":\"SIGTERM\"}\n");
    step(f);
    assert_false(f->living);
    assert_int_equal(f->state, SL_FOLDER_WARNED); /* what follows a warning is its end, no failure */
    assert_ok(sl_path_remove(place));
    step(f);
    assert_false(f->there);
    assert_string_equal(k.rows[SL_FOLDER_METRICS], "0 nan nan  0\n1 nan nan  0\n");
    leave(f, &k);
}

static void what_an_earlier_watch_left_at_its_end_is_passed_over(void **state) {
    (void)state;
    keeper k;
    char text[400];
    put(SL_FOLDER_EVENTS, "w", "{\"kind\":\"end\"}\n"); /* of a watch no end */
    put(SL_FOLDER_WATCH, "w", "{\"iterations\":[[3,5.5],[2,1],[4,1e300],[5,7,1]]}");
    put(SL_FOLDER_REPORT, "w", "{\"exit_code\":3}");
    sl_folder *f = follow(&k);
    step(f);
    assert_true(f->is_watch);
    assert_string_equal(k.rows[SL_FOLDER_METRICS], "3 5.5 nan  0\n5 nan nan  0\n");
    assert_int_equal(f->state, SL_FOLDER_FAILED);
    assert_says(f->why, "3");
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path_of(SL_FOLDER_REPORT), old, 0), 0);
    step(f);
    assert_int_equal(f->state, SL_FOLDER_OPEN);
    put(SL_FOLDER_WATCH, "w", "[]");
    step(f);
    assert_true(sl_folder_is_unread(f, SL_FOLDER_WATCH));
    sl_folder_trouble(f, SL_FOLDER_WATCH, text, sizeof text);
    assert_says(text, "watch.json");
    put(SL_FOLDER_METRICS, "w", "{\"iteration\":8}\n"); /* a run begins there */
    step(f);
    assert_false(f->is_watch);
    assert_int_equal(f->state, SL_FOLDER_ENDED); /* now the event is a run's */
    assert_string_equal(k.rows[SL_FOLDER_METRICS], "8 nan nan  0\n");
    leave(f, &k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reading_once_and_following_give_the_same_rows, begin, end),
        cmocka_unit_test_setup_teardown(a_line_without_an_end_is_waited_for_and_taken_by_who_reads_once,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_living_run_is_told_from_a_dead_one_and_a_folder_that_went_keeps_its_rows, begin, end),
        cmocka_unit_test_setup_teardown(what_an_earlier_watch_left_at_its_end_is_passed_over, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
