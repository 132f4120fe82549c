// A bare WebSocket sender, to hold the hub against: one thread, one prebuilt frame, one send(2) for each receiver.
//
//     limit FRAME_BYTES [cork] [handover] [redis PORT FOLDER]
//
// Listens on a port of 127.0.0.1 that the kernel chooses, and prints it. A WebSocket to /receive/N is a receiver of channel
// N. A connection that says CONTROL and a newline makes it send: each four bytes that follow (big-endian) are the number of
// a channel, whose receivers get one frame each. With `cork`, what is due to a receiver at the end of a loop's turn leaves
// by one call. With `handover`, numbers are read by a second thread, which hands them over and wakes the sender by an
// eventfd, as a hub's feed does: what a second thread costs. With `redis`, it is one of several relays: what it is asked to
// send goes to Redis as the command of FOLDER (loadtest/Limit/record), and each push from there is a frame to the receivers
// of channel 0. No parsing, no names, no checks: what no real server can be faster than.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 20000, CHANNELS_MAX = 20000, EVENTS_MAX = 512, CORK_MAX = 64, FRAME_MAX = 65535 };

struct connection {
    int is_open, is_control, is_dirty;
    unsigned channel;
    size_t unsent;  // bytes of frames still due: of the one prebuilt frame, over and over
};

struct channel {
    int *receivers;
    int count, room;
};

static struct connection connections[CONNECTIONS_MAX];
static struct channel channels[CHANNELS_MAX];
static int dirty[CONNECTIONS_MAX], dirty_count;
static unsigned char frame[FRAME_MAX + 4], input[1 << 16];
static unsigned char rest[4];  // of the one control connection's last read
static size_t frame_bytes, rest_count;
static int poll_set, is_corked;

// The way to Redis. The command is what stands before and behind its number, if it has one.
static struct {
    int fd;
    unsigned char before[1 << 16], behind[1 << 16], answers[1 << 20], unsent[1 << 22];
    size_t before_count, behind_count, held, unsent_count;
    uint64_t number;
} redis = {.fd = -1};

// What the second thread has read and the sender has not taken.
static struct {
    pthread_mutex_t lock;
    uint32_t *numbers, *taken;
    size_t count, room, taken_room;
    atomic_int is_woken;
    int poll_set, wake;
} handover = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = -1};

static void stop(const char *what) {
    perror(what);
    exit(1);
}

static void drop(int fd) {
    struct connection *c = &connections[fd];
    struct channel *channel = &channels[c->channel];
    if (c->is_open && !c->is_control)
        for (int i = 0; i < channel->count; i++)
            if (channel->receivers[i] == fd) channel->receivers[i--] = channel->receivers[--channel->count];
    memset(c, 0, sizeof *c);
    close(fd);
}

static void receive_on(unsigned number, int fd) {
    struct channel *channel = &channels[number];
    if (channel->count == channel->room) {
        channel->room = channel->room ? 2 * channel->room : 2;
        channel->receivers = realloc(channel->receivers, (size_t)channel->room * sizeof(int));
        if (!channel->receivers) stop("realloc");
    }
    channel->receivers[channel->count++] = fd;
    connections[fd].channel = number;
}

static void watch(int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    epoll_ctl(poll_set, EPOLL_CTL_MOD, fd, &event);
}

// Sends what is due, as far as the socket takes it. A send that ended inside a frame goes on there.
static void flush(int fd) {
    struct connection *c = &connections[fd];
    while (c->unsent > 0) {
        struct iovec parts[CORK_MAX];
        size_t left = c->unsent, at = (frame_bytes - left % frame_bytes) % frame_bytes, offered = 0;
        int count = 0;
        while (left > 0 && count < CORK_MAX) {
            size_t length = frame_bytes - at;
            parts[count++] = (struct iovec){frame + at, length};
            offered += length;
            left -= length;
            at = 0;
        }
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
        ssize_t sent = count == 1 ? send(fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL)
                                  : sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno != EAGAIN) return drop(fd);
        if (sent > 0) c->unsent -= (size_t)sent;
        if (sent < (ssize_t)offered) return watch(fd, EPOLLIN | EPOLLOUT);
    }
}

static void send_to(unsigned number) {
    struct channel *channel = &channels[number];
    for (int i = 0; i < channel->count; i++) {
        int fd = channel->receivers[i], is_waiting = connections[fd].unsent > 0;
        connections[fd].unsent += frame_bytes;
        if (!is_corked) {
            if (!is_waiting) flush(fd);
        } else if (!is_waiting && !connections[fd].is_dirty) {
            connections[fd].is_dirty = 1;
            dirty[dirty_count++] = fd;
        }
    }
}

static void flush_redis(void) {
    while (redis.unsent_count > 0) {
        ssize_t sent = send(redis.fd, redis.unsent, redis.unsent_count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) stop("redis");
        redis.unsent_count -= (size_t)sent;
        memmove(redis.unsent, redis.unsent + sent, redis.unsent_count);
    }
    watch(redis.fd, redis.unsent_count > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void add(const void *bytes, size_t count) {
    if (redis.unsent_count + count > sizeof redis.unsent) exit(1);
    memcpy(redis.unsent + redis.unsent_count, bytes, count);
    redis.unsent_count += count;
}

static void ask_redis(void) {
    char digits[24], head[32];
    add(redis.before, redis.before_count);
    if (redis.behind_count == 0) return;
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)++redis.number);
    add(head, (size_t)snprintf(head, sizeof head, "$%d\r\n%s\r\n", count, digits));
    add(redis.behind, redis.behind_count);
}

// The bytes of the value (RESP3) that begins there; 0 if it is not whole.
static size_t whole(const unsigned char *bytes, size_t count) {
    const unsigned char *end = memchr(bytes, '\n', count);
    if (!end) return 0;
    size_t at = (size_t)(end - bytes) + 1;
    long number = strtol((const char *)bytes + 1, NULL, 10);
    if (bytes[0] == '$' || bytes[0] == '=') {
        if (number < 0) return at;
        return at + (size_t)number + 2 <= count ? at + (size_t)number + 2 : 0;
    }
    if (bytes[0] != '*' && bytes[0] != '>' && bytes[0] != '%') return at;
    for (long left = bytes[0] == '%' ? 2 * number : number; left > 0; left--) {
        size_t one = at < count ? whole(bytes + at, count - at) : 0;
        if (one == 0) return 0;
        at += one;
    }
    return at;
}

static void end_turn(void) {
    for (int i = 0; i < dirty_count; i++) {
        connections[dirty[i]].is_dirty = 0;
        flush(dirty[i]);
    }
    dirty_count = 0;
}

static void hear_redis(void) {
    ssize_t count = recv(redis.fd, redis.answers + redis.held, sizeof redis.answers - redis.held, 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) stop("redis");
    redis.held += (size_t)count;
    size_t at = 0, one;
    while (at < redis.held && (one = whole(redis.answers + at, redis.held - at)) > 0) {
        const unsigned char *kind = redis.answers + at;
        if (kind[0] == '-') fprintf(stderr, "limit: %.*s", (int)one, (const char *)kind);
        // Not of a subscription that begins: ">3", "$8" or "$7", "smessage" or "message".
        if (kind[0] == '>' && one > 20 && memmem(kind, 20, "message", 7)) send_to(0);
        at += one;
    }
    redis.held -= at;
    memmove(redis.answers, redis.answers + at, redis.held);
    end_turn();
}

static size_t read_file(const char *folder, const char *name, void *into, size_t most) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) stop(path);
    size_t count = fread(into, 1, most, file);
    fclose(file);
    return count;
}

static void begin_redis(int port, const char *folder) {
    char number[32] = "";
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    redis.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(redis.fd, (struct sockaddr *)&address, sizeof address) != 0) stop("redis");
    fcntl(redis.fd, F_SETFL, O_NONBLOCK);
    int one = 1;
    setsockopt(redis.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    redis.before_count = read_file(folder, "before", redis.before, sizeof redis.before);
    redis.behind_count = read_file(folder, "behind", redis.behind, sizeof redis.behind);
    read_file(folder, "number", number, sizeof number - 1);
    redis.number = strtoull(number, NULL, 10);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = redis.fd};
    if (epoll_ctl(poll_set, EPOLL_CTL_ADD, redis.fd, &event) != 0) stop("epoll_ctl");
    redis.unsent_count = read_file(folder, "begin", redis.unsent, sizeof redis.unsent);
    flush_redis();
}

static void upgrade(int fd, size_t count) {
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char key[128], accept[64], response[256];
    unsigned char digest[SHA_DIGEST_LENGTH];
    unsigned number = 0;
    input[count < sizeof input ? count : sizeof input - 1] = 0;
    const char *field = strcasestr((char *)input, "Sec-WebSocket-Key: ");
    if (!field || !strstr(field, "\r\n\r\n") || sscanf(field + 19, "%40[^\r]", key) != 1) return drop(fd);
    if (sscanf((char *)input, "GET /receive/%u", &number) != 1 || number >= CHANNELS_MAX) return drop(fd);
    strcat(key, guid);
    SHA1((unsigned char *)key, strlen(key), digest);
    EVP_EncodeBlock((unsigned char *)accept, digest, sizeof digest);
    int length = snprintf(response, sizeof response,
                          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          "Sec-WebSocket-Accept: %s\r\n\r\n", accept);
    if (send(fd, response, (size_t)length, MSG_NOSIGNAL) != length) return drop(fd);
    connections[fd].is_open = 1;
    receive_on(number, fd);
}

static void queue(uint32_t number) {
    if (handover.count == handover.room) {
        handover.room = handover.room ? 2 * handover.room : 1024;
        handover.numbers = realloc(handover.numbers, handover.room * sizeof *handover.numbers);
        if (!handover.numbers) stop("realloc");
    }
    handover.numbers[handover.count++] = number;
}

// What is left of a number waits for the next read.
static void hand_over(const unsigned char *bytes, size_t count) {
    pthread_mutex_lock(&handover.lock);
    for (size_t i = 0; i < count; i++) {
        rest[rest_count++] = bytes[i];
        if (rest_count < sizeof rest) continue;
        uint32_t number;
        memcpy(&number, rest, sizeof number);
        rest_count = 0;
        queue(ntohl(number));
    }
    pthread_mutex_unlock(&handover.lock);
    uint64_t one = 1;
    if (!atomic_exchange(&handover.is_woken, 1) && write(handover.wake, &one, sizeof one) < 0) stop("write");
}

// The second thread: reads what control connections say.
static void *feed(void *unused) {
    static unsigned char said[1 << 16];
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int ready = epoll_wait(handover.poll_set, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            ssize_t count = recv(fd, said, sizeof said, 0);
            if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (count <= 0) {
                close(fd);
                continue;
            }
            hand_over(said, (size_t)count);
        }
    }
    return unused;
}

// The sender: takes what was handed over.
static void take_over(void) {
    atomic_store(&handover.is_woken, 0);
    pthread_mutex_lock(&handover.lock);
    uint32_t *numbers = handover.numbers;
    size_t room = handover.room, due = handover.count;
    handover.numbers = handover.taken;
    handover.room = handover.taken_room;
    handover.count = 0;
    pthread_mutex_unlock(&handover.lock);
    handover.taken = numbers;
    handover.taken_room = room;
    for (size_t i = 0; i < due; i++)
        if (numbers[i] < CHANNELS_MAX) send_to(numbers[i]);
    end_turn();
}

static void start_feed(void) {
    pthread_t thread;
    handover.poll_set = epoll_create1(EPOLL_CLOEXEC);
    handover.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    // Edge-triggered and never read: each write is told once.
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = handover.wake};
    if (epoll_ctl(poll_set, EPOLL_CTL_ADD, handover.wake, &event) != 0) stop("epoll_ctl");
    if (pthread_create(&thread, NULL, feed, NULL) != 0) stop("pthread_create");
}

// What is left of a number waits for the next read.
static void command(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        rest[rest_count++] = bytes[i];
        if (rest_count < sizeof rest) continue;
        uint32_t number;
        memcpy(&number, rest, sizeof number);
        number = ntohl(number);
        rest_count = 0;
        if (redis.fd >= 0) ask_redis();
        else if (number < CHANNELS_MAX) send_to(number);
    }
    if (redis.fd >= 0) flush_redis();
    end_turn();
}

static void readable(int fd) {
    static const char greeting[] = "CONTROL\n";
    size_t length = sizeof greeting - 1;
    ssize_t count = recv(fd, input, sizeof input - 1, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return drop(fd);
    if (connections[fd].is_control) return command(input, (size_t)count);
    if (connections[fd].is_open) return;
    if ((size_t)count < length || memcmp(input, greeting, length) != 0) return upgrade(fd, (size_t)count);
    connections[fd].is_open = connections[fd].is_control = 1;
    rest_count = 0;
    if (handover.wake < 0) return command(input + length, (size_t)count - length);
    // From here on it is the second thread's.
    hand_over(input + length, (size_t)count - length);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(poll_set, EPOLL_CTL_DEL, fd, NULL);
    if (epoll_ctl(handover.poll_set, EPOLL_CTL_ADD, fd, &event) != 0) stop("epoll_ctl");
}

static void accept_all(int listener) {
    for (;;) {
        int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        if (fd >= CONNECTIONS_MAX) {
            close(fd);
            continue;
        }
        // The second thread closes control connections without a word to this one.
        memset(&connections[fd], 0, sizeof connections[fd]);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (epoll_ctl(poll_set, EPOLL_CTL_ADD, fd, &event) != 0) stop("epoll_ctl");
    }
}

static void build_frame(size_t bytes) {
    if (bytes < 8 || bytes > FRAME_MAX) {
        fprintf(stderr, "limit: FRAME_BYTES is from 8 to %d, header included\n", FRAME_MAX);
        exit(1);
    }
    size_t header = bytes < 128 ? 2 : 4, payload = bytes - header;
    frame[0] = 0x81;
    frame[1] = header == 2 ? (unsigned char)payload : 126;
    frame[2] = (unsigned char)(payload >> 8);
    frame[3] = (unsigned char)payload;
    memset(frame + header, 'x', payload);
    frame_bytes = bytes;
}

int main(int count, char **arguments) {
    build_frame(count > 1 ? strtoul(arguments[1], NULL, 10) : 0);
    int hands_over = 0, redis_at = 0;
    for (int i = 2; i < count; i++) {
        if (strcmp(arguments[i], "redis") == 0 && i + 2 < count) redis_at = i;
        if (strcmp(arguments[i], "cork") == 0) is_corked = 1;
        if (strcmp(arguments[i], "handover") == 0) hands_over = 1;
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, length) != 0) stop("bind");
    if (listen(listener, 4096) != 0) stop("listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    poll_set = epoll_create1(EPOLL_CLOEXEC);
    if (hands_over) start_feed();
    if (redis_at > 0) begin_redis(atoi(arguments[redis_at + 1]), arguments[redis_at + 2]);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[EVENTS_MAX];
    if (epoll_ctl(poll_set, EPOLL_CTL_ADD, listener, &event) != 0) stop("epoll_ctl");
    for (;;) {
        int ready = epoll_wait(poll_set, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                accept_all(listener);
                continue;
            }
            if (fd == redis.fd) {
                if (events[i].events & EPOLLOUT) flush_redis();
                hear_redis();
                continue;
            }
            if (fd == handover.wake) {
                take_over();
                continue;
            }
            if (events[i].events & EPOLLOUT) {
                watch(fd, EPOLLIN);
                flush(fd);
            }
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(fd);
        }
    }
}
