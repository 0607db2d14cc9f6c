/* Which jobs a server has, by the names of their keys. */
#include "base/memory.h"
#include "notice/store/store.h"
#include "notice/store/store_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 256 };

typedef struct job_listing {
    char **job;
    size_t count, room;
} job_listing;

/* slackline:JOB:SIGN...; a job's name may contain colons, so the last occurrence of the sign counts. */
static sl_status add(job_listing *l, const char *key, const char *sign) {
    static const char prefix[] = "slackline:";
    const char *name = key + sizeof prefix - 1, *end = NULL;
    if (strncmp(key, prefix, sizeof prefix - 1) != 0)
        return SL_OK;
    for (const char *at = strchr(name, ':'); at; at = strchr(at + 1, ':'))
        if (strncmp(at + 1, sign, strlen(sign)) == 0) {
            end = at;
            break;
        }
    if (!end || end == name || l->count == JOBS)
        return SL_OK;
    size_t length = (size_t)(end - name);
    for (size_t i = 0; i < l->count; i++)
        if (strlen(l->job[i]) == length && memcmp(l->job[i], name, length) == 0)
            return SL_OK;
    SL_TRY(sl_grow(&l->job, &l->room, l->count + 1, sizeof *l->job));
    SL_TRY(sl_alloc(&l->job[l->count], length + 1, 1));
    memcpy(l->job[l->count++], name, length);
    return SL_OK;
}

static sl_status add_all(job_listing *l, const redisReply *keys, const char *sign) {
    for (size_t i = 0; keys && keys->type == REDIS_REPLY_ARRAY && i < (size_t)keys->elements; i++)
        if (keys->element[i]->type == REDIS_REPLY_STRING)
            SL_TRY(add(l, keys->element[i]->str, sign));
    return SL_OK;
}

static sl_status scan(sl_store_link *link, const char *sign, sl_time patience, job_listing *l) {
    char pattern[64], cursor[32] = "0";
    snprintf(pattern, sizeof pattern, "slackline:*:%s*", sign);
    do {
        redisReply *reply;
        const char *word[] = {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"};
        const size_t size[] = {4, strlen(cursor), 5, strlen(pattern), 5, 4};
        SL_TRY(sl_store_link_ask(link, 6, word, size, patience, &reply));
        int whole = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                    reply->element[0]->type == REDIS_REPLY_STRING;
        snprintf(cursor, sizeof cursor, "%s", whole ? reply->element[0]->str : "0");
        sl_status status = whole ? add_all(l, reply->element[1], sign) : SL_OK;
        freeReplyObject(reply);
        SL_TRY(status);
    } while (strcmp(cursor, "0") != 0);
    return SL_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

sl_status sl_store_jobs(const char *url, const char *sign, sl_time patience, char ***job, size_t *count) {
    sl_store_link link;
    job_listing l = {0};
    *job = NULL;
    *count = 0;
    SL_TRY(sl_store_link_open(url, &link));
    sl_status status = scan(&link, sign, patience > 0 ? patience : SL_SECOND, &l);
    sl_store_link_close(&link);
    if (status != SL_OK) {
        for (size_t i = 0; i < l.count; i++)
            sl_free(l.job[i]);
        sl_free(l.job);
        return status;
    }
    if (l.count)
        qsort(l.job, l.count, sizeof *l.job, by_name);
    *job = l.job;
    *count = l.count;
    return SL_OK;
}
