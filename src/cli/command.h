/* The subcommands: one table in main.c, one file each. A subcommand prints its results to standard output and
 * everything else to standard error, and returns the exit code (0 done, 1 no answer or failed, 2 wrong
 * request). */
#ifndef SL_CLI_COMMAND_H
#define SL_CLI_COMMAND_H

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
int sl_command_report(int argc, char **argv);
int sl_command_profile(int argc, char **argv);
int sl_command_formats(int argc, char **argv); /* the key tables as Markdown, for docs/formats.md */

#endif
