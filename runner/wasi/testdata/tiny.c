// The smallest guest of a compiler that reads and writes, for benchmarks: it copies its input in upper case.
//
//   clang --target=wasm32-wasi --sysroot=/usr -O2 -s -o tiny.wasm tiny.c
#include <ctype.h>
#include <unistd.h>

int main(void) {
	static char text[1 << 12];
	for (ssize_t n; (n = read(0, text, sizeof text)) > 0;) {
		for (ssize_t i = 0; i < n; i++) text[i] = toupper((unsigned char)text[i]);
		write(1, text, n);
	}
	return 0;
}
