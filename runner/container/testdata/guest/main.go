// The program that the tests run in containers. Its first argument selects the test case.
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	args := append(os.Args[1:], "", "")
	if err := do(args[0], args[1], args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func do(verb, first, second string) error {
	n, _ := strconv.Atoi(first)
	switch verb {
	case "echo":
		fmt.Println(first)
		fmt.Fprintln(os.Stderr, second)
	case "exit":
		fmt.Println("about to exit")
		os.Exit(n)
	case "look": // print what the container may do
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(status)) {
			for _, name := range []string{"CapEff:", "CapPrm:", "CapBnd:", "NoNewPrivs:", "Seccomp:", "Uid:", "Gid:"} {
				if strings.HasPrefix(line, name) {
					fmt.Print(strings.Join(strings.Fields(line), " "), "\n")
				}
			}
		}
		links, err := net.Interfaces()
		if err != nil {
			return err
		}
		for _, l := range links {
			fmt.Println("interface", l.Name)
		}
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		fmt.Println("directory", dir)
		for _, path := range []string{"/guest", "/new", "/etc/new", "/volume/new", "/tmp/new", "/dev/shm/new", "/workspace/new", "/sys/new", "/proc/sys/kernel/hostname"} {
			err := os.WriteFile(path, []byte("x"), 0o600)
			fmt.Printf("write %s: %v\n", path, err == nil)
		}
		for _, name := range os.Environ() {
			fmt.Println("environment", name)
		}
		devices, err := os.ReadDir("/dev")
		if err != nil {
			return err
		}
		for _, d := range devices {
			fmt.Println("device", d.Name())
		}
	case "spew": // bytes to stdout, in lines
		line := []byte(strings.Repeat("x", 1023) + "\n")
		fmt.Println("the beginning")
		for range n >> 10 {
			if _, err := os.Stdout.Write(line); err != nil {
				return err
			}
		}
		fmt.Println("the end")
	case "hold": // memory
		var all [][]byte
		for range n >> 20 {
			all = append(all, bytes.Repeat([]byte{1}, 1<<20))
		}
		fmt.Println("holding", len(all))
	case "fork": // processes that stay
		for i := range n {
			if err := exec.Command("/guest", "sleep").Start(); err != nil {
				return fmt.Errorf("after %d processes: %w", i, err)
			}
		}
		fmt.Println("all processes run")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("started")
		time.Sleep(time.Hour)
	case "polite":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("started")
		fmt.Println("got", <-c)
		os.Exit(7)
	case "sleep":
		time.Sleep(time.Hour)
	case "upper": // all *.dat below the directory, into out/
		return filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".dat" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			to := filepath.Join("out", path)
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return err
			}
			fmt.Println("upper", path)
			return os.WriteFile(to, bytes.ToUpper(text), 0o600)
		})
	case "tricks": // traps for a push and a removal
		for name, to := range map[string]string{"passwd.dat": "/etc/passwd", "dir": "/etc", "up": "../../..", "self": "."} {
			if err := os.Symlink(to, name); err != nil {
				return err
			}
		}
		if err := syscall.Mkfifo("pipe.dat", 0o600); err != nil {
			return err
		}
		if err := os.WriteFile("good.dat", []byte("good"), 0o600); err != nil {
			return err
		}
		if err := os.MkdirAll("closed/below", 0o700); err != nil {
			return err
		}
		return os.Chmod("closed", 0)
	case "fill": // files of 1 MiB
		block := bytes.Repeat([]byte{1}, 1<<20)
		for i := range n >> 20 {
			if err := os.WriteFile(strconv.Itoa(i), block, 0o600); err != nil {
				return err
			}
		}
		time.Sleep(time.Hour)
	case "deleted", "mapped": // unnamed files of 4 MiB
		block := bytes.Repeat([]byte{1}, 4<<20)
		var held []any
		for range n >> 22 {
			f, err := os.Create("gone")
			if err != nil {
				return err
			}
			if _, err := f.Write(block); err != nil {
				return err
			}
			if err := os.Remove("gone"); err != nil {
				return err
			}
			held = append(held, f)
			if verb == "mapped" {
				m, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
				if err != nil {
					return err
				}
				held[len(held)-1] = m
				if err := f.Close(); err != nil {
					return err
				}
			}
		}
		fmt.Println("holding", len(held))
		time.Sleep(time.Hour)
		fmt.Println(held...)
	case "namespaces": // that the container must not get
		c := exec.Command("/guest", "sleep")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}}
		err := c.Start()
		if wrapped, ok := err.(*fs.PathError); ok {
			err = wrapped.Err
		}
		fmt.Println("clone:", err)
		raw := func(name string, call, a, b, c, d, e uintptr) {
			if _, _, err := syscall.RawSyscall6(call, a, b, c, d, e, 0); err != 0 {
				fmt.Printf("%s: %v\n", name, err)
				return
			}
			fmt.Printf("%s: permitted\n", name)
		}
		// The arguments are invalid where valid ones would create a process. Without a filter, the error is a different
		// one.
		raw("clone3", unix.SYS_CLONE3, 0, 0, 0, 0, 0)
		raw("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0, 0, 0)
		raw("setns", unix.SYS_SETNS, ^uintptr(0), 0, 0, 0, 0)
		raw("fsopen", unix.SYS_FSOPEN, 0, 0, 0, 0, 0)
		raw("move_mount", unix.SYS_MOVE_MOUNT, 0, 0, 0, 0, 1<<20)
		fmt.Println("mount:", syscall.Mount("t", "/workspace", "tmpfs", 0, ""))
	case "deep":
		for range n {
			if err := os.Mkdir("d", 0o700); err != nil {
				return err
			}
			if err := os.Chdir("d"); err != nil {
				return err
			}
		}
		time.Sleep(time.Hour)
	default:
		return fmt.Errorf("the guest does not know %q", verb)
	}
	return nil
}
