// A guest that uses the host module serval. Its input is the name of a function in a line, and then the data.
//
//   clang --target=wasm32-wasi --sysroot=/usr -Os -s -Wl,--export=alloc -o serval.wasm serval.c
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((import_module("serval"), import_name("add"))) int add(int a, int b);
__attribute__((import_module("serval"), import_name("invoke_raw"))) int invoke_raw(const char *name, int name_len, const char *data, int data_len);

void *alloc(int n) { return malloc(n); }

static char text[1 << 16];

int main(void) {
	ssize_t n = 0, got;
	while ((got = read(0, text + n, sizeof text - n)) > 0) n += got;
	char *end = memchr(text, '\n', n);
	if (!end) return 2;
	if (!strncmp(text, "add", 3)) { printf("%d", add(40, 2)); return 0; }
	if (!strncmp(text, "bad name", 8)) { printf("%d", invoke_raw((char *)-16, 100, text, 0)); return 0; }
	if (!strncmp(text, "bad data", 8)) { printf("%d", invoke_raw(text, 3, (char *)-16, 100)); return 0; }
	int at = invoke_raw(text, end - text, end + 1, n - (end + 1 - text));
	if (at < 0) { printf("%d", at); return 0; }
	unsigned len;
	memcpy(&len, (char *)at, 4);
	fwrite((char *)at + 4, 1, len, stdout);
	return 0;
}
