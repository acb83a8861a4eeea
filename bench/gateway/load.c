/* Asks a gateway and measures: load PORT BODIES CONNECTIONS SECONDS RATE STREAM CHUNKS [HEADER]
 *
 * RATE 0 is a closed loop: each connection asks again when it was answered. Otherwise requests are
 * due at a constant rate, and their times count from when they were due. BODIES holds records of
 * two 32-bit numbers, little-endian, and a body: its length, and where in it sixteen digits are that
 * each request sets anew, so that none is sent twice. Prints one JSON object.
 */
#define _GNU_SOURCE
#include "http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_SAMPLES = 4000000 };

typedef struct {
    int fd, busy;
    int64_t due, first;
    buffer in;
    message m;
} connection;

typedef struct {
    const char *data;
    uint32_t bytes, counter;
} body;

static body *bodies;
static size_t body_count;
static connection *all;
static int poll_fd, port, stream, chunks, connections;
static const char *extra = "";
static uint64_t asked, wrong, broken, late;
static int64_t *first_ns, *total_ns, stop_at;
static size_t samples;

static void read_bodies(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail(path);
    fseek(file, 0, SEEK_END);
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(bytes);
    if (fread(data, 1, bytes, file) != bytes) fail(path);
    fclose(file);
    for (size_t at = 0; at < bytes;) {
        body b;
        memcpy(&b.bytes, data + at, 4);
        memcpy(&b.counter, data + at + 4, 4);
        b.data = data + at + 8;
        bodies = realloc(bodies, (body_count + 1) * sizeof(body));
        bodies[body_count++] = b;
        at += 8 + b.bytes;
    }
}

static void join(connection *c) {
    int one = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &event);
}

static void ask(connection *c, int64_t due) {
    static buffer out;
    const body *b = &bodies[asked % body_count];
    char head[1024], digits[17];
    int bytes = snprintf(head, sizeof head,
                         "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                         "%scontent-length: %u\r\n\r\n",
                         extra, b->bytes);
    out.used = 0;
    buffer_add(&out, head, (size_t)bytes);
    buffer_add(&out, b->data, b->bytes);
    snprintf(digits, sizeof digits, "%016lu", (unsigned long)(asked * 2654435761u % 10000000000000000u));
    memcpy(out.data + bytes + b->counter, digits, 16);
    asked++;
    c->busy = 1;
    c->due = due;
    c->first = 0;
    for (size_t sent = 0; sent < out.used;) {
        ssize_t n = send(c->fd, out.data + sent, out.used - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += (size_t)n;
    }
}

static int count(const char *text, size_t bytes, const char *word) {
    int found = 0;
    size_t length = strlen(word);
    for (const char *at = text; (at = memmem(at, bytes - (size_t)(at - text), word, length)); at += length) found++;
    return found;
}

/* The answer's words, all of them, in one piece or in parts. */
static int is_right(const connection *c) {
    const char *text = c->in.data + c->m.head;
    size_t bytes = c->m.body_end - c->m.head;
    return c->m.status == 200 && count(text, bytes, " word") == chunks && (!stream || count(text, bytes, "[DONE]") == 1);
}

static void finish(connection *c) {
    if (!is_right(c)) {
        if (wrong++ == 0) fprintf(stderr, "first wrong answer: %.*s\n", (int)(c->in.used < 2000 ? c->in.used : 2000), c->in.data);
    } else if (samples < MOST_SAMPLES) {
        first_ns[samples] = c->first - c->due;
        total_ns[samples++] = now_ns() - c->due;
    }
    int closes = c->m.close;
    buffer_drop(&c->in, c->m.body_end);
    memset(&c->m, 0, sizeof c->m);
    c->busy = 0;
    if (closes) {
        close(c->fd);
        join(c);
    }
}

static void take_in(connection *c) {
    char piece[65536];
    ssize_t got = recv(c->fd, piece, sizeof piece, 0);
    if (got <= 0) {
        if (c->busy) broken++;
        close(c->fd);
        c->busy = 0;
        c->in.used = 0;
        memset(&c->m, 0, sizeof c->m);
        join(c);
        return;
    }
    buffer_add(&c->in, piece, (size_t)got);
    int whole = message_read(&c->m, &c->in);
    if (c->first == 0 && c->m.head && c->in.used > c->m.head) c->first = now_ns();
    if (whole == 1) finish(c);
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, int64_t *of) {
    qsort(of, samples, sizeof *of, by_size);
    double sum = 0;
    for (size_t i = 0; i < samples; i++) sum += (double)of[i];
    printf("\"%s\":{\"mean_us\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}", name,
           sum / (double)samples / 1e3, (double)of[samples / 2] / 1e3, (double)of[samples * 9 / 10] / 1e3,
           (double)of[samples * 99 / 100] / 1e3, (double)of[samples - 1] / 1e3);
}

int main(int argc, char **argv) {
    if (argc < 8) {
        fprintf(stderr, "load PORT BODIES CONNECTIONS SECONDS RATE STREAM CHUNKS [HEADER]\n");
        return 2;
    }
    port = atoi(argv[1]);
    read_bodies(argv[2]);
    connections = atoi(argv[3]);
    double seconds = atof(argv[4]), rate = atof(argv[5]);
    stream = atoi(argv[6]);
    chunks = atoi(argv[7]);
    if (argc > 8) {
        static char header[512];
        snprintf(header, sizeof header, "%s\r\n", argv[8]);
        extra = header;
    }
    struct rlimit files = {1 << 16, 1 << 16};
    setrlimit(RLIMIT_NOFILE, &files);
    first_ns = malloc(MOST_SAMPLES * sizeof *first_ns);
    total_ns = malloc(MOST_SAMPLES * sizeof *total_ns);
    all = calloc((size_t)connections, sizeof *all);
    poll_fd = epoll_create1(0);
    for (int i = 0; i < connections; i++) join(&all[i]);
    /* Bodies go on where the last run stopped, so that each run's digits are its own. */
    asked = (uint64_t)now_ns() / 1000;
    uint64_t first_asked = asked;
    int64_t begun = now_ns(), step = rate > 0 ? (int64_t)(1e9 / rate) : 0, due = begun;
    stop_at = begun + (int64_t)(seconds * 1e9);
    struct epoll_event ready[1024];
    int busy = 0;
    for (;;) {
        int64_t now = now_ns();
        if (now >= stop_at && busy == 0) break;
        if (now >= stop_at + 30000000000LL) break;
        busy = 0;
        for (int i = 0; i < connections; i++) {
            connection *c = &all[i];
            if (!c->busy && now < stop_at) {
                if (step == 0) ask(c, now);
                else if (due <= now) {
                    if (now - due > 2000000) late++;
                    ask(c, due);
                    due += step;
                }
            }
            busy += c->busy;
        }
        int wait = step ? 0 : 100;
        int many = epoll_wait(poll_fd, ready, 1024, wait);
        for (int i = 0; i < many; i++) take_in(ready[i].data.ptr);
    }
    double elapsed = (double)(now_ns() - begun) / 1e9;
    printf("{\"asked\":%lu,\"answered\":%zu,\"wrong\":%lu,\"broken\":%lu,\"stuck\":%d,\"late\":%lu,\"seconds\":%.3f,\"cpu_s\":%.3f",
           (unsigned long)(asked - first_asked), samples, (unsigned long)wrong, (unsigned long)broken, busy,
           (unsigned long)late, elapsed, (double)cpu_ns() / 1e9);
    if (samples > 0) {
        printf(",");
        print_times("first", first_ns);
        printf(",");
        print_times("total", total_ns);
    }
    printf("}\n");
    return 0;
}
