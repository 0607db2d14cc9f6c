/* The subcommands: one table, one file each. A subcommand prints its results to standard output and
 * everything else to standard error, and returns the exit code (0 done, 1 no answer or failed, 2 wrong
 * request). */
#pragma once

#include "base/option.h"

/* In the order of the help: the name and a description (NULL: not listed). `plan` is sl_command_plan in
 * cmd_plan.c, and its --help prints help/plan.txt. */
#define SL_SUBCOMMANDS(X)                                                                                    \
    X(plan, "plan a pipeline schedule for a problem file")                                                   \
    X(simulate, "time a given order on a problem file")                                                      \
    X(compare, "compare schedules, also over the values of a key")                                           \
    X(profile, "turn a trace of a pipeline into a problem file")                                             \
    X(balance, "split microbatches over replicas of different speed")                                        \
    X(train, "train a model on pipeline ranks and adapt to slow links")                                      \
    X(detect, "change points of a series, or of a recorded call log")                                        \
    X(watch, "find slow links and devices under any MPI or NCCL program")                                    \
    X(validate, "test devices and links individually for slow ones")                                         \
    X(topology, "assign hosts to positions, given slow links and devices")                                   \
    X(campaign, "simulate a long job with faults under several strategies")                                  \
    X(report, "a run's folder as one page: charts, events, gains")                                           \
    X(draw, "plans and runs as pictures for papers: Gantt, memory, links, gains")                            \
    X(dashboard, "a run or a watched job as a live page, and for Prometheus")                                \
    X(doctor, "check the installation and suggest fixes")                                                    \
    X(completion, "completion of commands and options for bash, zsh and fish")                               \
    X(man, "manual pages with the text of --help")                                                           \
    X(formats, NULL) /* the key tables as Markdown, for docs/reference */

#define SL_DECLARE_SUBCOMMAND(name, words)                                                                   \
    int sl_command_##name(int argc, char **argv); /* argv[0] is the name */                                  \
    extern const char sl_help_##name[];
SL_SUBCOMMANDS(SL_DECLARE_SUBCOMMAND)
#undef SL_DECLARE_SUBCOMMAND

typedef struct sl_subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* one line; NULL: not listed */
    const char *text; /* of --help */
} sl_subcommand;

/** In the order of the help; ended by a NULL name. */
extern const sl_subcommand sl_subcommands[];

/** NULL: unknown name. */
const sl_subcommand *sl_subcommand_find(const char *name);

/** Prints to standard error that `word` is unknown, with a suggestion. Returns the exit code. */
int sl_subcommand_refuse(const char *word);

/** Reads the options of the subcommand argv[0] into the fields of `asked`. As sl_options_take; its help goes
 * to standard output. */
sl_status sl_subcommand_options(int argc, char **argv, const sl_option *table, void *asked);
