package script

import "fmt"

// tooMuchMemory says why a context is ended, or returns "".
func tooMuchMemory(used, allowed int64) string {
	if allowed == 0 || used <= allowed {
		return ""
	}
	return fmt.Sprintf("its process had %d bytes of memory, and memory_bytes allows %d; it was ended", used, allowed)
}
