#include "crc32c.h"

#include <string.h>

static uint32_t table[256];

static void fill_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0);
        table[byte] = value;
    }
}

static uint32_t plain(uint32_t crc, const uint8_t *data, size_t length) {
    if (!table[1]) fill_table();
    while (length--) crc = table[(crc ^ *data++) & 0xff] ^ (crc >> 8);
    return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t with_instruction(uint32_t crc, const uint8_t *data,
                                                                   size_t length) {
    uint64_t wide = crc;
    for (; length >= 8; data += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    while (length--) crc = __builtin_ia32_crc32qi(crc, *data++);
    return crc;
}
#endif

uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t length) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2")) return ~with_instruction(~crc, data, length);
#endif
    return ~plain(~crc, data, length);
}
