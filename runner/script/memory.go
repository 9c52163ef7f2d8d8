package script

import (
	"fmt"

	"github.com/daybookq/daybook/runner/sandbox"
)

// residentBytes returns the larger of two calls of sandbox.ResidentBytes. It is for a decision that is made only once:
// while processes start and end, the kernel's lists of children may lack a process, and with it most of the memory.
func residentBytes(pid int) int64 {
	return max(sandbox.ResidentBytes(pid), sandbox.ResidentBytes(pid))
}

// tooMuchMemory returns why the context must end, or "".
func tooMuchMemory(used, allowed int64) string {
	if allowed == 0 || used <= allowed {
		return ""
	}
	return fmt.Sprintf("its process had %d bytes of memory, and memory_bytes allows %d; it was ended", used, allowed)
}
