/* Which device or link of a training run is slow, from the records of its ops and transfers.
 *
 * Every iteration leaves a row: of each stage how long its ops took, of each link how long its messages were
 * under way, of each stage's reduction how long it took from when its last replica had come. The change-point
 * detector of `watch` (bocd-v) looks at the iteration times; at an onset the rows since are compared with the
 * healthy ones before, everything with itself. So uneven stages and shares of the batch are no fault, and a
 * rank that waits is none: an op begins when its input is there, and counts alone. A device is suspect when
 * its ops take over 1.1 times as long; a link when its messages are later by a tenth of a typical op, which
 * is the least that can cost a pipeline a tenth of its time, and by more than clocks may be apart.
 *
 * The iteration time returns to its old level when an adaptation takes trouble away, and rises when a
 * schedule is changed. So what is over is told by the components, not by the time; and an onset in which
 * nothing is slow is told as "cannot tell", unless a schedule was changed just then.
 *
 * Pure: records in, news out. Times in ns on one clock, ranks are pipeline ranks, of one replica each. */
#ifndef SL_NOTICE_DETECT_LOCALISE_H
#define SL_NOTICE_DETECT_LOCALISE_H

#include "base/time.h"
#include "notice/detect/suspect.h"
#include "notice/record/record.h"

typedef struct sl_localiser sl_localiser;

#define SL_LOCATED_MOST 8

typedef struct sl_located {
    int replica; /* of the suspect; -1: of all, or not known. A group is a stage's, over the replicas */
    sl_suspect suspect;
} sl_located;

typedef enum sl_news_kind {
    SL_NEWS_NONE,
    SL_NEWS_ONSET,  /* iterations are slow: what is suspected by those that told of it */
    SL_NEWS_VERDICT /* the same by more iterations, once an onset: after 8, or when it is over */
} sl_news_kind;

typedef struct sl_news {
    sl_news_kind kind;
    int first;            /* the first slow iteration */
    double before, after; /* ms of an iteration, medians */
    int count;            /* suspects; at least one, maybe SL_COMPONENT_UNKNOWN with the reason in `why` */
    sl_located located[SL_LOCATED_MOST];
} sl_news;

/** For pipelines of `ranks` with `stages`, `replicas` of them. SL_ENOMEM. */
sl_status sl_localiser_open(int ranks, int stages, int replicas, sl_localiser **localiser);
/** NULL is fine. */
void sl_localiser_close(sl_localiser *localiser);

/** The records of all ranks of a replica, of the iteration at hand; other kinds and wrong numbers are
 * skipped. SL_ENOMEM. */
sl_status sl_localiser_add(sl_localiser *localiser, int replica, const sl_record *record, size_t records);

/** The iteration at hand has ended and took `time`. `clock_error`: bound of the difference of any two ranks'
 * clocks. `changed`: a schedule or path was changed before it. `trouble`: somebody else found its links or
 * devices slow; then two iterations that took a tenth longer are believed at once. SL_ENOMEM. */
sl_status sl_localiser_end(sl_localiser *localiser, int iteration, sl_time time, sl_time clock_error,
                           int changed, int trouble, sl_news *news);

#endif
