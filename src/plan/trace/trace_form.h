/* Chrome traces as base/scan.h reads them. */
#pragma once

#include "base/scan.h"

/* The items are the events of `traceEvents`, up to 64 MB each. */
extern const sl_scan_form sl_trace_form;
