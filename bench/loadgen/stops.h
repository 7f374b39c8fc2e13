/* Times in which a processor ran nothing at all: the virtual machine's host had stopped it. A thread of the highest
   class on each processor sleeps for a millisecond again and again; it is late only if its processor was stopped. */
#ifndef BENCH_STOPS_H
#define BENCH_STOPS_H

#include <stdint.h>
#include <stdio.h>

#include "histogram.h"

/* Begins to watch every processor; 0 where this user may not (SCHED_FIFO needs CAP_SYS_NICE). */
int stops_watch(void);

/* An answer that was due at the one time and came at the other, in ns of the monotonic clock. */
void stops_add(uint64_t due_ns, uint64_t done_ns);

/* Ends the watch. Writes {"stopped_ms": .., "stops": .., "running_us": {..}}: the last one are the answers of which
   no processor was stopped between both times. */
void stops_print_json(FILE *out);

#endif
