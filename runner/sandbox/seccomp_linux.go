package sandbox

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// A seccomp filter of the call socket refuses the network, because landlock knows only TCP, but not UDP, MPTCP or raw
// sockets. The filter also refuses Unix sockets, because service managers and container engines listen on them and
// would start processes outside the sandbox as root. The call socketpair is allowed.

// architectures are those on which only the call socket creates sockets, with their numbers in the kernel.
var architectures = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64, "loong64": unix.AUDIT_ARCH_LOONGARCH64,
}

// canFilter reports whether the network can be refused on this machine.
func canFilter() bool {
	_, known := architectures[runtime.GOARCH]
	_, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return known && err == nil
}

// noNetwork returns the instructions of a filter that allows only netlink sockets, with which programs list network
// interfaces.
func noNetwork() []uint64 {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K

		// The kernel's struct seccomp_data.
		number, architecture, firstArgument = 0, 4, 16
		// x32Calls is the first number of amd64's additional calls with 32-bit pointers. No other architecture has
		// numbers this high.
		x32Calls = 0x40000000

		allow   = unix.SECCOMP_RET_ALLOW
		unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		denied  = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
	)
	program := []unix.SockFilter{
		{Code: load, K: architecture},
		{Code: equal, Jt: 1, K: architectures[runtime.GOARCH]}, // 32-bit programs have other calls
		{Code: result, K: unknown},
		{Code: load, K: number},
		{Code: least, Jf: 1, K: x32Calls},
		{Code: result, K: unknown},
		{Code: equal, Jf: 1, K: unix.SYS_IO_URING_SETUP}, // it can create sockets without the call socket
		{Code: result, K: unknown},
		{Code: equal, Jf: 2, K: unix.SYS_SOCKET},
		{Code: load, K: firstArgument},
		{Code: equal, Jf: 1, K: unix.AF_NETLINK},
		{Code: result, K: allow},
		{Code: result, K: denied},
	}
	instructions := make([]uint64, len(program))
	for i, p := range program {
		instructions[i] = uint64(p.Code) | uint64(p.Jt)<<16 | uint64(p.Jf)<<24 | uint64(p.K)<<32
	}
	return instructions
}
