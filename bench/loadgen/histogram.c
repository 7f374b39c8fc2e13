#include "histogram.h"

static unsigned bucket_of(uint64_t ns) {
    if (ns < 128) return (unsigned)ns;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(ns);
    unsigned bucket = (exponent - 6) * 64 + (unsigned)((ns >> (exponent - 6)) & 63) + 64;
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static uint64_t upper_bound_of(unsigned bucket) {
    if (bucket < 128) return bucket;
    unsigned shift = (bucket - 64) / 64;
    uint64_t mantissa = 64 + (bucket - 64) % 64;
    return ((mantissa + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t ns) {
    histogram->buckets[bucket_of(ns)]++;
    histogram->count++;
    if (ns > histogram->max_ns) histogram->max_ns = ns;
}

uint64_t histogram_quantile(const struct histogram *histogram, double quantile) {
    if (!histogram->count) return 0;
    uint64_t rank = (uint64_t)(quantile * (double)histogram->count + 0.999999), seen = 0;
    if (rank < 1) rank = 1;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen >= rank) {
            uint64_t bound = upper_bound_of(bucket);
            return bound < histogram->max_ns ? bound : histogram->max_ns;
        }
    }
    return histogram->max_ns;
}

void histogram_print_json(FILE *out, const struct histogram *histogram) {
    fprintf(out, "{\"count\": %llu, \"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f, \"p999\": %.3f, \"max\": %.3f}",
            (unsigned long long)histogram->count, histogram_quantile(histogram, 0.5) / 1e3,
            histogram_quantile(histogram, 0.9) / 1e3, histogram_quantile(histogram, 0.99) / 1e3,
            histogram_quantile(histogram, 0.999) / 1e3, histogram->max_ns / 1e3);
}
