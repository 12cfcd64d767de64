/* What an open loop costs at best: GETs of one document at an even rate, by one thread that waits in epoll for its timer
   and its replies, and sends what is due to a free connection. It draws, parses, checks and records nothing.

       bare_open_loop PORT CLIENTS RATE SECONDS

   Prints wake-ups per request, and the lag p50 and p99 in us. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL
#define EVENTS 256

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * NS + t.tv_nsec;
}

static int die(const char *what) {
    perror(what);
    exit(1);
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int connect_to(int port) {
    struct sockaddr_in host = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&host, sizeof host) || fcntl(fd, F_SETFL, O_NONBLOCK) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        die("connect");
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return fprintf(stderr, "PORT CLIENTS RATE SECONDS\n"), 2;
    int port = atoi(argv[1]), clients = atoi(argv[2]), free_count = 0, first_free = 0;
    double rate = atof(argv[3]);
    long long total = (long long)(rate * atof(argv[4])), sent = 0, received = 0, wakeups = 0;
    int *free_fds = calloc((size_t)clients, sizeof *free_fds);
    uint32_t *lag_ns = calloc((size_t)total, sizeof *lag_ns);
    char request[256], reply[65536];
    int length = snprintf(request, sizeof request, "GET /orders/_doc/42 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: application/json\r\n\r\n", port);
    int epoll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = timer}, events[EVENTS];
    if (!free_fds || !lag_ns || epoll < 0 || timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event))
        die("epoll");
    while (free_count < clients) {
        int fd = event.data.fd = connect_to(port);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
            die("epoll_ctl");
        free_fds[free_count++] = fd;
    }
    long long start_ns = now() + NS / 10, timer_ns = 0;
    while (received < total) {
        long long due_ns = sent < total ? start_ns + (long long)((double)sent * NS / rate) : 0;
        if (due_ns && free_count && due_ns <= now()) {
            int fd = free_fds[first_free];
            first_free = (first_free + 1) % clients;
            free_count--;
            lag_ns[sent++] = (uint32_t)(now() - due_ns);
            if (write(fd, request, (size_t)length) != length)
                die("write");
            continue;
        }
        if (due_ns && due_ns != timer_ns && free_count) { /* setting it clears its expiry, too */
            struct itimerspec at = {.it_value = {due_ns / NS, due_ns % NS}};
            timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
            timer_ns = due_ns;
        }
        int count = epoll_wait(epoll, events, EVENTS, -1);
        wakeups++;
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == timer) {
                uint64_t times;
                if ((due_ns == 0 || !free_count) && read(timer, &times, sizeof times) < 0 && errno != EAGAIN)
                    die("read");
            } else if (read(fd, reply, sizeof reply) > 0) { /* nginx writes a reply at once */
                received++;
                free_fds[(first_free + free_count++) % clients] = fd;
            } else
                die("read");
        }
    }
    qsort(lag_ns, (size_t)total, sizeof *lag_ns, by_size);
    printf("%.2f %.1f %.1f\n", (double)wakeups / (double)total, lag_ns[total / 2] / 1e3, lag_ns[total * 99 / 100] / 1e3);
    return 0;
}
