/* CRC-32C (Castagnoli), as in the header of a Kafka record batch. */
#ifndef BENCH_CRC32C_H
#define BENCH_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Start with crc = 0; feed the previous result to continue over several pieces. */
uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t length);

#endif
