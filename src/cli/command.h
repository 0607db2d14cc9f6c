/* The subcommands: one table in main.c, one file each. A subcommand prints its results to standard output and
 * everything else to standard error, and returns the exit code (0 done, 1 no answer or failed, 2 wrong
 * request). */
#ifndef SL_CLI_COMMAND_H
#define SL_CLI_COMMAND_H

typedef struct sl_subcommand {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name */
    const char *help;                  /* one line; NULL: not listed */
} sl_subcommand;

/** In the order of the help; ended by a name NULL. */
extern const sl_subcommand sl_subcommands[];

/** NULL: there is none of this name. */
const sl_subcommand *sl_subcommand_find(const char *name);

/** Says on standard error that `word` is none, and which one may be meant; the exit code. */
int sl_subcommand_refuse(const char *word);

int sl_command_plan(int argc, char **argv);
int sl_command_simulate(int argc, char **argv);
int sl_command_compare(int argc, char **argv);
int sl_command_train(int argc, char **argv);
int sl_command_balance(int argc, char **argv);
int sl_command_detect(int argc, char **argv);
int sl_command_watch(int argc, char **argv);
int sl_command_validate(int argc, char **argv);
int sl_command_topology(int argc, char **argv);
int sl_command_campaign(int argc, char **argv);
int sl_command_draw(int argc, char **argv);
int sl_command_report(int argc, char **argv);
int sl_command_dashboard(int argc, char **argv);
int sl_command_profile(int argc, char **argv);
int sl_command_doctor(int argc, char **argv);
int sl_command_completion(int argc, char **argv);
int sl_command_man(int argc, char **argv);
int sl_command_formats(int argc, char **argv); /* the key tables as Markdown, for docs/reference */

#endif
