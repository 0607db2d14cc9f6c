/* Messages may be reworded, so tests look for the facts of an expected text only: numbers, names in quotes,
 * and words with a capital or a sign in them (files, keys, options, addresses). All other words are free, as
 * in missing() of runner.py. */
#ifndef SL_TESTS_FACTS_H
#define SL_TESTS_FACTS_H

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { FACT_MAX = 200 };

static inline int is_fact(const char *word, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (isdigit((unsigned char)word[i]) || isupper((unsigned char)word[i]) || strchr("_/=@.", word[i]))
            return 1;
    return length > 2 && memcmp(word, "--", 2) == 0;
}

/* A fact begins and ends where a word does: 1.5 is not in 11.5 or 1.55. */
static inline int has_fact(const char *text, const char *fact, size_t length) {
    for (const char *at = text; *at; at++)
        if (strncmp(at, fact, length) == 0 &&
            (at == text || !isalnum((unsigned char)at[-1]) || !isalnum((unsigned char)*fact)) &&
            !isalnum((unsigned char)at[length]) &&
            !(at > text + 1 && at[-1] == '.' && isdigit((unsigned char)*fact) &&
              isdigit((unsigned char)at[-2])) &&
            !(at[length] == '.' && isdigit((unsigned char)at[length + 1])))
            return 1;
    return 0;
}

/* A fact of `part` that `text` lacks, valid until the next call; NULL: none. */
static inline const char *missing_fact(const char *text, const char *part) {
    static char fact[FACT_MAX];
    while (*part) {
        int quoted = *part == '\'' && strchr(part + 1, '\'') && !isspace((unsigned char)part[1]);
        const char *begin = part + quoted,
                   *end = quoted ? strchr(begin, '\'') : begin + strcspn(begin, " \n'");
        part = end + (*end != 0);
        while (begin < end && !quoted && !isalnum((unsigned char)*begin) && !strchr("/.-@_", *begin))
            begin++;
        while (begin < end && !quoted && !isalnum((unsigned char)end[-1]))
            end--;
        size_t length = (size_t)(end - begin);
        if (length == 0 || (!quoted && !is_fact(begin, length)) || has_fact(text, begin, length))
            continue;
        snprintf(fact, sizeof fact, "%.*s", (int)length, begin);
        return fact;
    }
    return NULL;
}

/* Whether a line of `text` that has `name` in it has the facts of `part`. */
static inline int line_has(const char *text, const char *name, const char *part) {
    char line[1000];
    for (const char *end; *text; text = end + (*end != 0)) {
        end = text + strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(end - text), text);
        if (strstr(line, name) && !missing_fact(line, part))
            return 1;
    }
    return 0;
}

#endif
