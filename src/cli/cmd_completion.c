/* slackline completion: a script for a shell (shells/SHELL.txt), which runs this command at every Tab:
 * `completion SHELL -- WORDS` prints a line for each word that the last of WORDS may become, with its meaning
 * after a tab; or one line for words that the shell completes itself: ":files", ":folders", or ":program" (a
 * program and its arguments, after a -- among WORDS). The answers come from the descriptions of the commands
 * (command.h) and from the tables of keys (base/config.h). */
#include "base/suggest.h"
#include "cli/help.h"
#include "cli/plan_request.h"

#include <stdio.h>
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
    const sl_option *options; /* of the command */
    const char *typed, *front;
} question;

/* ---- single words ---- */

static void offer(const question *q, const char *word, const char *end, const char *about) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s%s", q->front, word, end);
    if (strncmp(whole, q->typed, strlen(q->typed)) == 0)
        printf("%s%s%s\n", whole, *about ? "\t" : "", about);
}

static void offer_commands(const question *q) {
    for (const sl_command *const *c = sl_commands; *c; c++)
        if ((*c)->summary)
            offer(q, (*c)->name, "", (*c)->summary);
}

/* Offers an option with a short description. */
static void offer_option(const question *q, const sl_option *o) {
    enum { ABOUT_MAX = 90 };
    const int size = (int)strcspn(o->help, ";");
    char about[ABOUT_MAX], name[] = {'-', o->letter, 0};
    snprintf(about, sizeof about, "%.*s", size, o->help);
    if (size >= ABOUT_MAX) /* cut after a word */
        *strrchr(about, ' ') = 0;
    if (o->letter)
        offer(q, name, "", about);
    offer(q, "--", o->name, about);
}

static void offer_options(const question *q) {
    for (const sl_option *o = q->options; o->name; o++)
        if (sl_help_shows(o))
            offer_option(q, o);
    offer(q, "--help", "", "say more");
}

static void offer_values(const question *q, const sl_option *o) {
    char room[SL_VALUE_ROOM];
    sl_value value;
    for (int i = 0; sl_option_value(o, i, &value, room); i++)
        offer(q, value.name, "", value.help ? value.help : "");
}

/* ---- keys of --set ---- */

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
static void name_key(const question *q, const char *path, const sl_key *key, char *name, size_t size) {
    int digits;
    const char *item = find_item(q->typed + strlen(q->front), &digits);
    size_t used = 0;
    for (; *path && used + 16 < size; path++)
        if (*path == ']')
            used += (size_t)snprintf(name + used, size - used, ".%.*s", digits < 8 ? digits : 8, item);
        else if (*path != '[')
            name[used++] = *path;
    snprintf(name + used, size - used, "%s=", key->name);
}

/* The value number `index` of a key; NULL: there are fewer, or they are not known. */
static const char *value_of(const sl_key *key, int index) {
    static const char *const truth[] = {"true", "false"};
    sl_value schedule;
    char room[SL_VALUE_ROOM];
    if (key->type == SL_KEY_CHOICE)
        return key->choices[index];
    if (key->type == SL_KEY_BOOL)
        return index < 2 ? truth[index] : NULL;
    if (strcmp(key->name, "schedule") != 0)
        return NULL;
    /* those of plan --schedule, except the search that no file requests */
    return sl_schedules_list(index + (index > 0), &schedule, room) ? schedule.name : NULL;
}

static void offer_key(const char *path, const sl_key *key, void *context) {
    const question *q = context;
    char name[256];
    const char *value, *about = key->help ? key->help : "";
    const int is_valued = strchr(q->typed + strlen(q->front), '=') != NULL;
    name_key(q, path, key, name, sizeof name);
    if (!is_valued && !(q->shell->expands && value_of(key, 0))) {
        offer(q, name, "", about);
        return;
    }
    for (int i = 0; (value = value_of(key, i)) != NULL; i++)
        offer(q, name, value, about);
}

/* ---- positions ---- */

static void offer_argument(question *q, const sl_option *o) {
    if (o->keys)
        o->keys(offer_key, q);
    else if (o->completes == SL_COMPLETES_COMMAND)
        offer_commands(q);
    else if (o->completes != SL_COMPLETES_NOTHING)
        puts(o->completes == SL_COMPLETES_FILE ? ":files" : ":folders");
    else
        offer_values(q, o);
}

/* The option `word` if it takes an argument, else NULL; *before: length of `word` before a value within it.
 */
static const sl_option *find_option(const question *q, const char *word, size_t *before) {
    size_t length = strcspn(word, "=");
    *before = word[length] ? length + 1 : 0;
    for (const sl_option *o = q->options; o->name; o++) {
        int is_letter = length == 2 && word[0] == '-' && o->letter && word[1] == o->letter;
        int is_name = strncmp(word, "--", 2) == 0 && *o->name && length == strlen(o->name) + 2 &&
                      strncmp(word + 2, o->name, length - 2) == 0;
        if ((is_letter || is_name) && o->kind != SL_TAKES_FLAG && o->kind != SL_TAKES_NO)
            return o;
    }
    return NULL;
}

/* word[count] follow the command. */
static void answer(question *q, char *const *word, int count) {
    char front[64];
    size_t before;
    const sl_option *words = sl_options_words(q->options), *o;
    const int is_program = words && words->kind == SL_TAKES_PROGRAM;
    for (int i = 0; i + 1 < count; i++)
        if (strcmp(word[i], "--") == 0 && is_program) {
            puts(":program");
            return;
        }
    if (count > 1 && (o = find_option(q, word[count - 2], &before)) != NULL && before == 0) {
        offer_argument(q, o);
    } else if ((o = find_option(q, q->typed, &before)) != NULL && before > 0) {
        snprintf(front, sizeof front, "%.*s", (int)before, q->typed);
        q->front = front;
        offer_argument(q, o);
    } else if (*q->typed == '-' || !words) {
        offer_options(q);
    } else if (!is_program) {
        offer_argument(q, words);
    }
}

static void complete(const struct shell *shell, char *const *word, int count) {
    question q = {.shell = shell, .typed = count > 0 ? word[count - 1] : "", .front = ""};
    const sl_command *command = count > 1 ? sl_command_find(word[0]) : NULL;
    if (count <= 1 || strcmp(word[0], "help") == 0) {
        offer_commands(&q);
        if (count <= 1) {
            offer(&q, "help", "", "what a command does");
            offer(&q, "--help", "", "say more");
            offer(&q, "--version", "", "the version, and how it was built");
        }
    } else if (command) {
        q.options = command->options;
        answer(&q, word + 1, count - 1);
    }
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
    const char *known[sizeof shells / sizeof shells[0]] = {NULL};
    const struct shell **shell = argument;
    for (int i = 0; shells[i].name; i++)
        known[i] = shells[i].name;
    const char *near = sl_suggest(o->value, known);
    if (*shell)
        return sl_option_too_much(o);
    *shell = find_shell(o->value);
    if (!*shell)
        return sl_error(SL_EINVAL, "completion: no such shell '%.40s'%s%s%s", o->value,
                        near ? "; did you mean '" : "", near ? near : "; there are bash, zsh and fish",
                        near ? "'?" : "");
    return SL_OK;
}

static int list_shells(int index, sl_value *value, char room[SL_VALUE_ROOM]) {
    (void)room;
    *value = (sl_value){.name = shells[index].name};
    return value->name != NULL;
}

static const sl_option options[] = {SL_OPTION_OWN("", take, NULL, NULL, .list = list_shells, .required = 1),
                                    SL_OPTIONS_END};

static int completion(int argc, char **argv) {
    const struct shell *shell = argc > 2 && strcmp(argv[2], "--") == 0 ? find_shell(argv[1]) : NULL;
    if (shell) {
        complete(shell, argv + 3, argc - 3);
        return 0;
    }
    sl_status status = sl_command_options(argc, argv, &shell);
    if (status == SL_OK && !shell)
        status = sl_error(SL_EINVAL, "completion: no shell; see slackline completion --help");
    if (status == SL_OK)
        fputs(shell->script, stdout);
    return sl_plan_request_end(status);
}

const sl_command sl_command_completion = {
    .name = "completion",
    .summary = "completion of commands and options for bash, zsh and fish",
    .about = "Prints a shell script that completes slackline's commands, options and their values, including "
             "keys of --set; installed packages contain them. For the current shell:\n"
             "    bash   source <(slackline completion bash)\n"
             "    zsh    source <(slackline completion zsh)\n"
             "    fish   slackline completion fish | source",
    .options = options,
    .example = "slackline completion bash > ~/.local/share/bash-completion/completions/slackline",
    .run = completion};
