/* slackline completion: scripts for shells, from the help texts (help.h). */
#include "cli/completion.h"
#include "base/memory.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/planning.h"

#include <string.h>

static const char usage[] =
    "Usage: slackline completion bash|zsh|fish\n"
    "\n"
    "Prints a script that completes slackline's commands, options and their values, keys of --set among\n"
    "them, in that shell; an installation brings them. For the shell that is open:\n"
    "\n"
    "    bash   source <(slackline completion bash)\n"
    "    zsh    source <(slackline completion zsh)\n"
    "    fish   slackline completion fish | source\n"
    "\n"
    "Example: slackline completion bash > ~/.local/share/bash-completion/completions/slackline\n";

static const struct shell {
    const char *name;
    void (*write)(const sl_completion *all, FILE *out);
} shells[] = {
    {"bash", sl_completion_bash}, {"zsh", sl_completion_zsh}, {"fish", sl_completion_fish}, {NULL, NULL}};

void sl_completion_words(const sl_help *help, int block, char *text, size_t size) {
    sl_help_words(help, block, text, size);
    text[strcspn(text, ";")] = 0;
    char *bracket = strstr(text, " (default");
    if (bracket)
        *bracket = 0;
}

void sl_completion_quote(FILE *out, const char *text, const char *quote) {
    fputc('\'', out);
    for (; *text; text++)
        if (*text == '\'')
            fputs(quote, out);
        else
            fputc(*text, out);
    fputc('\'', out);
}

static sl_status read_all(sl_completed **list, int *count) {
    int all = 0;
    while (sl_subcommands[all].name)
        all++;
    SL_TRY(sl_alloc(list, (size_t)all, sizeof **list));
    for (const sl_subcommand *c = sl_subcommands; c->name; c++) {
        if (!c->help)
            continue;
        sl_completed *one = &(*list)[(*count)++];
        *one = (sl_completed){.command = c};
        SL_TRY(sl_help_read(c, &one->help));
        one->place = sl_help_place(&one->help, one->values, sizeof one->values);
    }
    return SL_OK;
}

/* What plan --schedule takes, but for the search that no file asks for; "" where its help does not say. */
static void find_schedules(const sl_completion *all, sl_help_option *option) {
    for (int i = 0; i < all->count; i++)
        for (int at = -1; strcmp(all->list[i].command->name, "plan") == 0 &&
                          sl_help_next_option(&all->list[i].help, &at, option);)
            if (strcmp(option->name, "schedule") == 0) {
                char *search = strstr(option->values, "optimal ");
                if (search)
                    memmove(search, search + strlen("optimal "), strlen(search + strlen("optimal ")) + 1);
                return;
            }
    *option = (sl_help_option){0};
}

static sl_status print(const struct shell *shell) {
    sl_completion all = {0};
    sl_help_option schedule = {0};
    sl_status status = read_all(&all.list, &all.count);
    if (status == SL_OK) {
        find_schedules(&all, &schedule);
        status = sl_completion_keys_read(schedule.values, all.table);
    }
    if (status == SL_OK)
        shell->write(&all, stdout);
    for (int i = 0; i < all.count; i++)
        sl_help_free(&all.list[i].help);
    sl_free(all.list);
    sl_completion_keys_free(all.table);
    return status;
}

/* A shell's name; two are too much. */
static sl_status take(const sl_options *o, void *argument) {
    static const char *const names[] = {"bash", "zsh", "fish", NULL};
    const struct shell **shell = argument, *chosen = shells;
    const char *near = sl_suggest(o->value, names);
    while (chosen->name && strcmp(chosen->name, o->value) != 0)
        chosen++;
    if (*shell)
        return sl_option_too_much(o);
    if (!chosen->name)
        return sl_error(SL_EINVAL, "completion: no such shell '%.40s'%s%s%s", o->value,
                        near ? "; did you mean '" : "", near ? near : "; there are bash, zsh and fish",
                        near ? "'?" : "");
    *shell = chosen;
    return SL_OK;
}

static const sl_option options[] = {SL_OPTION_OWN("", take), SL_OPTIONS_END};

int sl_command_completion(int argc, char **argv) {
    const struct shell *shell = NULL;
    sl_options o = {.command = "completion", .table = options, .argc = argc, .argv = argv, .usage = usage};
    sl_status status = sl_options_take(&o, &shell);
    if (o.help)
        return 0;
    if (status == SL_OK && !shell)
        status = sl_error(SL_EINVAL, "completion: no shell; see slackline completion --help");
    return sl_planning_end(status == SL_OK ? print(shell) : status);
}
