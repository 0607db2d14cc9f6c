/* The subcommands: one file each, which describes it as data: --help (help.h), the manual page (cmd_man.c)
 * and completion (cmd_completion.c) are made from that. A subcommand prints its results to standard output
 * and everything else to standard error, and returns the exit code (0 done, 1 no answer or failed, 2 wrong
 * request). */
#pragma once

#include "base/option.h"

/* Texts have no line breaks of their own: what shows them fills lines. Paragraphs, and examples, end with \n
 * if another follows; one that begins with a space is not filled. */
typedef struct sl_command {
    const char *name;
    const char *summary;      /* one line; NULL: the command is not listed */
    const char *about;        /* paragraphs before the options */
    const sl_option *options; /* its table */
    const char *list_title;   /* of names and their meanings, shown after the options; NULL: none */
    sl_value_list list;
    const char *notes;                 /* paragraphs after that; NULL: none */
    const char *exit_code;             /* NULL: the usual 0, 1 and 2 */
    const char *example;               /* command lines */
    int (*run)(int argc, char **argv); /* argv[0] is the name */
} sl_command;

/* In the order of the help, with the part of it that each belongs to. */
#define SL_COMMANDS(X)                                                                                       \
    X(plan, "Plan")                                                                                          \
    X(simulate, "Plan")                                                                                      \
    X(check, "Plan")                                                                                         \
    X(compare, "Plan")                                                                                       \
    X(choose, "Plan")                                                                                        \
    X(import, "Plan")                                                                                        \
    X(demo, "Run")                                                                                           \
    X(train, "Run")                                                                                          \
    X(report, "Run")                                                                                         \
    X(draw, "Run")                                                                                           \
    X(dashboard, "Run")                                                                                      \
    X(watch, "Diagnose")                                                                                     \
    X(detect, "Diagnose")                                                                                    \
    X(explain, "Diagnose")                                                                                   \
    X(healthcheck, "Diagnose")                                                                               \
    X(topology, "Cluster")                                                                                   \
    X(balance, "Cluster")                                                                                    \
    X(campaign, "Cluster")                                                                                   \
    X(doctor, "Set-up")                                                                                      \
    X(completion, "Set-up")                                                                                  \
    X(man, "Set-up")                                                                                         \
    X(formats, "Set-up")

#define SL_DECLARE_COMMAND(name, part) extern const sl_command sl_command_##name;
SL_COMMANDS(SL_DECLARE_COMMAND)
#undef SL_DECLARE_COMMAND

/** In that order; ended by NULL. */
extern const sl_command *const sl_commands[];

/** Also by a former name. NULL: unknown name. */
const sl_command *sl_command_find(const char *name);

/** Prints to standard error that `word` is unknown, with a suggestion. Returns the exit code. */
int sl_command_refuse(const char *word);

/** Reads the options of the subcommand argv[0] into the fields of `asked`. As sl_options_take; its help is
 * printed. */
sl_status sl_command_options(int argc, char **argv, void *asked);

/* Rows that several tables have. `visit` gives the keys of the file that `file` names. */
#define SL_OPTION_SET(object, field, visit, file)                                                            \
    SL_OPTION("set", TEXTS, object, field, "KEY=VALUE", "change a key of " file ", by its dotted path",      \
              .keys = visit)
#define SL_OPTION_OUTPUT(object, field)                                                                      \
    SL_OPTION("output", TEXT, object, field, "FILE",                                                         \
              "write there instead of to standard output, completely or not at all; FILE.gz is packed",      \
              .letter = 'o', .completes = SL_COMPLETES_FILE)
#define SL_OPTION_SEED(object, field, of)                                                                    \
    SL_OPTION("seed", SEED, object, field, "N", "of " of, .standard = "1")
#define SL_OPTION_TOKEN(object, field)                                                                       \
    SL_OPTION(                                                                                               \
        "token", OWN, object, field, "TOKEN",                                                                \
        "required from clients, 8 to 128 letters, digits, - . _ ~ (default: none on a loopback address, "    \
        "else a new one in the printed address); @FILE reads it from a file",                                \
        .take = sl_token_take)
#define SL_OPTION_TLS(object, field)                                                                         \
    SL_OPTION("tls", TEXT, object, field, "FILE",                                                            \
              "https only, with the certificate and private key in this PEM file, which only you may read",  \
              .completes = SL_COMPLETES_FILE)
#define SL_STORE_URL_HELP                                                                                    \
    "redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], rediss://... or unix:PATH; @FILE reads it from a "    \
    "file, which keeps a password out of the list of processes"
#define SL_OPTION_TIME_LIMIT(object, field, meaning, ...)                                                    \
    SL_OPTION("time-limit", REAL, object, field, "S", meaning, .most = 1e6, .words = "seconds", __VA_ARGS__)
