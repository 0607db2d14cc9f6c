#include "base/memory.h"
#include "run/engine/engine_inside.h"

static sl_status add_buffer(sl_pool *pool, size_t bytes) {
    sl_arena **memory = &pool->memory[pool->count];
    SL_TRY(pool->device ? sl_arena_open_pinned(pool->device, bytes, memory)
                        : sl_arena_open(NULL, bytes, memory));
    const sl_status status =
        sl_arena_take(*memory, bytes, SL_ARENA_LOW, "a message", &pool->buffer[pool->count]);
    if (status == SL_OK)
        pool->count++;
    else
        sl_arena_close(*memory);
    return status;
}

sl_status sl_pool_reserve(sl_pool *pool, int count) {
    SL_TRY(sl_grow(&pool->buffer, &pool->capacity, (size_t)count, sizeof *pool->buffer));
    SL_TRY(sl_grow(&pool->idle, &pool->idle_capacity, (size_t)count, sizeof *pool->idle));
    return sl_grow(&pool->memory, &pool->memory_capacity, (size_t)count, sizeof *pool->memory);
}

sl_status sl_pool_hold(sl_pool *pool, int count, size_t bytes) {
    SL_TRY(sl_pool_reserve(pool, count));
    while (pool->count < count)
        SL_TRY(add_buffer(pool, bytes));
    return SL_OK;
}

sl_status sl_pool_take(sl_pool *pool, size_t bytes, int32_t *number) {
    if (pool->idles == 0) {
        *number = pool->count;
        return sl_pool_hold(pool, pool->count + 1, bytes);
    }
    *number = pool->idle[--pool->idles];
    return SL_OK;
}

/* Cannot fail: space for a buffer's number is allocated with the buffer. */
void sl_pool_give(sl_pool *pool, int32_t number) {
    pool->idle[pool->idles++] = number;
}

void sl_pool_free(sl_pool *pool) {
    for (int i = 0; i < pool->count; i++)
        sl_arena_close(pool->memory[i]);
    SL_FREE(pool->memory, pool->buffer, pool->idle);
    *pool = (sl_pool){0};
}
