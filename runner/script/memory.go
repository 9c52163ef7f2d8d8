package script

import (
	"fmt"

	"github.com/daybookq/daybook/runner/sandbox"
)

// residentBytes is sandbox.ResidentBytes for a decision that is made once. While processes begin and end, the kernel's lists
// of children may lack one, and with it most of the memory. So it looks twice.
func residentBytes(pid int) int64 {
	return max(sandbox.ResidentBytes(pid), sandbox.ResidentBytes(pid))
}

// tooMuchMemory says why a context is ended, or returns "".
func tooMuchMemory(used, allowed int64) string {
	if allowed == 0 || used <= allowed {
		return ""
	}
	return fmt.Sprintf("its process had %d bytes of memory, and memory_bytes allows %d; it was ended", used, allowed)
}
