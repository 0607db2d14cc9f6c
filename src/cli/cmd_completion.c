/* slackline completion: a script for a shell (shells/SHELL.txt), which runs this command at every Tab:
 * `completion SHELL -- WORDS` prints a line for each word that the last of WORDS may become, with its meaning
 * after a tab; or one line for words that the shell completes itself: ":files", ":folders", or ":program" (a
 * program and its arguments, after a -- among WORDS). The answers come from the help texts (help.h) and from
 * the tables of keys that `slackline formats` prints. */
#include "adapt/campaign/campaign.h"
#include "adapt/topology/topology.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/plan_request.h"
#include "run/file/run.h"

#include <stdlib.h>
#include <string.h>

extern const char sl_shell_bash[], sl_shell_fish[], sl_shell_zsh[]; /* shells/, made by the build */

static const struct shell {
    const char *name, *script;
    int expands; /* keys with known values are offered together with them */
} shells[] = {
    {"bash", sl_shell_bash, 0}, {"zsh", sl_shell_zsh, 0}, {"fish", sl_shell_fish, 1}, {NULL, NULL, 0}};

/* The question: the last word, and the prefix before the part to complete (`--format=`). */
typedef struct question {
    const struct shell *shell;
    const sl_subcommand *command;
    sl_help help;
    const char *typed, *front;
} question;

/* ---- single words ---- */

static void offer(const question *q, const char *word, const char *end, const char *about) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s%s", q->front, word, end);
    if (strncmp(whole, q->typed, strlen(q->typed)) == 0)
        printf("%s%s%s\n", whole, *about ? "\t" : "", about);
}

/* Offers each of `values`, separated by blanks, after `key`. */
static void offer_values(const question *q, const char *key, const char *values, const char *about) {
    for (size_t length; (length = strcspn(values, " ")) > 0;) {
        char value[256];
        snprintf(value, sizeof value, "%s%.*s", key, (int)length, values);
        offer(q, value, "", about);
        values += length + strspn(values + length, " ");
    }
}

static void offer_commands(const question *q) {
    for (const sl_subcommand *c = sl_subcommands; c->name; c++)
        if (c->help)
            offer(q, c->name, "", c->help);
}

/* Offers an option with a short description. */
static void offer_option(const question *q, const sl_help_option *o) {
    char about[90], name[] = {'-', o->letter, 0};
    sl_help_words(&q->help, o->block, about, sizeof about);
    about[strcspn(about, ";")] = 0;
    char *bracket = strstr(about, " (default");
    if (bracket)
        *bracket = 0;
    if (o->letter)
        offer(q, name, "", about);
    if (*o->name)
        offer(q, "--", o->name, about);
}

static void offer_options(const question *q) {
    sl_help_option o;
    for (int at = -1; sl_help_next_option(&q->help, &at, &o);)
        offer_option(q, &o);
    offer(q, "--help", "", "say more");
}

/* ---- keys of --set, from rows: | `key` | type | default | meaning: `value`, `value` | ---- */

enum { NAME, TYPE, DEFAULT, MEANING, CELLS };

/* 0: it is not such a row. */
static int part(char *row, char *cell[CELLS]) {
    if (strncmp(row, "| ", 2) != 0)
        return 0;
    row += 2;
    for (int i = 0; i < CELLS; i++) {
        char *end = strstr(row, i + 1 < CELLS ? " | " : " |");
        if (!end)
            return 0;
        *end = 0;
        cell[i] = row;
        row = end + 3;
    }
    return 1;
}

/* A copy without quotes and commas. */
static void strip(const char *text, char *to, size_t size) {
    size_t used = 0;
    for (; *text && used + 1 < size; text++)
        if (*text != '`' && *text != ',')
            to[used++] = *text;
    to[used] = 0;
}

/* The first number of an item in a key, and its number of digits; "0" if there is none. */
static const char *find_item(const char *key, int *digits) {
    for (const char *at = key; (at = strchr(at, '.'));) {
        at++;
        *digits = (int)strspn(at, "0123456789");
        if (*digits > 0 && (at[*digits] == '.' || !at[*digits]))
            return at;
    }
    *digits = 1;
    return "0";
}

/* `faults[].rank` as faults.3.rank if an item's number was typed, else with 0. */
static void name_key(const question *q, const char *cell, char *name, size_t size) {
    int digits;
    const char *item = find_item(q->typed + strlen(q->front), &digits);
    size_t used = 0;
    for (; *cell && used + 16 < size; cell++)
        if (*cell == ']')
            used += (size_t)snprintf(name + used, size - used, ".%.*s", digits < 8 ? digits : 8, item);
        else if (*cell != '`' && *cell != '[')
            name[used++] = *cell;
    name[used] = 0;
}

/* The values of plan --schedule, except the search that no file requests. */
static void name_schedules(char *values, size_t size) {
    sl_help help;
    sl_help_option o;
    *values = 0;
    if (sl_help_parse(sl_help_plan, &help) == SL_OK)
        for (int at = -1; !*values && sl_help_next_option(&help, &at, &o);)
            if (strcmp(o.name, "schedule") == 0)
                snprintf(values, size, "%s", o.values);
    sl_help_free(&help);
    char *search = strstr(values, "optimal ");
    if (search)
        memmove(search, search + strlen("optimal "), strlen(search + strlen("optimal ")) + 1);
}

/* The values of a choice within the meaning of a key; NULL: not a choice. */
static char *find_choices(char *const cell[CELLS]) {
    char *last = strcmp(cell[TYPE], "choice") == 0 ? strstr(cell[MEANING], ": `") : NULL;
    for (char *at = last; at; at = strstr(at + 1, ": `"))
        last = at;
    return last;
}

static void offer_key(const question *q, char *const cell[CELLS]) {
    char name[256], values[512] = "", *choices = find_choices(cell);
    name_key(q, cell[NAME], name, sizeof name);
    const char *dot = strrchr(name, '.');
    if (choices) {
        strip(choices + 2, values, sizeof values);
        *strstr(cell[MEANING], ": `") = 0;
    } else if (strcmp(cell[TYPE], "true or false") == 0) {
        snprintf(values, sizeof values, "true false");
    } else if (strcmp(dot ? dot + 1 : name, "schedule") == 0) {
        name_schedules(values, sizeof values);
    }
    strcat(name, "=");
    int is_valued = strchr(q->typed + strlen(q->front), '=') != NULL;
    if (is_valued || (q->shell->expands && *values))
        offer_values(q, name, values, cell[MEANING]);
    else
        offer(q, name, "", cell[MEANING]);
}

static sl_status offer_keys(const question *q, void (*document)(FILE *out)) {
    sl_leaving memory;
    SL_TRY(sl_leaving_open(NULL, &memory));
    document(memory.out);
    sl_status status = fclose(memory.out) == 0 ? SL_OK : sl_error(SL_ENOMEM, "out of memory for completion");
    char *rest = memory.text, *cell[CELLS];
    for (char *row; status == SL_OK && (row = strsep(&rest, "\n")) != NULL;)
        if (part(row, cell))
            offer_key(q, cell);
    free(memory.text);
    return status;
}

/* A setting of a campaign whose key begins with pipeline. is one of its problem. */
static void document_campaign(FILE *out) {
    sl_campaign_document(out);
    sl_problem_document(out);
}

/* The table of the keys that --set of a command takes. */
static void (*table_of(const char *command))(FILE *out) {
    return strcmp(command, "train") == 0      ? sl_run_document
           : strcmp(command, "topology") == 0 ? sl_cluster_document
           : strcmp(command, "campaign") == 0 ? document_campaign
                                              : sl_problem_document;
}

/* ---- positions ---- */

static sl_status offer_argument(const question *q, const sl_help_option *o) {
    if (strncmp(o->argument, "KEY=", 4) == 0)
        return offer_keys(q, table_of(q->command->name));
    if (*o->values)
        offer_values(q, "", o->values, "");
    else if (o->kind == SL_HELP_FILE || o->kind == SL_HELP_FOLDER)
        puts(o->kind == SL_HELP_FILE ? ":files" : ":folders");
    return SL_OK;
}

/* Finds the option `word` if it takes an argument; *before: length of `word` before a value within it. */
static int find_option(const question *q, const char *word, sl_help_option *o, size_t *before) {
    size_t length = strcspn(word, "=");
    *before = word[length] ? length + 1 : 0;
    for (int at = -1; sl_help_next_option(&q->help, &at, o);) {
        int is_letter = length == 2 && word[0] == '-' && word[1] == o->letter;
        int is_name = strncmp(word, "--", 2) == 0 && length == strlen(o->name) + 2 &&
                      strncmp(word + 2, o->name, length - 2) == 0;
        if ((is_letter || is_name) && o->kind != SL_HELP_NOTHING)
            return 1;
    }
    return 0;
}

/* word[count] follow the command. */
static sl_status answer(question *q, char *const *word, int count) {
    char front[64], values[512];
    sl_help_option o;
    size_t before;
    const sl_help_argument place = sl_help_place(&q->help, values, sizeof values);
    for (int i = 0; i + 1 < count; i++)
        if (strcmp(word[i], "--") == 0 && place == SL_HELP_PROGRAM) {
            puts(":program");
            return SL_OK;
        }
    if (count > 1 && find_option(q, word[count - 2], &o, &before) && before == 0)
        return offer_argument(q, &o);
    if (find_option(q, q->typed, &o, &before) && before > 0) {
        snprintf(front, sizeof front, "%.*s", (int)before, q->typed);
        q->front = front;
        return offer_argument(q, &o);
    }
    if (*q->typed == '-' || place == SL_HELP_NOTHING)
        offer_options(q);
    else if (place == SL_HELP_WORDS)
        offer_values(q, "", values, "");
    else if (place == SL_HELP_COMMAND)
        offer_commands(q);
    else if (place == SL_HELP_FILE)
        puts(":files");
    return SL_OK;
}

static sl_status complete(const struct shell *shell, char *const *word, int count) {
    question q = {.shell = shell, .typed = count > 0 ? word[count - 1] : "", .front = ""};
    if (count <= 1 || strcmp(word[0], "help") == 0) {
        offer_commands(&q);
        if (count <= 1) {
            offer(&q, "help", "", "what a command does");
            offer(&q, "--help", "", "say more");
            offer(&q, "--version", "", "the version, and how it was built");
        }
        return SL_OK;
    }
    q.command = sl_subcommand_find(word[0]);
    if (!q.command)
        return SL_OK;
    sl_status status = sl_help_parse(q.command->text, &q.help);
    SL_THEN(status, answer(&q, word + 1, count - 1));
    sl_help_free(&q.help);
    return status;
}

/* ---- the command ---- */

static const struct shell *find_shell(const char *name) {
    const struct shell *shell = shells;
    while (shell->name && strcmp(shell->name, name) != 0)
        shell++;
    return shell->name ? shell : NULL;
}

/* A shell's name; only one is allowed. */
static sl_status take(const sl_options *o, void *argument) {
    static const char *const names[] = {"bash", "zsh", "fish", NULL};
    const struct shell **shell = argument;
    const char *near = sl_suggest(o->value, names);
    if (*shell)
        return sl_option_too_much(o);
    *shell = find_shell(o->value);
    if (!*shell)
        return sl_error(SL_EINVAL, "completion: no such shell '%.40s'%s%s%s", o->value,
                        near ? "; did you mean '" : "", near ? near : "; there are bash, zsh and fish",
                        near ? "'?" : "");
    return SL_OK;
}

static const sl_option options[] = {SL_OPTION_OWN("", take), SL_OPTIONS_END};

int sl_command_completion(int argc, char **argv) {
    const struct shell *shell = argc > 2 && strcmp(argv[2], "--") == 0 ? find_shell(argv[1]) : NULL;
    if (shell)
        return sl_plan_request_end(complete(shell, argv + 3, argc - 3));
    sl_status status = sl_subcommand_options(argc, argv, options, &shell);
    if (status == SL_OK && !shell)
        status = sl_error(SL_EINVAL, "completion: no shell; see slackline completion --help");
    if (status == SL_OK)
        fputs(shell->script, stdout);
    return sl_plan_request_end(status);
}
