/* Shared by the files of the CSV reader. csv_cells.c turns lines into ops and into the cells that PyTorch
 * puts between them; csv_comms.c compares sends and receives with the ops and with each other; csv_shards.c
 * checks the sharding cells. Every error names the file's line and column, and the cell. */
#pragma once

#include "plan/pipeline/order.h"

/* Of an order: all ops that a problem may have, with their messages. */
#define SL_CSV_BYTES_MAX (1 << 30)

/* A cell of the file and its position. */
typedef struct sl_csv_cell {
    const char *file;
    int line, column;
    const char *text; /* ended by 0, without blanks around */
} sl_csv_cell;

/* SEND_F, RECV_F, SEND_B or RECV_B. */
typedef struct sl_csv_comm {
    int32_t stage, microbatch;
    int backward, receive;
    int peer;   /* rank at the other end */
    int before; /* number of the rank's ops before it */
    int line, column;
} sl_csv_comm;

typedef enum sl_csv_sharding { SL_CSV_UNSHARD, SL_CSV_RESHARD, SL_CSV_REDUCE_GRAD } sl_csv_sharding;

typedef struct sl_csv_shard {
    int32_t stage;
    sl_csv_sharding kind;
    int before;
    int line, column;
} sl_csv_shard;

typedef struct sl_csv_row {
    int line;
    int *column; /* [op] cell that it came from */
    sl_csv_comm *comm;
    size_t comms, comm_capacity;
    sl_csv_shard *shard;
    size_t shards, shard_capacity;
} sl_csv_row;

typedef struct sl_csv_reader {
    const sl_problem *problem;
    sl_order *order; /* the order read so far */
    const char *file;
    int rank;        /* rank of the current line */
    sl_csv_row *row; /* [ranks] */
    int *most;       /* [ranks] room for ops: one more than allowed, so that a surplus is found */
    size_t comms;    /* of all ranks; 0: the compute_only form */
} sl_csv_reader;

/** Reads and checks the cells, the ops (sl_order_check), sends against receives, and sharding cells; the rows
 * may wait for each other forever. SL_EINVAL names file, line, column and cell; also if the problem has
 * parts, which CSV cannot name. `order` is made here; close the reader first, also on error. */
sl_status sl_csv_open(const char *file, const sl_problem *problem, sl_order *order, sl_csv_reader *reader);
/** The same from `size` bytes; `name` replaces the file in errors. */
sl_status sl_csv_parse(const char *name, const char *text, size_t size, const sl_problem *problem,
                       sl_order *order, sl_csv_reader *reader);
void sl_csv_close(sl_csv_reader *reader);

/** SL_EINVAL with the cell's position, its text and `why`. */
sl_status sl_csv_refuse(const sl_csv_cell *cell, const char *why);

/** "SEND_F" and so on. */
const char *sl_csv_comm_name(int receive, int backward);

/** The stage that makes the message of a cell. */
int sl_csv_comm_maker(const sl_problem *problem, const sl_csv_comm *comm);

/** The lines of a file into ops, comms and shards of each rank. Changes `content`. */
sl_status sl_csv_read_lines(sl_csv_reader *reader, char *content, size_t size);

/** Sends and receives, for an order that is known to hold every op once: each comes once and on the right
 * side of its op; between two ranks, the sends of one are, in order, the receives of the other, because
 * PyTorch matches messages of two ranks only by their order. */
sl_status sl_csv_check_comms(const sl_csv_reader *reader);

/** UNSHARD and RESHARD of a stage alternate, around its ops; REDUCE_GRAD once, after its last W or B. */
sl_status sl_csv_check_shards(const sl_csv_reader *reader);
