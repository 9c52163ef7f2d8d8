package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/bench/rig"
)

// network is a switch with a cable to each of some machines, each of which is a network namespace. The users of the cluster
// are at the switch, so a cut between two machines does not separate them from any node. The kernel removes it all when the
// test and the nodes have ended.
type network struct {
	hub      *os.File
	machines []*os.File
}

// machineAddress returns the address of a machine.
func machineAddress(n int) string { return fmt.Sprint("10.77.0.", n+1) }

// errNoNetwork is the reason why this system has no such network.
var errNoNetwork = errors.New("no network namespaces")

// newNetwork makes a network with this many machines.
func newNetwork(machines int) (w *network, err error) {
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("%w: they need root", errNoNetwork)
	}
	for _, program := range []string{"nsenter", "ip", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: they need the program %s: %w", errNoNetwork, program, err)
		}
	}
	w = &network{}
	if w.hub, err = newNamespace(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoNetwork, err)
	}
	for range machines {
		m, err := newNamespace()
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.machines = append(w.machines, m)
	}
	lines := []string{"ip link set lo up", "ip link add switch type bridge", "ip addr add 10.77.0.254/24 dev switch", "ip link set switch up"}
	for n, m := range w.machines {
		cable := fmt.Sprint("cable", n)
		lines = append(lines, fmt.Sprintf("ip link add %s type veth peer name eth0 netns %s", cable, pathOf(m)), fmt.Sprintf("ip link set %s master switch up", cable))
	}
	err = in(w.hub, lines...)
	for n, m := range w.machines {
		if err == nil {
			err = in(m, "ip link set lo up", fmt.Sprintf("ip addr add %s/24 dev eth0", machineAddress(n)), "ip link set eth0 up", "iptables -w -S INPUT")
		}
	}
	if err != nil {
		return nil, errors.Join(errNoNetwork, err, w.close())
	}
	return w, nil
}

// newNamespace returns a new network namespace, which exists as long as the file is open.
func newNamespace() (space *os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without an unlock: the thread ends with the goroutine
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			space, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		}
	}()
	<-done
	return space, err
}

// pathOf returns the path of a namespace for other processes.
func pathOf(space *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), space.Fd()) }

// in runs commands in a namespace.
func in(space *os.File, lines ...string) error {
	for _, line := range lines {
		args := append([]string{"--net=" + pathOf(space)}, strings.Fields(line)...)
		if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, out)
		}
	}
	return nil
}

// dial connects from the switch.
func (w *network) dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without an unlock: the thread ends with the goroutine
		if err = unix.Setns(int(w.hub.Fd()), unix.CLONE_NEWNET); err == nil {
			c, err = (&net.Dialer{}).DialContext(ctx, network, address)
		}
	}()
	<-done
	return c, err
}

// cut drops what one machine sends to another one, until heal.
func (w *network) cut(from, to int) error {
	return in(w.machines[to], "iptables -w -A INPUT -s "+machineAddress(from)+" -j DROP")
}

// heal ends all cuts.
func (w *network) heal() (err error) {
	for _, m := range w.machines {
		err = errors.Join(err, in(m, "iptables -w -F INPUT"))
	}
	return err
}

func (w *network) close() (err error) {
	for _, space := range append(w.machines, w.hub) {
		err = errors.Join(err, space.Close())
	}
	return err
}

// places returns the places of nodes, one at each machine. It writes files into dir.
func (w *network) places(binary, dir string) (func(n int) (rig.Place, error), error) {
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := w.writeCertificate(cert, key); err != nil {
		return nil, err
	}
	return func(n int) (rig.Place, error) {
		p := rig.Place{
			Binary: filepath.Join(dir, fmt.Sprint("daybook-at-", n)), Listen: machineAddress(n) + ":1717", Cluster: machineAddress(n) + ":1917",
			Flags: []string{"--insecure", "--cluster-ca", cert, "--cluster-cert", cert, "--cluster-key", key},
		}
		script := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=%s %s \"$@\"\n", pathOf(w.machines[n]), binary)
		return p, os.WriteFile(p.Binary, []byte(script), 0o755)
	}, nil
}

// writeCertificate writes a certificate that signs itself, and is valid for all machines.
func (w *network) writeCertificate(cert, key string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for n := range w.machines {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(machineAddress(n)))
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600),
	)
}
