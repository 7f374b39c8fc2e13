/* The commands of the load generator; each reads its options, runs, and prints one JSON line. */
#ifndef BENCH_COMMANDS_H
#define BENCH_COMMANDS_H

int command_produce(void);       /* produce.c: closed loop over raw sockets */
int command_fetch(void);         /* fetch.c: raw fetch */
int command_paced(void);         /* paced.c: open loop, ack and end-to-end latency, cold reader beside */
int command_connections(void);   /* connections.c: open many connections */
int command_repeat(void);        /* repeat.c: one request per connection, again and again */
int command_ready(void);         /* ready.c: when does the broker answer */
int command_rd_produce(void);    /* rd_produce.c: librdkafka producer */
int command_rd_consume(void);    /* rd_consume.c: librdkafka consumer */
int command_bare_sendfile(void); /* limits.c: the machine without a broker */
int command_bare_copy(void);
int command_bare_read(void);     /* bare_read.c: some folders at the same time */
int command_bare_broker(void);   /* bare_broker.c: answers the other commands, does only what physics asks */
int command_evict(void);         /* evict.c: files out of the page cache */

#endif
