/* Command line: `loadgen <command> --name value ...`. Every option given must be asked for, else it is an error. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdint.h>

void options_parse(int argc, char **argv);
int64_t option_int(const char *name, int64_t fallback);
double option_number(const char *name, double fallback);
const char *option_text(const char *name, const char *fallback); /* NULL as fallback makes it mandatory */
void options_done(void);

/* Prints "loadgen: <message>" to stderr and exits with code 1: a failed check never becomes a figure. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The harness reads the broker's CPU when it sees these lines on stdout. */
void announce(const char *event);

#endif
