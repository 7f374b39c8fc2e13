#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 64

static struct { const char *name, *value; int used; } given[MAX_OPTIONS];
static int given_count;

void die(const char *format, ...) {
    va_list arguments;
    fflush(stdout);
    fputs("loadgen: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void announce(const char *event) {
    printf("%s\n", event);
    fflush(stdout);
}

void options_parse(int argc, char **argv) {
    for (int i = 0; i < argc; i += 2) {
        if (strncmp(argv[i], "--", 2) || i + 1 >= argc) die("expected --name value, got %s", argv[i]);
        if (given_count == MAX_OPTIONS) die("too many options");
        given[given_count].name = argv[i] + 2;
        given[given_count++].value = argv[i + 1];
    }
}

static const char *find(const char *name) {
    for (int i = 0; i < given_count; i++)
        if (!strcmp(given[i].name, name)) {
            given[i].used = 1;
            return given[i].value;
        }
    return NULL;
}

double option_number(const char *name, double fallback) {
    const char *value = find(name);
    char *end;
    if (!value) return fallback;
    double number = strtod(value, &end);
    if (end == value || *end) die("--%s takes a number, got %s", name, value);
    return number;
}

int64_t option_int(const char *name, int64_t fallback) { return (int64_t)option_number(name, (double)fallback); }

const char *option_text(const char *name, const char *fallback) {
    const char *value = find(name);
    if (!value && !fallback) die("--%s is missing", name);
    return value ? value : fallback;
}

void options_done(void) {
    for (int i = 0; i < given_count; i++)
        if (!given[i].used) die("unknown option --%s", given[i].name);
}
