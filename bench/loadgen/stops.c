#define _GNU_SOURCE
#include "stops.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "commands.h"

#define MAX_CPUS 256
#define MAX_STOPS 16384  /* of a processor; later ones are not kept */
#define SLEEP_NS 1000000
#define MIN_STOP_NS 1000000

struct span {
    uint64_t begin_ns, end_ns;
};

struct watch {
    pthread_t thread;
    struct span stops[MAX_STOPS];
    int count;
};

static struct watch *watches[MAX_CPUS];
static int cpus;
static volatile int ended;
static struct span *answers;
static size_t answer_count, answer_capacity;

static void *watch_cpu(void *argument) {
    struct watch *watch = argument;
    while (!ended) {
        uint64_t due = now_ns() + SLEEP_NS;
        struct timespec until = {(time_t)(due / SECOND_NS), (long)(due % SECOND_NS)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        uint64_t now = now_ns();
        if (now - due >= MIN_STOP_NS && watch->count < MAX_STOPS) watch->stops[watch->count++] = (struct span){due, now};
    }
    return NULL;
}

static int start_watch(int cpu) {
    struct sched_param highest = {.sched_priority = sched_get_priority_max(SCHED_FIFO)};
    pthread_attr_t attributes;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    watches[cpus] = calloc(1, sizeof *watches[0]);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &highest);
    if (pthread_create(&watches[cpus]->thread, &attributes, watch_cpu, watches[cpus])) return 0;
    cpus++;
    return 1;
}

int stops_watch(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return 0;
    for (int cpu = 0; cpu < MAX_CPUS; cpu++)
        if (CPU_ISSET(cpu, &allowed) && !start_watch(cpu)) return 0;
    return 1;
}

void stops_add(uint64_t due_ns, uint64_t done_ns) {
    if (answer_count == answer_capacity) {
        answer_capacity = answer_capacity ? 2 * answer_capacity : 1 << 16;
        answers = realloc(answers, answer_capacity * sizeof *answers);
        if (!answers) die("no memory for %zu answers", answer_capacity);
    }
    answers[answer_count++] = (struct span){due_ns, done_ns};
}

static int was_stopped(const struct span *answer) {
    for (int cpu = 0; cpu < cpus; cpu++)
        for (int i = 0; i < watches[cpu]->count; i++) {
            const struct span *stop = &watches[cpu]->stops[i];
            if (stop->begin_ns < answer->end_ns && answer->begin_ns < stop->end_ns) return 1;
        }
    return 0;
}

void stops_print_json(FILE *out) {
    static struct histogram running;
    uint64_t stopped_ns = 0;
    int stops = 0;
    ended = 1;
    for (int cpu = 0; cpu < cpus; cpu++) {
        pthread_join(watches[cpu]->thread, NULL);
        stops += watches[cpu]->count;
        for (int i = 0; i < watches[cpu]->count; i++)
            stopped_ns += watches[cpu]->stops[i].end_ns - watches[cpu]->stops[i].begin_ns;
    }
    for (size_t i = 0; i < answer_count; i++)
        if (!was_stopped(&answers[i])) histogram_add(&running, answers[i].end_ns - answers[i].begin_ns);
    fprintf(out, "{\"stopped_ms\": %.3f, \"stops\": %d, \"running_us\": ", (double)stopped_ns / 1e6, stops);
    histogram_print_json(out, &running);
    fputc('}', out);
}
