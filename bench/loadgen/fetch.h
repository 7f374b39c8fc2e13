/* The raw fetch loop; the cold reader runs it in a thread beside the paced producer. */
#ifndef BENCH_FETCH_H
#define BENCH_FETCH_H

#include <stdatomic.h>
#include <stdint.h>

#include "broker.h"
#include "histogram.h"

struct fetch_load {
    int port, connections, version, max_bytes, once; /* once: stop when all partitions are read to their end */
    int verify_every;                                /* each n-th batch is received whole and its CRC checked */
    struct topic topic;
    double warm_seconds, seconds;
    int announces;
    /* results */
    uint64_t requests, bytes, verified, empty_answers;
    double elapsed, client_cpu;
    struct histogram latency;
    atomic_int finished;
};

void run_fetch_load(struct fetch_load *load);

#endif
