/* slackline: the command. */
#include "base/signals.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/version.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ROW(name, part) &sl_command_##name,
const sl_command *const sl_commands[] = {SL_COMMANDS(ROW) NULL};
#define PART(name, part) part,
static const char *const parts[] = {SL_COMMANDS(PART)};

#define COMMANDS (sizeof sl_commands / sizeof sl_commands[0] - 1)

/* Former names, which do the same and say so. */
static const struct former {
    const char *name;
    const sl_command *command;
} former[] = {{"profile", &sl_command_import}, {"validate", &sl_command_healthcheck}};

static void print_usage(FILE *out) {
    fprintf(out,
            "slackline %s: keeps pipelined training fast when links or devices slow down\n\n"
            "Usage: slackline COMMAND ...\n\n",
            SL_VERSION);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (i == 0 || strcmp(parts[i], parts[i - 1]) != 0)
            fprintf(out, "%s%s\n", i ? "\n" : "", parts[i]);
        if (sl_commands[i]->summary)
            fprintf(out, "  %-11s %s\n", sl_commands[i]->name, sl_commands[i]->summary);
    }
    fprintf(out, "\nslackline COMMAND --help has details; slackline --version shows the build.\n"
                 "Example: slackline plan examples/four-ranks.yaml\n");
}

static int is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

const sl_command *sl_command_find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(sl_commands[i]->name, name) == 0)
            return sl_commands[i];
    for (size_t i = 0; i < sizeof former / sizeof former[0]; i++)
        if (strcmp(former[i].name, name) == 0)
            return former[i].command;
    return NULL;
}

int sl_command_refuse(const char *word) {
    const char *names[COMMANDS + 4] = {NULL};
    size_t n = 0;
    for (size_t i = 0; i < COMMANDS; i++)
        if (sl_commands[i]->summary)
            names[n++] = sl_commands[i]->name;
    names[n++] = "help";
    names[n++] = "--help";
    names[n] = "--version";
    const char *near = sl_suggest(word, names);
    (void)sl_error(SL_EINVAL, "unknown command '%.200s'; %s%s%s", word, near ? "did you mean '" : "",
                   near ? near : "see slackline --help", near ? "'?" : "");
    fprintf(stderr, "slackline: %s\n", sl_error_text()); /* always one line */
    return 2;
}

sl_status sl_command_options(int argc, char **argv, void *asked) {
    const sl_command *command = sl_command_find(argv[0]);
    sl_options o = {.command = argv[0], .table = command->options, .argc = argc, .argv = argv};
    sl_status status = sl_options_take(&o, asked);
    if (status == SL_DONE)
        sl_help_print(command);
    return status;
}

static int refuse_more(const char *word) {
    (void)sl_error(SL_EINVAL, "unexpected argument '%.200s'; see slackline --help", word);
    fprintf(stderr, "slackline: %s\n", sl_error_text());
    return 2;
}

/* `help COMMAND` is `COMMAND --help`. */
static int run_help(int argc, char **argv) {
    if (argc > 3)
        return refuse_more(argv[3]);
    if (argc < 3 || is_help(argv[2])) {
        print_usage(stdout);
        return 0;
    }
    const sl_command *command = sl_command_find(argv[2]);
    if (!command)
        return sl_command_refuse(argv[2]);
    sl_help_print(command);
    return 0;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (is_help(argv[1]))
        return run_help(argc, argv);
    if (strcmp(argv[1], "--version") == 0) {
        if (argc > 2)
            return refuse_more(argv[2]);
        sl_version_print(stdout);
        return 0;
    }
    const sl_command *command = sl_command_find(argv[1]);
    if (!command)
        return sl_command_refuse(argv[1]);
    if (strcmp(argv[1], command->name) != 0)
        fprintf(stderr, "slackline: '%s' is now named '%s'\n", argv[1], command->name);
    argv[1] = (char *)(uintptr_t)command->name;
    return command->run(argc - 1, argv + 1);
}

/* The command fails if its output could not be written. */
int main(int argc, char **argv) {
    sl_signals_begin(NULL);
    int code = run(argc, argv);
    int lost = ferror(stdout);
    if ((fflush(stdout) != 0 || lost) && code == 0) {
        fprintf(stderr, "slackline: standard output cannot be written: %s\n", strerror(errno));
        return 1;
    }
    return code;
}
