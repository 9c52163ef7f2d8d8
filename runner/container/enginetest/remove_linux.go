package enginetest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long Remove waits for processes to end.
const patience = 30 * time.Second

// unescape decodes the kernel's escapes for paths in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Remove removes the directory of a stopped engine. dir is an absolute path.
//
// When a container ends, a podman process starts that nobody waits for. It mounts a directory of the engine again. So
// Remove first waits, for up to 30 seconds, until no command line names the directory. Then it unmounts everything at and
// below the directory, repeatedly where several mounts cover one place.
func Remove(dir string) error {
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left, err := processes(dir)
		late := time.Now().After(until)
		if err == nil && len(left) > 0 && !late {
			continue
		}
		if err == nil {
			err = unmount(dir)
		}
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if err == nil || late {
			if err != nil {
				err = fmt.Errorf("%w (processes that name the directory: %q)", err, left)
			}
			return err
		}
	}
}

// processes returns the command lines that contain dir.
func processes(dir string) (lines []string, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		line, err := os.ReadFile(name) // fails if the process has ended
		if err == nil && bytes.Contains(line, []byte(dir)) {
			lines = append(lines, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return lines, nil
}

// unmount unmounts everything at dir and below, the newest mount first.
func unmount(dir string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, line := range slices.Backward(slices.Collect(strings.Lines(string(text)))) {
		fields := strings.Fields(line) // ID PARENT DEVICE ROOT POINT …
		if len(fields) < 5 {
			continue
		}
		at := unescape.Replace(fields[4])
		if at != dir && !strings.HasPrefix(at, dir+"/") {
			continue
		}
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && err != unix.EINVAL { // EINVAL: another process has unmounted it
			return fmt.Errorf("unmount %s: %w", at, err)
		}
	}
	return nil
}
