// A guest for tests. The first line of its input says what it does, and the rest is what it does it with.
//
//   clang --target=wasm32-wasi --sysroot=/usr -Os -s -o kit.wasm kit.c
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 16];

static long long count(int echo) {
	long long n = 0;
	for (;;) {
		ssize_t got = read(0, buffer, sizeof buffer);
		if (got <= 0) return n;
		n += got;
		for (ssize_t at = 0; echo && at < got;) {
			ssize_t put = write(1, buffer + at, got - at);
			if (put <= 0) exit(3);
			at += put;
		}
	}
}

// waits for input with poll, and counts how often there is none for 20 ms.
static void polls(void) {
	int nothing = 0;
	long long bytes = 0;
	for (;;) {
		struct pollfd p = {.fd = 0, .events = POLLRDNORM};
		int ready = poll(&p, 1, 20);
		if (ready < 0) exit(4);
		if (ready == 0) { nothing++; continue; }
		ssize_t got = read(0, buffer, sizeof buffer);
		if (got <= 0) break;
		bytes += got;
	}
	printf("%s, %lld bytes\n", nothing > 0 ? "waited" : "never waited", bytes);
}

// reads without blocking, and counts how often there is nothing.
static void nonblocking(void) {
	int nothing = 0;
	long long bytes = 0;
	if (fcntl(0, F_SETFL, O_NONBLOCK) != 0) exit(5);
	for (;;) {
		ssize_t got = read(0, buffer, sizeof buffer);
		if (got < 0 && errno == EAGAIN) {
			nothing++;
			struct timespec pause = {0, 5000000};
			nanosleep(&pause, NULL);
			continue;
		}
		if (got < 0) exit(6);
		if (got == 0) break;
		bytes += got;
	}
	printf("%s, %lld bytes\n", nothing > 0 ? "waited" : "never waited", bytes);
}

int main(int argc, char **argv) {
	char word[64];
	size_t n = 0;
	while (n < sizeof word - 1 && read(0, word + n, 1) == 1 && word[n] != '\n') n++;
	word[n] = 0;
	if (!strcmp(word, "echo")) count(1);
	else if (!strncmp(word, "exit ", 5)) { fprintf(stderr, "Goodbye, world!\n"); printf("Hello, world!\n"); fflush(stdout); _Exit(atoi(word + 5)); }
	else if (!strcmp(word, "busy")) for (volatile int i = 0;; i++);
	else if (!strcmp(word, "says and is busy")) { fprintf(stderr, "last words\n"); for (volatile int i = 0;; i++); }
	else if (!strcmp(word, "asleep")) sleep(1000);
	else if (!strcmp(word, "trap")) __builtin_trap();
	else if (!strcmp(word, "count")) printf("%lld", count(0));
	else if (!strcmp(word, "polls")) polls();
	else if (!strcmp(word, "nonblocking")) nonblocking();
	else if (!strcmp(word, "environment")) {
		extern char **environ;
		int variables = 0;
		while (environ && environ[variables]) variables++;
		printf("%d arguments, %d variables, /: %s, /etc/passwd: %s\n", argc, variables, open("/", O_RDONLY) < 0 ? "no" : "yes", open("/etc/passwd", O_RDONLY) < 0 ? "no" : "yes");
	} else if (!strcmp(word, "clock")) {
		unsigned char random[8] = {0};
		if (getentropy(random, sizeof random) != 0) exit(7);
		int set = 0;
		for (int i = 0; i < 8; i++) set |= random[i];
		printf("%lld %s", (long long)time(NULL), set ? "random" : "zero");
	} else if (!strncmp(word, "hog", 3)) {
		int mib = 0;
		static char *volatile last; // so that the compiler keeps the calls
		while ((last = malloc(1 << 20))) memset(last, 1, 1 << 20), mib++;
		printf("%d", mib);
	} else if (!strncmp(word, "write ", 6)) {
		memset(buffer, 'x', sizeof buffer);
		for (long long left = atoll(word + 6); left > 0;) {
			ssize_t put = write(1, buffer, left < (long long)sizeof buffer ? left : sizeof buffer);
			if (put <= 0) exit(3);
			left -= put;
		}
	} else if (!strncmp(word, "read ", 5)) {
		int f = open(word + 5, O_RDONLY);
		if (f < 0) { fprintf(stderr, "%s: %s\n", word + 5, strerror(errno)); exit(1); }
		for (ssize_t got; (got = read(f, buffer, sizeof buffer)) > 0;) write(1, buffer, got);
	} else { fprintf(stderr, "unknown: %s\n", word); exit(2); }
	return 0;
}
