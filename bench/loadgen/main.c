/* Load generator of the benchmarks: `loadgen <command> --option value ...`. See commands.h. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "options.h"

static const struct {
    const char *name;
    int (*run)(void);
} commands[] = {
    {"produce", command_produce},
    {"fetch", command_fetch},
    {"paced", command_paced},
    {"connections", command_connections},
    {"repeat", command_repeat},
    {"ready", command_ready},
    {"rd-produce", command_rd_produce},
    {"rd-consume", command_rd_consume},
    {"bare-sendfile", command_bare_sendfile},
    {"bare-copy", command_bare_copy},
    {"bare-read", command_bare_read},
    {"bare-broker", command_bare_broker},
    {"evict", command_evict},
};

int main(int argc, char **argv) {
    if (argc < 2) die("which command?");
    options_parse(argc - 2, argv + 2);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name)) return commands[i].run();
    die("unknown command %s", argv[1]);
}
