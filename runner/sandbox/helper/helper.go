//go:build linux

package helper

import (
	"sync/atomic"
	"syscall"
)

func init() {
	if _, is := syscall.Getenv(Variable); is {
		run()
	}
}

// Probe is a path for which the helper starts no program, but reports that one has run and ended with status 0.
const Probe = ""

// run is the life of the helper. Package initialization runs on the main thread, and so does everything here except
// answer.
func run() {
	var s Settings
	if !readSettings(&s) {
		text := []byte("this environment variable is set by daybook for processes of its own: " + Variable + "\n")
		syscall.Write(2, text)
		syscall.Exit(2)
	}
	closeOnExec()
	restrict(&s)
	if s.Path == Probe {
		send(Message{Kind: Running})
		send(Message{Kind: Ended})
		syscall.Exit(0)
	}
	pid := start(&s)
	send(Message{Kind: Running})

	var program process
	program.pid.Store(int64(pid))
	go program.answer(&s)
	ended := program.wait()
	if s.Sweep {
		sweep()
	}
	send(ended)
	// In a PID namespace, the kernel now ends all processes that are left. The runner empties a cgroup.
	syscall.Exit(0)
}

// start starts the program, and closes the helper's descriptors of the program's files: otherwise the runner would not
// see the end of the program's output, and the program would not notice that nobody reads it.
func start(s *Settings) int {
	files := make([]uintptr, 3+s.Files)
	for i := range files {
		files[i] = uintptr(i)
		if i >= 3 {
			files[i] = uintptr(s.FirstFile) + uintptr(i-3)
		}
	}
	pid, err := syscall.ForkExec(s.Path, s.Argv, &syscall.ProcAttr{
		Dir: s.Dir, Env: s.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		refuse("", err)
	}
	for _, fd := range files {
		syscall.Close(int(fd))
	}
	return pid
}

// process is the program.
type process struct {
	pid atomic.Int64 // 0 once it has ended, because the kernel may reuse its id
}

// wait waits until the program has ended. It also reaps other processes that have become children of this one.
func (p *process) wait() Message {
	for {
		var status syscall.WaitStatus
		var used syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, 0, &used)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			refuse("wait4", err)
		case int64(pid) == p.pid.Load():
			p.pid.Store(0)
			return Message{
				Kind: Ended, Status: status,
				UserMicros: micros(used.Utime), SystemMicros: micros(used.Stime), MaxResidentKiB: uint64(used.Maxrss),
			}
		}
	}
}

func micros(t syscall.Timeval) uint64 { return uint64(t.Sec)*1_000_000 + uint64(t.Usec) }

// answer carries out the runner's requests.
func (p *process) answer(s *Settings) {
	for {
		var request [1]byte
		if !readFull(request[:]) {
			break
		}
		if pid := p.pid.Load(); request[0] == Terminate && pid != 0 {
			syscall.Kill(-int(pid), syscall.SIGTERM)
		}
	}
	switch {
	case s.CgroupKill >= 0:
		syscall.Write(int(s.CgroupKill), []byte("1")) // this ends the helper, too
	case s.Sweep:
		if pid := p.pid.Load(); pid != 0 {
			syscall.Kill(int(pid), syscall.SIGKILL) // then wait returns, and run sweeps
		}
	default:
		syscall.Exit(0)
	}
}
