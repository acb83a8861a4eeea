/* An engine that answers chat completions as SGLang words them, at no cost, and leaves every other
 * route to a simulated engine: upstream PORT SIMULATOR_PORT CHUNKS GAP_MS.
 *
 * Where a prompt comes as token ids, it counts them, and says that the leading pages which earlier
 * prompts had were cached: it forgets none, as an engine with room enough.
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
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 65536, PAGE = 16, PAGES = 1 << 22, PART = 1024 };

typedef struct {
    int fd, left, part, usage, ids;
    long prompt, cached;
    int64_t due;
    buffer in;
    message m;
} connection;

static connection *of_fd[MOST_CONNECTIONS];
static uint64_t known[PAGES]; /* each page's hash, chained from the first on; 0 is an empty place */
static size_t pages;
static int chunks, gap_ms, simulator_port, paced;

static void send_all(int fd, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
        if (sent <= 0) return;
        data += sent;
        bytes -= (size_t)sent;
    }
}

static int has(const char *body, size_t bytes, const char *word) {
    return memmem(body, bytes, word, strlen(word)) != NULL;
}

/* Whether a page was known; it is from now on. */
static int was_known(uint64_t page) {
    size_t at = page & (PAGES - 1);
    for (; known[at] != 0; at = (at + 1) & (PAGES - 1))
        if (known[at] == page) return 1;
    if (++pages > PAGES / 4 * 3) fail("too many pages");
    known[at] = page;
    return 0;
}

/* Counts the prompt's ids, and those of its leading pages that were known. */
static void count_ids(connection *c, const char *body, size_t bytes) {
    const char *ids = memmem(body, bytes, "\"input_ids\":[", 13);
    c->prompt = (long)bytes / 4;
    c->cached = 0;
    if (ids == NULL) return;
    ids += 13;
    const char *end = memchr(ids, ']', bytes - (size_t)(ids - body));
    if (end == NULL) return;
    uint64_t chain = 14695981039346656037u;
    long tokens = 0;
    int all_known = 1;
    for (; ids <= end; ids++) {
        if (ids != end && *ids != ',') {
            chain = (chain ^ (unsigned char)*ids) * 1099511628211u;
            continue;
        }
        chain = (chain ^ ',') * 1099511628211u;
        if (++tokens % PAGE == 0) {
            all_known &= was_known(chain != 0 ? chain : 1);
            /* the last token is computed, whatever is known */
            if (all_known && ids != end) c->cached = tokens;
        }
    }
    c->prompt = tokens;
}

static int usage_text(char *to, size_t room, const connection *c, int tokens) {
    return snprintf(to, room,
                    "\"usage\":{\"prompt_tokens\":%ld,\"total_tokens\":%ld,\"completion_tokens\":%d,"
                    "\"prompt_tokens_details\":{\"cached_tokens\":%ld},\"reasoning_tokens\":0,"
                    "\"completion_tokens_details\":null}",
                    c->prompt, c->prompt + tokens, tokens, c->cached);
}

static int sglext_text(char *to, size_t room, const connection *c) {
    int used = snprintf(to, room, "\"sglext\":{\"cached_tokens_details\":{\"device\":%ld,\"host\":0},\"output_ids\":[[", c->cached);
    for (int i = 0; i < chunks; i++) used += snprintf(to + used, room - (size_t)used, "%s%d", i ? "," : "", 300 + i);
    return used + snprintf(to + used, room - (size_t)used, "]]}");
}

static void answer_whole(connection *c) {
    char text[16 * PART], ids[8 * PART] = "", usage[PART], head[PART];
    int words = 0;
    for (int i = 0; i < chunks; i++) words += snprintf(text + words, sizeof text - (size_t)words, " word%d", i);
    usage_text(usage, sizeof usage, c, chunks);
    if (c->ids) {
        ids[0] = ',';
        sglext_text(ids + 1, sizeof ids - 1, c);
    }
    static char body[64 * PART];
    int bytes = snprintf(body, sizeof body,
                         "{\"id\":\"0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion\",\"created\":1700000000,"
                         "\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\","
                         "\"reasoning_content\":null,\"tool_calls\":null},\"logprobs\":null,\"finish_reason\":\"length\","
                         "\"matched_stop\":null}],%s,\"metadata\":{\"weight_version\":\"default\"}%s}",
                         text, usage, ids);
    int start = snprintf(head, sizeof head,
                         "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n", bytes);
    char *whole = malloc((size_t)(start + bytes));
    memcpy(whole, head, (size_t)start);
    memcpy(whole + start, body, (size_t)bytes);
    send_all(c->fd, whole, (size_t)(start + bytes));
    free(whole);
}

static void send_event(connection *c, const char *fields, const char *rest) {
    char event[24 * PART], framed[25 * PART];
    int bytes = snprintf(event, sizeof event,
                         "data: {\"id\":\"0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\","
                         "\"created\":1700000000,\"model\":\"bench\",\"choices\":[%s]%s}\n\n",
                         fields, rest);
    int all = snprintf(framed, sizeof framed, "%x\r\n%s\r\n", bytes, event);
    send_all(c->fd, framed, (size_t)all);
}

/* Part 0 names the role, then come the words, then the end of it all. */
static void send_part(connection *c) {
    char fields[PART], usage[PART] = "", ids[16 * PART];
    if (c->usage) {
        usage[0] = ',';
        usage_text(usage + 1, sizeof usage - 1, c, c->part);
    }
    if (c->part <= chunks) {
        if (c->part == 0)
            snprintf(fields, sizeof fields, "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":null,\"tool_calls\":null},\"logprobs\":null,\"finish_reason\":null,\"matched_stop\":null}");
        else
            snprintf(fields, sizeof fields, "{\"index\":0,\"delta\":{\"content\":\" word%d\",\"reasoning_content\":null,\"tool_calls\":null},\"logprobs\":null,\"finish_reason\":null,\"matched_stop\":null}", c->part - 1);
        send_event(c, fields, c->part == 0 ? "" : usage);
        c->part++;
        return;
    }
    send_event(c, "{\"index\":0,\"delta\":{\"reasoning_content\":null},\"logprobs\":null,\"finish_reason\":\"length\",\"matched_stop\":null}", "");
    if (c->ids) {
        memcpy(ids, ",\"usage\":null,", 14);
        sglext_text(ids + 14, sizeof ids - 14, c);
        send_event(c, "", ids);
    }
    if (c->usage) send_event(c, "", usage);
    static const char end[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
    send_all(c->fd, end, sizeof end - 1);
    c->left = 0;
}

static void begin_stream(connection *c) {
    static const char head[] =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    send_all(c->fd, head, sizeof head - 1);
    c->left = 1;
    c->part = 0;
    if (gap_ms == 0)
        while (c->left) send_part(c);
    else {
        send_part(c);
        c->due = now_ns() + gap_ms * 1000000LL;
        paced++;
    }
}

/* Everything but chat is the simulator's; these requests are few, so waiting for it is no matter. */
static void pass_on(connection *c) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)simulator_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval longest = {.tv_sec = 3};
    buffer in = {0};
    message m = {0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) {
        send_all(fd, c->in.data, c->m.body_end);
        char piece[65536];
        ssize_t got;
        while (message_read(&m, &in) == 0 && (got = recv(fd, piece, sizeof piece, 0)) > 0) buffer_add(&in, piece, (size_t)got);
        send_all(c->fd, in.data, in.used);
    }
    free(in.data);
    close(fd);
}

static void answer(connection *c) {
    const char *body = c->in.data + c->m.head;
    size_t bytes = c->m.body_end - c->m.head;
    if (c->in.used > 26 && memcmp(c->in.data, "POST /v1/chat/completions ", 26) == 0) {
        count_ids(c, body, bytes);
        c->ids = has(body, bytes, "\"return_output_ids_in_sglext\":true");
        c->usage = has(body, bytes, "\"continuous_usage_stats\":true") || has(body, bytes, "\"include_usage\":true");
        if (has(body, bytes, "\"stream\":true") || has(body, bytes, "\"stream\": true"))
            begin_stream(c);
        else
            answer_whole(c);
    } else {
        pass_on(c);
    }
    buffer_drop(&c->in, c->m.body_end);
    memset(&c->m, 0, sizeof c->m);
}

static void drop(int fd) {
    connection *c = of_fd[fd];
    if (c->left && gap_ms) paced--;
    free(c->in.data);
    free(c);
    of_fd[fd] = NULL;
    close(fd);
}

static void take_in(int fd) {
    connection *c = of_fd[fd];
    char piece[65536];
    ssize_t got = recv(fd, piece, sizeof piece, 0);
    if (got <= 0) {
        drop(fd);
        return;
    }
    buffer_add(&c->in, piece, (size_t)got);
    if (c->in.used >= 4 && memcmp(c->in.data, "PRI ", 4) == 0) { /* who tries HTTP/2 learns so at once */
        drop(fd);
        return;
    }
    while (c->left == 0 && message_read(&c->m, &c->in) == 1) answer(c);
}

static void send_what_is_due(void) {
    int64_t now = now_ns();
    for (int fd = 0; paced > 0 && fd < MOST_CONNECTIONS; fd++) {
        connection *c = of_fd[fd];
        if (c == NULL || !c->left || c->due > now) continue;
        send_part(c);
        c->due += gap_ms * 1000000LL;
        if (!c->left) paced--;
    }
}

int main(int count, char **argument) {
    if (count != 5) {
        fprintf(stderr, "upstream PORT SIMULATOR_PORT CHUNKS GAP_MS\n");
        return 2;
    }
    simulator_port = atoi(argument[2]);
    chunks = atoi(argument[3]);
    gap_ms = atoi(argument[4]);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argument[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 4096)) fail("listen");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[512];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int many = epoll_wait(poll, ready, 512, paced > 0 ? 1 : -1);
        for (int i = 0; i < many; i++) {
            int fd = ready[i].data.fd;
            if (fd != listener) {
                take_in(fd);
                continue;
            }
            int fresh = accept(listener, NULL, NULL);
            if (fresh < 0 || fresh >= MOST_CONNECTIONS) continue;
            setsockopt(fresh, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            of_fd[fresh] = calloc(1, sizeof(connection));
            of_fd[fresh]->fd = fresh;
            event.data.fd = fresh;
            epoll_ctl(poll, EPOLL_CTL_ADD, fresh, &event);
        }
        if (paced > 0) send_what_is_due();
    }
}
