/* Latency histogram in nanoseconds: 64 buckets per power of two, so an error of at most 1.6 %. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define HISTOGRAM_BUCKETS (60 * 64)

struct histogram {
    uint64_t count;
    uint64_t max_ns;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t ns);

/* Upper bound of the bucket that holds the quantile (0..1); 0 when the histogram is empty. */
uint64_t histogram_quantile(const struct histogram *histogram, double quantile);

/* Writes {"count": .., "p50": .., "p90": .., "p99": .., "p999": .., "max": ..}, times in microseconds. */
void histogram_print_json(FILE *out, const struct histogram *histogram);

#endif
