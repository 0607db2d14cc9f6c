/* slackline: the command. */
#include "base/signals.h"
#include "base/status.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/version.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const sl_subcommand sl_subcommands[] = {
    {"plan", sl_command_plan, "plan a pipeline schedule for a problem file"},
    {"simulate", sl_command_simulate, "time anybody's order on a problem file"},
    {"compare", sl_command_compare, "compare schedules, also over the values of a key"},
    {"profile", sl_command_profile, "turn a trace of a pipeline into a problem file"},
    {"balance", sl_command_balance, "divide microbatches among replicas of different speed"},
    {"train", sl_command_train, "train a model on pipeline ranks, adapting to slow links"},
    {"detect", sl_command_detect, "change points of a series, or of a recorded call log"},
    {"watch", sl_command_watch, "find what makes an unchanged MPI or NCCL program slow"},
    {"validate", sl_command_validate, "find slow devices and links, each tested on its own"},
    {"topology", sl_command_topology, "which host should sit where, given slow links and devices"},
    {"campaign", sl_command_campaign, "simulate a long job with faults under several strategies"},
    {"report", sl_command_report, "a run's folder as one page: pictures, events, what was gained"},
    {"draw", sl_command_draw, "plans and runs as pictures for papers: Gantt, memory, links, gains"},
    {"dashboard", sl_command_dashboard, "a run or a watched job as a live page, and for Prometheus"},
    {"doctor", sl_command_doctor, "what is present here, what is missing, and what that means"},
    {"completion", sl_command_completion, "completion of commands and options for bash, zsh and fish"},
    {"man", sl_command_man, "manual pages, made from what --help says"},
    {"formats", sl_command_formats, NULL},
    {NULL, NULL, NULL},
};

#define COMMANDS (sizeof sl_subcommands / sizeof sl_subcommands[0] - 1)

static void print_usage(FILE *out) {
    fprintf(out,
            "slackline %s: keeps pipeline-parallel training fast when links turn slow\n\nUsage: slackline "
            "COMMAND ...\n\n",
            SL_VERSION);
    for (size_t i = 0; i < COMMANDS; i++)
        if (sl_subcommands[i].help)
            fprintf(out, "  %-10s %s\n", sl_subcommands[i].name, sl_subcommands[i].help);
    fprintf(out, "\nslackline COMMAND --help says more; slackline --version, how this one was built.\n"
                 "Example: slackline plan examples/four-ranks.yaml\n");
}

static int is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

const sl_subcommand *sl_subcommand_find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(sl_subcommands[i].name, name) == 0)
            return &sl_subcommands[i];
    return NULL;
}

int sl_subcommand_refuse(const char *word) {
    const char *names[COMMANDS + 4] = {NULL};
    size_t n = 0;
    for (size_t i = 0; i < COMMANDS; i++)
        if (sl_subcommands[i].help)
            names[n++] = sl_subcommands[i].name;
    names[n++] = "help";
    names[n++] = "--help";
    names[n] = "--version";
    const char *near = sl_suggest(word, names);
    (void)sl_error(SL_EINVAL, "'%.200s' is no command; %s%s%s", word, near ? "did you mean '" : "",
                   near ? near : "see slackline --help", near ? "'?" : "");
    fprintf(stderr, "slackline: %s\n", sl_error_text()); /* one line, whatever was typed */
    return 2;
}

static int refuse_more(const char *word) {
    (void)sl_error(SL_EINVAL, "'%.200s' is too much; see slackline --help", word);
    fprintf(stderr, "slackline: %s\n", sl_error_text());
    return 2;
}

static int help_of(const sl_subcommand *command) {
    char option[] = "--help", *words[] = {(char *)(uintptr_t)command->name, option, NULL};
    return sl_help_narrow(command) ? 0 : command->run(2, words);
}

/* `help COMMAND` is `COMMAND --help`. */
static int run_help(int argc, char **argv) {
    if (argc > 3)
        return refuse_more(argv[3]);
    if (argc < 3 || is_help(argv[2])) {
        print_usage(stdout);
        return 0;
    }
    const sl_subcommand *command = sl_subcommand_find(argv[2]);
    return command ? help_of(command) : sl_subcommand_refuse(argv[2]);
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
    const sl_subcommand *command = sl_subcommand_find(argv[1]);
    if (command && argc == 3 && argv[2][0] == '-' && is_help(argv[2]))
        return help_of(command);
    return command ? command->run(argc - 1, argv + 1) : sl_subcommand_refuse(argv[1]);
}

/* Whatever was printed has arrived, or the command has failed. */
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
