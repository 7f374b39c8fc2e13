/* What the bare loops share. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

/* An open file that has no name any more. */
int temporary_file(const char *folder, const char *name);
/* A listening socket, its port at `port`. */
int listen_on_loopback(int *port);

#endif
