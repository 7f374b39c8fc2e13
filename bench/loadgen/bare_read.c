/* Reads the logs of a folder tree once, one after the other, in large pieces: what a cold reader's disk gives. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "options.h"

#define PIECE (1 << 20)

static uint64_t read_bytes;
static uint8_t *piece;

static int visit(const char *path, const struct stat *info, int kind, struct FTW *ftw) {
    size_t length = strlen(path);
    (void)ftw;
    if (kind != FTW_F || info->st_size == 0 || length < 4 || strcmp(path + length - 4, ".log")) return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) die("%s: %s", path, strerror(errno));
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (ssize_t got; (got = read(fd, piece, PIECE)) != 0; read_bytes += (uint64_t)got)
        if (got < 0) die("%s: %s", path, strerror(errno));
    close(fd);
    return 0;
}

int command_bare_read(void) {
    const char *folder = option_text("folder", NULL);
    options_done();
    piece = malloc(PIECE);
    uint64_t begin = now_ns();
    if (nftw(folder, visit, 32, FTW_PHYS)) die("cannot walk %s", folder);
    printf("{\"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)read_bytes,
           (double)(now_ns() - begin) / 1e9);
    return 0;
}
