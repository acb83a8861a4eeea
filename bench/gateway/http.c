#define _GNU_SOURCE
#include "http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

void fail(const char *what) {
    perror(what);
    exit(1);
}

void buffer_add(buffer *to, const void *data, size_t bytes) {
    if (to->used + bytes > to->room) {
        to->room = (to->used + bytes) * 2;
        to->data = realloc(to->data, to->room);
        if (to->data == NULL) fail("realloc");
    }
    memcpy(to->data + to->used, data, bytes);
    to->used += bytes;
}

void buffer_drop(buffer *of, size_t bytes) {
    memmove(of->data, of->data + bytes, of->used - bytes);
    of->used -= bytes;
}

static void read_head(message *m, const char *head, size_t bytes) {
    const char *end = head + bytes;
    if (bytes > 12 && memcmp(head, "HTTP/1.", 7) == 0) m->status = atoi(head + 9);
    for (const char *line = memchr(head, '\n', bytes); line != NULL && line + 1 < end;
         line = memchr(line, '\n', (size_t)(end - line))) {
        line++;
        if (strncasecmp(line, "content-length:", 15) == 0) m->length = strtoull(line + 15, NULL, 10);
        if (strncasecmp(line, "transfer-encoding:", 18) == 0) m->chunked = 1;
        if (strncasecmp(line, "connection: close", 17) == 0) m->close = 1;
    }
    m->head = m->at = bytes;
}

static int read_chunks(message *m, const buffer *in) {
    for (;;) {
        const char *start = in->data + m->at;
        const char *line = memchr(start, '\n', in->used - m->at);
        if (line == NULL) return 0;
        size_t size = strtoull(start, NULL, 16);
        size_t next = (size_t)(line + 1 - in->data) + size + 2;
        if (next > in->used) return 0;
        m->at = next;
        if (size == 0) {
            m->body_end = next;
            return 1;
        }
    }
}

int message_read(message *m, const buffer *in) {
    if (m->head == 0) {
        const char *end = in->used ? memmem(in->data, in->used, "\r\n\r\n", 4) : NULL;
        if (end == NULL) return in->used > 65536 ? -1 : 0;
        read_head(m, in->data, (size_t)(end - in->data) + 4);
    }
    if (m->chunked) return read_chunks(m, in);
    if (in->used < m->head + m->length) return 0;
    m->body_end = m->head + m->length;
    return 1;
}

static int64_t clock_ns(clockid_t which) {
    struct timespec at;
    clock_gettime(which, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
int64_t cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
