/* Training text: files read into one sequence of tokens (bytes, or a tokenizer's ids), with a tail held out
 * for validation. The window of each sequence is a pure function of (seed, iteration, microbatch, sequence),
 * so ranks, restarts and schedules do not change what is learned. The text is in host memory, once per
 * process. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct sl_data sl_data;

/* The contents of a file: one token per byte, or per two bytes, low byte first. */
typedef enum sl_data_tokens { SL_DATA_BYTES, SL_DATA_UINT16 } sl_data_tokens;

typedef struct sl_data_config {
    char *const
        *patterns; /* glob patterns; their matches are read pattern by pattern, each in byte order of names */
    int pattern_count;
    uint64_t seed;
    double held_out; /* share of the text kept for validation, 0 < held_out < 1 */
    sl_data_tokens tokens;
    int vocabulary;   /* a token must be below it; 0: any */
    int context;      /* tokens of a sequence; its targets are the same window one token later */
    int batch;        /* sequences of a microbatch */
    int microbatches; /* of an iteration, over all replicas */
} sl_data_config;

/** Reads the files. A file matched twice (two patterns, a link) is read once; a directory that matches a
 * wildcard is skipped. SL_EINVAL names the pattern or file that is missing, unreadable, empty, of an odd
 * size with uint16, or holds a token outside the vocabulary (and where), or gives the number of tokens if
 * there are too few: training needs context + 1 of them, the tail one microbatch of batch * context + 1 (its
 * minimum length). */
sl_status sl_data_open(const sl_data_config *config, sl_data **data);
void sl_data_close(sl_data *data);

/** tokens and targets [batch][context] of a global microbatch of an iteration; either may be NULL. Windows
 * are adjacent and read cyclically, each once per epoch, in an order that the seed shuffles again for every
 * epoch. Never fails. */
void sl_data_batch(const sl_data *data, int64_t iteration, int microbatch, uint16_t *tokens,
                   uint16_t *targets);

/** The held-out tail as that many microbatches of consecutive windows, and one of them. */
int sl_data_validation_batches(const sl_data *data);
void sl_data_validation_batch(const sl_data *data, int index, uint16_t *tokens, uint16_t *targets);

/** First token of the window that sequence number `n` since the start of the training reads. */
size_t sl_data_window(const sl_data *data, uint64_t n);

/** For training and validation. */
size_t sl_data_all_tokens(const sl_data *data);

/** xxh64 of the whole text: independent of the names of its files. */
uint64_t sl_data_checksum(const sl_data *data);

/** Entropy of single tokens of the whole text, in nats per token (divide by log 2 for bits): the lower bound
 * for a model without context. */
double sl_data_entropy(const sl_data *data);
