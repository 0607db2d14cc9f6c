/* slackline: the command. */
#include "cli/command.h"
#include "cli/suggest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* NULL: not listed */
} subcommands[] = {
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
    {"formats", sl_command_formats, NULL},
};

#define COMMANDS (sizeof subcommands / sizeof subcommands[0])

static void print_usage(FILE *out) {
    fprintf(out,
            "slackline %s: keeps pipeline-parallel training fast when links turn slow\n\nUsage: slackline "
            "COMMAND ...\n\n",
            SL_VERSION);
    for (size_t i = 0; i < COMMANDS; i++)
        if (subcommands[i].help)
            fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].help);
    fprintf(out, "\nslackline COMMAND --help says more. Example: slackline plan examples/four-ranks.yaml\n");
}

static const struct subcommand *find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(subcommands[i].name, name) == 0)
            return &subcommands[i];
    return NULL;
}

static int refuse(const char *word) {
    const char *names[COMMANDS + 1] = {NULL};
    for (size_t i = 0, n = 0; i < COMMANDS; i++)
        if (subcommands[i].help)
            names[n++] = subcommands[i].name;
    const char *near = sl_suggest(word, names);
    fprintf(stderr, "slackline: '%s' is no command%s%s%s; see slackline --help\n", word,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return 2;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("slackline %s\n", SL_VERSION);
        return 0;
    }
    const struct subcommand *command = find(argv[1]);
    return command ? command->run(argc - 1, argv + 1) : refuse(argv[1]);
}

/* Whatever was printed has arrived, or the command has failed. */
int main(int argc, char **argv) {
    int code = run(argc, argv);
    int lost = ferror(stdout);
    if ((fflush(stdout) != 0 || lost) && code == 0) {
        fprintf(stderr, "slackline: standard output cannot be written: %s\n", strerror(errno));
        return 1;
    }
    return code;
}
