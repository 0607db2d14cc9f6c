#include "run/binding/share.h"
#include "base/memory.h"
#include "run/binding/norm.h"
#include "run/model/parameter.h"

sl_status sl_shares_make(const sl_parameter *list, int parameters, int shares, sl_shares *cut) {
    *cut = (sl_shares){.parameters = parameters, .shares = shares};
    SL_TRY(sl_alloc(&cut->first, (size_t)parameters + 1, sizeof *cut->first));
    sl_status status = sl_alloc(&cut->count, (size_t)parameters, sizeof *cut->count);
    for (int i = 0; i < parameters && status == SL_OK; i++) {
        cut->count[i] = list[i].count;
        cut->first[i + 1] = cut->first[i] + sl_norm_blocks(list[i].count);
    }
    if (status != SL_OK)
        sl_shares_free(cut);
    return status;
}

void sl_shares_free(sl_shares *cut) {
    SL_FREE(cut->first, cut->count);
    *cut = (sl_shares){0};
}

size_t sl_shares_begin(const sl_shares *cut, int share) {
    return cut->first[cut->parameters] * (size_t)share / (size_t)cut->shares;
}

size_t sl_shares_longest(const sl_shares *cut) {
    size_t longest = 0;
    for (int share = 0; share < cut->shares; share++) {
        size_t blocks = sl_shares_begin(cut, share + 1) - sl_shares_begin(cut, share);
        longest = blocks > longest ? blocks : longest;
    }
    return longest;
}

size_t sl_shares_piece(const sl_shares *cut, int i, size_t begin, size_t end, size_t *at, size_t *position) {
    size_t from = cut->first[i] > begin ? cut->first[i] : begin;
    size_t to = cut->first[i + 1] < end ? cut->first[i + 1] : end;
    *at = *position = 0;
    if (from >= to)
        return 0;
    *at = (from - cut->first[i]) * SL_NORM_BLOCK;
    *position = (from - begin) * SL_NORM_BLOCK;
    size_t until = (to - cut->first[i]) * SL_NORM_BLOCK;
    return (until < cut->count[i] ? until : cut->count[i]) - *at;
}

size_t sl_shares_before(const sl_shares *cut, int i, size_t begin, size_t end) {
    size_t at, position, elements = 0;
    for (int k = 0; k < i; k++)
        elements += sl_shares_piece(cut, k, begin, end, &at, &position);
    return elements;
}

size_t sl_shares_elements(const sl_shares *cut, int share) {
    return sl_shares_before(cut, cut->parameters, sl_shares_begin(cut, share),
                            sl_shares_begin(cut, share + 1));
}
