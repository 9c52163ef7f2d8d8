package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuiltVar is the environment variable with the folder into which `scripts/tools peers` installs the programs that are not Debian
// packages. Find looks there first.
const BuiltVar = "BENCH_PEERS_BIN"

// Find returns the absolute path of a program: in the folder of BuiltVar, in PATH, or in one of the other places, which
// may be patterns.
func Find(program string, places ...string) (string, error) {
	if built := os.Getenv(BuiltVar); built != "" {
		path := filepath.Join(built, program)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return filepath.Abs(path)
		}
	}
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Abs(path)
	}
	for _, place := range places {
		found, err := filepath.Glob(filepath.Join(place, program))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return found[len(found)-1], nil // the newest version, as long as they have as many digits
		}
	}
	return "", fmt.Errorf("there is no program %s in the folder $%s and in PATH", program, BuiltVar)
}

// Version runs a program and returns the first line of its standard output.
func Version(ctx context.Context, path string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", path, strings.Join(args, " "), err, out)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line, nil
}

// FreePort returns a port of 127.0.0.1 on which no process listens.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Answers returns a function for Until that connects to a port of 127.0.0.1.
func Answers(port int) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		return c.Close()
	}
}
