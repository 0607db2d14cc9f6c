#include "base/memory.h"
#include "run/engine/engine_inside.h"

sl_status sl_pool_hold(sl_pool *pool, int count, size_t bytes) {
    SL_TRY(sl_grow(&pool->buffer, &pool->capacity, (size_t)count, sizeof *pool->buffer));
    SL_TRY(sl_grow(&pool->idle, &pool->idle_capacity, (size_t)count, sizeof *pool->idle));
    for (; pool->count < count; pool->count++)
        SL_TRY(sl_alloc(&pool->buffer[pool->count], 1, bytes > 0 ? bytes : 1));
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
        sl_free(pool->buffer[i]);
    SL_FREE(pool->buffer, pool->idle);
    *pool = (sl_pool){0};
}
