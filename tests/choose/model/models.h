/* Model files of the tests. */
#ifndef SL_TESTS_CHOOSE_MODELS_H
#define SL_TESTS_CHOOSE_MODELS_H

#include "check.h"
#include "choose/model/model_work.h"

static inline sl_status read_model(const char *text, const char *path, sl_model_work *model) {
    sl_document document;
    assert_ok(sl_document_parse(path, text, &document));
    sl_status status = sl_model_work_read(&document, path, model);
    sl_document_close(&document);
    return status;
}

static inline void make_model(const char *text, sl_model_work *model) {
    assert_ok(read_model(text, "model.yaml", model));
}

/* A GPT as in the papers: MLP of 4 h, learned positions, a tied head, dropout, full attention. */
static inline void make_gpt(int layers, int width, int heads, int context, int vocabulary,
                            sl_model_work *model) {
    char text[512];
    snprintf(
        text, sizeof text,
        "model: {layers: %d, width: %d, heads: %d, context: %d, vocabulary: %d, positions: %d, tied: true, "
        "dropout: true}\nattention: full\nbatch: {sequences: 1}\n",
        layers, width, heads, context, vocabulary, context);
    make_model(text, model);
}

static inline sl_division whole(int size) {
    return (sl_division){.tensor = 1, .context = 1, .expert = 1, .size = size};
}

static inline sl_layer_work work_of(const sl_model_work *model, int layer, const sl_division *division) {
    sl_layer_work work;
    assert_ok(sl_division_check(model, division));
    sl_layer_work_of(model, layer, division, &work);
    return work;
}

#endif
