/* The section `fleet` of a campaign file (docs/formats.md) through a config table. */
#include "adapt/campaign/campaign_cells.h"
#include "adapt/campaign/fleet.h"
#include "base/memory.h"
#include "plan/pipeline/kind.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define DAY_S 86400.0

/* The file's values, in its units. */
typedef struct fleet_request {
    double duration_days, work_days, restart_s, check_s, notice_s, checkpoint_s, checkpoint_every_s;
    int spares, has_spares;
    int64_t seed;
    char *faults;
    sl_fleet fleet; /* values that need no conversion are stored here directly */
} fleet_request;

#define AT(field) offsetof(fleet_request, field)
#define OF(field) offsetof(fleet_request, fleet.field)
/* clang-format off */
#define SLOW(what, kind, value, text) {.name = what, .type = SL_KEY_REAL, .standard = value, .offset = OF(slow) + kind * sizeof(double), .minimum = 1, .maximum = 1000, .help = text}
static const sl_key slow_keys[] = {
    SLOW("pcie", SL_FLEET_PCIE, "1.3", "times as long an iteration takes with a host whose devices have fewer PCIe lanes"),
    SLOW("nic", SL_FLEET_NIC, "2", "with a host whose network card runs at a lower speed"),
    SLOW("peer", SL_FLEET_PEER, "1.5", "with a host whose devices reach each other at a lower bandwidth"),
    SLOW("heat", SL_FLEET_HEAT, "1.2", "with a host whose devices throttle"),
    SLOW("drawn", SL_FLEET_DRAWN, "1.5", "with a drawn slow host"),
    {0}};
static const sl_key word_keys[] = {
    {.name = "word", .type = SL_KEY_TEXT, .required = 1, .help = "part of a fault's class or description, in upper or lower case"},
    {.name = "kind", .type = SL_KEY_CHOICE, .required = 1, .choices = sl_fleet_kind_names, .help = "what it means; the first word that fits decides, those of the file first"},
    {0}};
const sl_key sl_fleet_keys[] = {
    {.name = "faults", .type = SL_KEY_TEXT, .offset = AT(faults), .help = "CSV with the faults of hosts (time_days, node, event, level, class, description), relative to this file"},
    {.name = "hosts", .type = SL_KEY_INT, .standard = "0", .offset = OF(hosts), .minimum = 0, .maximum = SL_FLEET_HOSTS, .help = "in all; 0: those that the log names"},
    {.name = "spares", .type = SL_KEY_INT, .standard = "-1", .offset = AT(spares), .minimum = -1, .maximum = SL_FLEET_HOSTS, .help = "of these hosts, not used by the job; -1: one of 25"},
    {.name = "in_order", .type = SL_KEY_BOOL, .standard = "false", .offset = OF(in_order), .help = "the job begins on the first hosts, instead of on drawn ones"},
    {.name = "runs", .type = SL_KEY_INT, .standard = "20", .offset = OF(runs), .minimum = 1, .maximum = SL_FLEET_RUNS, .help = "placements of the job on the hosts, each with its own drawn faults; results are their means"},
    {.name = "duration_days", .type = SL_KEY_REAL, .standard = "0", .offset = AT(duration_days), .minimum = 0, .maximum = 36500, .help = "of the job; 0: until the last line of the log, or ten times work_days"},
    {.name = "work_days", .type = SL_KEY_REAL, .standard = "0", .offset = AT(work_days), .minimum = 0, .maximum = 36500, .help = "the job ends after the work of so many days without faults and checkpoints; 0: after duration_days"},
    {.name = "restart_s", .type = SL_KEY_REAL, .standard = "600", .offset = AT(restart_s), .minimum = 0, .maximum = 1e7, .help = "from the failure of a host to the first iteration, without a check"},
    {.name = "check_s", .type = SL_KEY_REAL, .standard = "120", .offset = AT(check_s), .minimum = 0, .maximum = 1e7, .help = "for a check of all hosts before a start, which finds slow ones"},
    {.name = "notice_s", .type = SL_KEY_REAL, .standard = "60", .offset = AT(notice_s), .minimum = 0, .maximum = 1e7, .help = "until a running job has noticed a slow host"},
    {.name = "checkpoint_s", .type = SL_KEY_REAL, .standard = "60", .offset = AT(checkpoint_s), .minimum = 0, .maximum = 1e7, .help = "that a checkpoint stops the job"},
    {.name = "checkpoint_every_s", .type = SL_KEY_REAL, .standard = "0", .offset = AT(checkpoint_every_s), .minimum = 0, .maximum = 1e9, .help = "work between two checkpoints, at the speed without faults; 0: Daly's optimum"},
    {.name = "slow", .type = SL_KEY_SECTION, .section = slow_keys},
    {.name = "words", .type = SL_KEY_CUSTOM, .is_list = 1, .section = word_keys, .help = "kinds of faults by words of the log"},
    {.name = "failure_days", .type = SL_KEY_REAL, .standard = "0", .offset = OF(failure_days), .minimum = 0, .maximum = 1e6, .help = "mean time between drawn failures of a host, exponential; 0: none"},
    {.name = "repair_hours", .type = SL_KEY_REAL, .standard = "0", .offset = OF(repair_hours), .minimum = 0, .maximum = 1e6, .help = "mean time of a repair, exponential; replaces the ends of the log; required with failure_days"},
    {.name = "crews", .type = SL_KEY_INT, .standard = "0", .offset = OF(crews), .minimum = 0, .maximum = SL_FLEET_HOSTS, .help = "repairs at the same time, with repair_hours; 0: any number"},
    {.name = "slow_days", .type = SL_KEY_REAL, .standard = "0", .offset = OF(slow_days), .minimum = 0, .maximum = 1e6, .help = "mean time until a host becomes slow, exponential; 0: never"},
    {.name = "slow_hours", .type = SL_KEY_REAL, .standard = "24", .offset = OF(slow_hours), .minimum = 1e-6, .maximum = 1e6, .help = "mean time that it stays slow"},
    {.name = "try_spares", .type = SL_KEY_CUSTOM, .help = "numbers of spares that are compared; default: 0 to a quarter of the hosts"},
    {.name = "try_checkpoint_every_s", .type = SL_KEY_CUSTOM, .help = "intervals that are compared; default: Young's, and Daly's from an eighth to eight times"},
    {0}};
static const sl_key file_keys[] = {
    {.name = "fleet", .type = SL_KEY_SECTION, .section = sl_fleet_keys},
    {.name = "seed", .type = SL_KEY_INT64, .standard = "1", .offset = AT(seed), .minimum = 0, .maximum = 9e15, .help = "of placements and drawn faults"},
    {0}};
/* clang-format on */

int sl_fleet_is(const sl_document *document) {
    return document->root->kind == SL_YAML_MAP && sl_yaml_find(document->root, "fleet") != NULL;
}

static sl_time from_s(double s) {
    return (sl_time)llround(s * 1e9);
}

/* ---- lists ---- */

static sl_status check_list(const sl_yaml *list, const char *of) {
    if (list->kind != SL_YAML_LIST || list->children < 1 || list->children > SL_FLEET_POINTS)
        return sl_yaml_error(list, "must be a list of 1 to %d %s", SL_FLEET_POINTS, of);
    return SL_OK;
}

static sl_status read_points(const sl_yaml *section, sl_fleet *f) {
    const sl_yaml *spares = sl_yaml_find(section, "try_spares");
    const sl_yaml *every = sl_yaml_find(section, "try_checkpoint_every_s");
    if (spares)
        SL_TRY(check_list(spares, "numbers"));
    for (int i = 0; spares && i < spares->children; i++) {
        sl_yaml item = *spares->child[i]; /* under the list's name, for error messages */
        int64_t value;
        item.key = spares->key;
        SL_TRY(sl_yaml_int(&item, 0, f->hosts - 1, &value));
        f->try_spares[f->spare_points++] = (int)value;
    }
    if (every)
        SL_TRY(check_list(every, "times"));
    for (int i = 0; every && i < every->children; i++) {
        sl_yaml item = *every->child[i];
        double value;
        item.key = every->key;
        SL_TRY(sl_yaml_real(&item, 1e-3, 1e9, &value));
        f->try_every[f->every_points++] = from_s(value);
    }
    return SL_OK;
}

typedef struct word_item {
    char *word;
    int kind;
} word_item;

static sl_status read_word(const sl_yaml *item, sl_fleet *f) {
    static const sl_key keys[] = {
        {.name = "word", .type = SL_KEY_TEXT, .required = 1, .offset = offsetof(word_item, word)},
        {.name = "kind",
         .type = SL_KEY_CHOICE,
         .required = 1,
         .offset = offsetof(word_item, kind),
         .choices = sl_fleet_kind_names},
        {0}};
    word_item value = {0};
    if (item->kind != SL_YAML_MAP)
        return sl_yaml_error(item, "a word must be a map such as {word: fan, kind: warn}");
    sl_status status = sl_config_read(item, "words", keys, &value);
    if (status == SL_OK && !*value.word)
        status = sl_yaml_error(item, "'word' is empty");
    SL_THEN(status, sl_grow(&f->word, &f->word_room, f->words + 1, sizeof *f->word));
    if (status != SL_OK) {
        sl_free(value.word);
        return status;
    }
    f->word[f->words++] = (sl_fleet_word){value.word, (sl_fleet_kind)value.kind};
    return SL_OK;
}

static sl_status read_words(const sl_yaml *list, sl_fleet *f) {
    if (!list)
        return SL_OK;
    if (list->kind != SL_YAML_LIST)
        return sl_yaml_error(list, "must be a list of words");
    for (int i = 0; i < list->children; i++)
        SL_TRY(read_word(list->child[i], f));
    return SL_OK;
}

/* ---- the log ---- */

static sl_status read_log(const char *file, const char *log, sl_fleet *f) {
    char path[PATH_MAX], *text;
    SL_TRY(sl_cells_load(file, "faults", log, 256 << 20, path, &text));
    sl_status status = sl_fleet_read_csv(path, text, f);
    sl_free(text);
    return status;
}

/* ---- all ---- */

static sl_status check_draws(const sl_yaml *section, const fleet_request *r) {
    const sl_fleet *f = &r->fleet;
    if (f->failure_days > 0 && !(f->repair_hours > 0))
        return sl_yaml_error(sl_yaml_find(section, "failure_days"), "needs 'repair_hours'");
    if (f->crews && !(f->repair_hours > 0))
        return sl_yaml_error(sl_yaml_find(section, "crews"), "needs 'repair_hours'");
    if (f->crews && f->faults && f->failure_days > 0)
        return sl_yaml_error(sl_yaml_find(section, "crews"),
                             "can repair the faults of a log or drawn ones, not both");
    if (!f->faults && !(f->failure_days > 0) && !(f->slow_days > 0))
        return sl_yaml_error(section, "has no faults: it needs 'faults', 'failure_days' or 'slow_days'");
    return SL_OK;
}

static sl_status size_fleet(const sl_yaml *section, fleet_request *r) {
    sl_fleet *f = &r->fleet;
    for (size_t i = 0; i < f->faults; i++)
        if (f->fault[i].host >= f->hosts)
            f->hosts = f->fault[i].host + 1;
    if (f->hosts < 1)
        return sl_yaml_error(section, "has no hosts: it needs 'hosts', or a log with faults");
    f->spares = r->spares < 0 ? f->hosts / 25 : r->spares;
    if (f->spares >= f->hosts)
        return sl_yaml_error(sl_yaml_find(section, "spares"), "must be less than the %d hosts", f->hosts);
    f->work = from_s(r->work_days * DAY_S);
    f->duration = from_s(r->duration_days * DAY_S);
    if (!f->duration)
        f->duration = f->work ? 10 * f->work : f->log_end;
    if (f->duration < 1)
        return sl_yaml_error(section, "has no length: it needs 'duration_days', 'work_days' or a log");
    return SL_OK;
}

static sl_status read_all(const sl_document *document, const char *csv, fleet_request *r) {
    const sl_yaml *section = sl_yaml_find(document->root, "fleet");
    sl_fleet *f = &r->fleet;
    SL_TRY(sl_config_read(document->root, document->file, file_keys, r));
    f->seed = (uint64_t)r->seed;
    f->restart = from_s(r->restart_s);
    f->check = from_s(r->check_s);
    f->notice = from_s(r->notice_s);
    f->save = from_s(r->checkpoint_s);
    f->every = from_s(r->checkpoint_every_s);
    SL_TRY(read_words(section ? sl_yaml_find(section, "words") : NULL, f));
    if (r->faults)
        SL_TRY(read_log(document->file, r->faults, f));
    if (csv)
        SL_TRY(read_log("", csv, f));
    section = section ? section : document->root;
    SL_TRY(check_draws(section, r));
    SL_TRY(size_fleet(section, r));
    return read_points(section, f);
}

sl_status sl_fleet_read(const sl_document *document, const char *csv, sl_fleet *fleet) {
    fleet_request r = {0};
    for (int k = 0; k < SL_FLEET_KINDS; k++)
        r.fleet.slow[k] = 1;
    sl_status status = read_all(document, csv, &r);
    *fleet = r.fleet;
    sl_free(r.faults);
    return status;
}
