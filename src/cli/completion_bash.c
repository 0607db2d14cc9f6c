/* Completion for bash. Words that hold = are parted by readline, so a value may stand behind a = of its own.
 */
#include "cli/completion.h"

#include <string.h>

static const char begin[] =
    "# Completion of slackline for bash, made by `slackline completion bash`.\n"
    "_slackline() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
    "    local i options= words= files=\n"
    "    COMPREPLY=()\n"
    "    if [[ $word == = ]]; then\n"
    "        word=\n"
    "    elif [[ $before == = ]] && ((COMP_CWORD > 2)); then\n"
    "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n";

static const char end[] = "    esac\n"
                          "    if [[ $word == -* && $files != yes ]]; then\n"
                          "        words=$options\n"
                          "    fi\n"
                          "    if [[ -n $words ]]; then\n"
                          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
                          "    elif [[ -n $files ]]; then\n"
                          "        compopt -o filenames 2>/dev/null\n"
                          "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
                          "    fi\n"
                          "}\n"
                          "complete -F _slackline slackline\n";

/* The pattern of an option: `-o|--output`. */
static void print_names(const sl_help_option *o, FILE *out) {
    if (o->letter)
        fprintf(out, "-%c%s", o->letter, *o->name ? "|" : "");
    if (*o->name)
        fprintf(out, "--%s", o->name);
}

static void print_options(const sl_completed *one, FILE *out) {
    sl_help_option o;
    fputs("        options='", out);
    for (int at = -1; sl_help_next_option(&one->help, &at, &o);) {
        if (*o.name)
            fprintf(out, "--%s ", o.name);
        if (o.letter)
            fprintf(out, "-%c ", o.letter);
    }
    fputs("--help'\n", out);
}

/* What follows an option that takes something: its values, files, or whatever is typed. */
static void print_arguments(const sl_completed *one, FILE *out) {
    sl_help_option o;
    fputs("        case $before in\n", out);
    for (int at = -1; sl_help_next_option(&one->help, &at, &o);) {
        if (o.kind == SL_HELP_NOTHING)
            continue;
        fputs("        ", out);
        print_names(&o, out);
        if (*o.values)
            fprintf(out, ") words='%s' options=$words ;;\n", o.values);
        else if (o.kind == SL_HELP_FILE || o.kind == SL_HELP_FOLDER)
            fputs(") files=yes ;;\n", out);
        else
            fputs(") return ;;\n", out);
    }
    fputs("        *) ", out);
    if (one->place == SL_HELP_FILE || one->place == SL_HELP_PROGRAM)
        fputs("files=place ;;\n", out);
    else if (one->place == SL_HELP_WORDS)
        fprintf(out, "words='%s' ;;\n", one->values);
    else if (one->place == SL_HELP_COMMAND)
        fputs("words=$commands ;;\n", out);
    else
        fputs("words=$options ;;\n", out);
    fputs("        esac ;;\n", out);
}

/* Behind -- a program and its arguments, as the shell completes them anywhere. */
static void print_program(FILE *out) {
    fputs("        for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "            if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
          "                if ((i + 1 == COMP_CWORD)); then\n"
          "                    mapfile -t COMPREPLY < <(compgen -c -- \"$word\")\n"
          "                else\n"
          "                    compopt -o filenames 2>/dev/null\n"
          "                    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
          "                fi\n"
          "                return\n"
          "            fi\n"
          "        done\n",
          out);
}

void sl_completion_bash(const sl_completed *list, int count, FILE *out) {
    fputs(begin, out);
    fputs("    local commands='", out);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? " " : "", list[i].command->name);
    fputs("'\n    if ((COMP_CWORD == 1)); then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$commands help --help --version\" -- \"$word\")\n"
          "        return\n    fi\n    case $command in\n",
          out);
    for (int i = 0; i < count; i++) {
        fprintf(out, "    %s)\n", list[i].command->name);
        if (list[i].place == SL_HELP_PROGRAM)
            print_program(out);
        print_options(&list[i], out);
        print_arguments(&list[i], out);
    }
    fputs("    help) words=$commands ;;\n", out);
    fputs(end, out);
}
