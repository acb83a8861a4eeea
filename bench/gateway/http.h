/* The little of HTTP/1.1 that both programs read: heads, lengths, chunks. */
#ifndef FOREWORD_HTTP_H
#define FOREWORD_HTTP_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *data;
    size_t used, room;
} buffer;

/* One message that is being read; zero it between two messages. */
typedef struct {
    size_t head;      /* bytes of the head, 0 until it has come whole */
    size_t length;    /* bytes of the body, where its length was told */
    int chunked;      /* the body comes in chunks */
    int close;        /* the sender will close the connection */
    int status;       /* of an answer */
    size_t body_end;  /* bytes of the whole message; 0 until it has come whole */
    size_t at;        /* where the next chunk begins */
} message;

void buffer_add(buffer *to, const void *data, size_t bytes);
void buffer_drop(buffer *of, size_t bytes);
/* Looks at what has come; returns 1 when the message is whole, 0 when more is needed, -1 on nonsense. */
int message_read(message *m, const buffer *in);
int64_t now_ns(void);
int64_t cpu_ns(void);
void fail(const char *what);

#endif
