/* Sends memory to one rank while receiving from another. Blocks are cut into pieces, of which a few are under
 * way in each direction: a large message moves only while both ranks poll, and arrived pieces are copied to
 * their destination while the next ones are under way. */
#include "run/collective/group_inside.h"

#define PIECE ((size_t)4 << 20) /* bytes of a message */
#define UNDER_WAY 4             /* messages in a direction */

/* Where a direction is in its blocks. */
typedef struct piece_stream {
    const sl_block *block;
    int blocks, at;
    size_t done;          /* of block `at` */
    MPI_Request *request; /* [UNDER_WAY]; MPI_REQUEST_NULL: a free slot */
} piece_stream;

/* The next piece; 0: there is none. */
static size_t next_piece(piece_stream *s, char **data) {
    while (s->at < s->blocks && s->done == s->block[s->at].bytes) {
        s->at++;
        s->done = 0;
    }
    if (s->at == s->blocks)
        return 0;
    const sl_block *block = &s->block[s->at];
    size_t bytes = block->bytes - s->done < PIECE ? block->bytes - s->done : PIECE;
    *data = (char *)block->data + s->done;
    s->done += bytes;
    return bytes;
}

static sl_status fill(sl_group *group, piece_stream *s, int peer, int gives) {
    for (int i = 0; i < UNDER_WAY; i++) {
        char *data;
        size_t bytes;
        if (s->request[i] != MPI_REQUEST_NULL || (bytes = next_piece(s, &data)) == 0)
            continue;
        int code = gives ? MPI_Isend(data, (int)bytes, MPI_BYTE, peer, SL_TAG_EXCHANGE, group->communicator,
                                     &s->request[i])
                         : MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, SL_TAG_EXCHANGE, group->communicator,
                                     &s->request[i]);
        if (code != MPI_SUCCESS)
            return sl_error(SL_EPEER, "an exchange with rank %d failed", peer);
    }
    return SL_OK;
}

static int is_under_way(const MPI_Request *request) {
    for (int i = 0; i < 2 * UNDER_WAY; i++)
        if (request[i] != MPI_REQUEST_NULL)
            return 1;
    return 0;
}

/* Messages of one pair arrive in the order in which they are sent, so pieces need no numbers. */
sl_status sl_group_exchange(sl_group *group, const sl_block *give, int gives, int to, const sl_block *take,
                            int takes, int from) {
    MPI_Request request[2 * UNDER_WAY];
    int which[2 * UNDER_WAY], done, rounds = 0;
    for (int i = 0; i < 2 * UNDER_WAY; i++)
        request[i] = MPI_REQUEST_NULL;
    piece_stream in = {.block = take, .blocks = takes, .request = request},
                 out = {.block = give, .blocks = gives, .request = request + UNDER_WAY};
    for (;;) {
        SL_TRY(fill(group, &in, from, 0));
        SL_TRY(fill(group, &out, to, 1));
        if (!is_under_way(request))
            return SL_OK;
        if (MPI_Testsome(2 * UNDER_WAY, request, &done, which, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            return sl_error(SL_EPEER, "an exchange with ranks %d and %d failed", to, from);
        if (done > 0)
            rounds = 0;
        else
            sl_group_nap(SL_WAIT_SHORT, &rounds, SL_TIME_NEVER);
    }
}
