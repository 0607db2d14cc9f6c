/* slackline: the command. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

static const struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* NULL: not listed */
} subcommands[] = {
    {"plan", sl_command_plan, "plan a pipeline schedule for a problem file"},
    {"simulate", sl_command_simulate, "time anybody's order on a problem file"},
    {"train", sl_command_train, "train a model on pipeline ranks, adapting to slow links"},
    {"formats", sl_command_formats, NULL},
};

static void print_usage(FILE *out) {
    fprintf(out, "slackline %s: keeps pipeline-parallel training fast when links turn slow\n\nUsage: slackline COMMAND ...\n\n",
            SL_VERSION);
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        if (subcommands[i].help)
            fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].help);
    fprintf(out, "\nslackline COMMAND --help says more. Example: slackline plan examples/four-ranks.yaml\n");
}

/* The subcommand that differs in the fewest leading or swapped letters: same first letter, or one contains the other. */
static const char *suggest(const char *word) {
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++) {
        const char *name = subcommands[i].name;
        if (subcommands[i].help && (strstr(name, word) || strstr(word, name) || strncmp(name, word, 2) == 0))
            return name;
    }
    return NULL;
}

int main(int argc, char **argv) {
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
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        if (strcmp(argv[1], subcommands[i].name) == 0)
            return subcommands[i].run(argc - 1, argv + 1);
    const char *near = suggest(argv[1]);
    fprintf(stderr, "slackline: '%s' is no command%s%s%s; see slackline --help\n", argv[1], near ? "; did you mean '" : "",
            near ? near : "", near ? "'?" : "");
    return 2;
}
