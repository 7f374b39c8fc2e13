/* Drops the files of a folder tree from the page cache and says what stayed resident. Needs no privileges. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "options.h"

static uint64_t file_bytes, resident_bytes;

static uint64_t resident(int fd, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page, found = 0;
    void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *map = malloc(pages);
    if (mapped == MAP_FAILED || mincore(mapped, size, map)) die("mincore failed");
    for (size_t i = 0; i < pages; i++) found += map[i] & 1;
    munmap(mapped, size);
    free(map);
    return found * page;
}

static int visit(const char *path, const struct stat *info, int kind, struct FTW *ftw) {
    size_t length = strlen(path);
    (void)ftw;
    if (kind != FTW_F || info->st_size == 0 || length < 4 || strcmp(path + length - 4, ".log")) return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    file_bytes += (uint64_t)info->st_size;
    resident_bytes += resident(fd, (size_t)info->st_size);
    close(fd);
    return 0;
}

int command_evict(void) {
    const char *folder = option_text("folder", NULL);
    options_done();
    if (nftw(folder, visit, 32, FTW_PHYS)) die("cannot walk %s", folder);
    printf("{\"bytes\": %llu, \"resident\": %llu}\n", (unsigned long long)file_bytes,
           (unsigned long long)resident_bytes);
    return 0;
}
