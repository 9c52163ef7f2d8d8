package load

import (
	"fmt"
	"time"

	"golang.org/x/sys/windows"
)

// Own returns the processor time that this process has used.
func Own() (time.Duration, error) {
	var created, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user); err != nil {
		return 0, fmt.Errorf("read the processor time of this process: %w", err)
	}
	return filetime(kernel) + filetime(user), nil
}

// filetime converts a Windows duration, which is in units of 100 ns.
func filetime(t windows.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
