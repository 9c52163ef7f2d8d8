package cluster

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/job"
)

// A base is a copy of the state of a node, which another node fetches because it is new, or lacks entries that nobody has
// any more. It is fetched file by file. Whole files stay, so the next fetch continues one that ended early.

// baseKind is a connection over which a node fetches a base.
const baseKind = "base"

const (
	// baseAge is how long a base is kept for a node that continues to fetch it.
	baseAge = 10 * time.Minute
	// fetchTimeout bounds how long no byte of a file may arrive.
	fetchTimeout = 30 * time.Second
	// basePace is the most bytes of a base that a node sends in a second. At full speed, the p99 of claims at this node grew by a
	// factor of two to four, when both nodes shared a disk and two processors.
	basePace = 48 << 20
	// maxOffer bounds the list of the files of a base.
	maxOffer = 64 << 20
)

// Base is a copy of the state of a node, in a directory.
type Base struct {
	Dir         string
	Index, Term uint64 // of the last entry that it includes in full
}

// served is a base that this node keeps for others.
type served struct {
	mu       sync.Mutex
	id       string
	base     Base
	used     time.Time
	fetching int  // connections that fetch it now
	whole    bool // the last node that fetched it has all of it
}

// needs returns the first entry that a node needs that fetches a base now.
func (s *served) needs() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" || s.whole && s.fetching == 0 {
		return math.MaxUint64
	}
	return s.base.Index + 1
}

// offerOf describes a base to the node that fetches it.
type offerOf struct {
	ID          string
	Index, Term uint64
	Files       []baseFile
}

type baseFile struct {
	Name  string
	Bytes int64
}

// The names of the directory with a base for others, of the one with what was fetched, and of the file that says that this
// is whole.
const (
	checkpointDir = "checkpoint"
	fetchedDir    = "base"
	fetchedMark   = "base.complete"
)

// serveBase sends a base that includes at least an entry.
func (c *Cluster) serveBase(ctx context.Context, conn net.Conn) error {
	r := bufio.NewReader(conn)
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	line, err := r.ReadSlice('\n') // a line that is longer than the buffer is an error
	if err != nil {
		return err
	}
	var id string
	var index uint64
	if _, err := fmt.Sscanf(string(line), "base id=%s index=%d\n", &id, &index); err != nil {
		return err
	}
	conn.SetDeadline(time.Now().Add(time.Minute)) // the store is written to the disk
	offer, dir, err := c.offerBase(ctx, id, index)
	if err != nil {
		return errors.Join(err, writeText(conn, []byte("{}")))
	}
	defer c.base.end()
	text, err := json.Marshal(offer)
	if err == nil {
		err = writeText(conn, text)
	}
	if err != nil {
		return err
	}
	var sent pace
	for {
		conn.SetDeadline(time.Now().Add(fetchTimeout))
		line, err := r.ReadSlice('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if string(line) == "done\n" {
			c.base.mu.Lock()
			c.base.whole = true
			c.base.mu.Unlock()
			return nil
		}
		name, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "\n"), "get ")
		if !ok || !isFileName(name) {
			return fmt.Errorf("a request for %.100q", line)
		}
		c.base.mu.Lock()
		c.base.used = time.Now()
		c.base.mu.Unlock()
		if err := sendFile(conn, filepath.Join(dir, name), &sent); err != nil {
			return err
		}
	}
}

func (s *served) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetching--
}

// offerBase returns a base of this node, the one with this id if it is still there, for a connection that fetches it until
// its end.
func (c *Cluster) offerBase(ctx context.Context, id string, index uint64) (o offerOf, dir string, err error) {
	s := &c.base
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" || s.fetching == 0 && (s.base.Index < index || s.id != id && (s.whole || time.Since(s.used) > baseAge)) {
		if s.id != "" {
			if err := os.RemoveAll(s.base.Dir); err != nil {
				return o, "", err
			}
			s.id = ""
		}
		if c.o.Checkpoint == nil {
			return o, "", errors.New("this node cannot make a base")
		}
		b, err := c.o.Checkpoint(ctx, filepath.Join(c.o.Dir, checkpointDir))
		if err != nil {
			return o, "", err
		}
		s.id, s.base, s.whole = fmt.Sprintf("%016x", draw()), b, false
	}
	if s.base.Index < index {
		return o, "", fmt.Errorf("the state on the disk of this node includes entry %d, and entry %d is needed", s.base.Index, index)
	}
	s.used = time.Now()
	o = offerOf{ID: s.id, Index: s.base.Index, Term: s.base.Term}
	entries, err := os.ReadDir(s.base.Dir)
	for _, e := range entries {
		info, failed := e.Info()
		if err = errors.Join(err, failed); err != nil {
			return o, "", err
		}
		if e.Name() != "LOCK" {
			o.Files = append(o.Files, baseFile{e.Name(), info.Size()})
		}
	}
	if err == nil {
		s.fetching++
		s.whole = false
	}
	return o, s.base.Dir, err
}

// dropOldBase removes the base for others if it was fetched, or if nobody has fetched any of it for a while.
func (c *Cluster) dropOldBase() {
	s := &c.base
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != "" && s.fetching == 0 && (s.whole || time.Since(s.used) > baseAge) {
		s.id = ""
		if err := os.RemoveAll(s.base.Dir); err != nil {
			c.o.Logger.Warn("cannot remove a base", "directory", s.base.Dir, "error", err)
		}
	}
}

// pace bounds the bytes of a base that a node sends in a second. Its zero value is ready.
type pace struct{ next time.Time }

// after waits after some bytes were sent.
func (p *pace) after(bytes int) {
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(bytes) * time.Second / basePace)
	time.Sleep(p.next.Sub(now))
}

// sendFile sends the bytes of a file, and its digest.
func sendFile(conn net.Conn, path string, p *pace) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	b := make([]byte, 256<<10)
	for {
		n, err := f.Read(b)
		if n > 0 {
			sum.Write(b[:n])
			conn.SetDeadline(time.Now().Add(fetchTimeout))
			if _, err := conn.Write(b[:n]); err != nil {
				return err
			}
			p.after(n)
		}
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	_, err = conn.Write([]byte(hex.EncodeToString(sum.Sum(nil))))
	return err
}

// Fetch fetches a base that includes at least an entry, from a member, into the directory of a node. Files of an earlier
// call that arrived whole are not fetched again. Install then puts the base in the place of the store.
func Fetch(ctx context.Context, j Joining, i *Identity, from job.Member, index uint64) (err error) {
	began, dir := time.Now(), j.Dir
	to := filepath.Join(dir, fetchedDir)
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	conn, err := j.Dial(ctx, from.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := greet(ctx, conn, &hello{i.Cluster, i.ID, from.ID, i.Node, baseKind, job.Level}); err != nil {
		return err
	}
	last, err := os.ReadFile(filepath.Join(to, "id"))
	if errors.Is(err, fs.ErrNotExist) {
		last = []byte("none")
	} else if err != nil {
		return err
	}
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(conn, "base id=%s index=%d\n", last, index); err != nil {
		return err
	}
	r := bufio.NewReaderSize(conn, 1<<20)
	o, err := readOffer(r)
	if err != nil {
		return err
	}
	if o.ID != string(last) {
		if err := errors.Join(os.RemoveAll(to), os.MkdirAll(filepath.Join(to, "store"), 0o750), writeSynced(filepath.Join(to, "id"), []byte(o.ID))); err != nil {
			return err
		}
	}
	var fetched, kept int64
	for _, f := range o.Files {
		path := filepath.Join(to, "store", f.Name)
		if info, err := os.Stat(path); err == nil && info.Size() == f.Bytes {
			kept += f.Bytes
			continue
		}
		if err := fetchFile(ctx, conn, r, path, f); err != nil {
			return fmt.Errorf("fetch %s: %w", f.Name, err)
		}
		fetched += f.Bytes
	}
	if err := errors.Join(syncDir(filepath.Join(to, "store")), syncDir(to)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "done\n"); err != nil {
		return err
	}
	if err := errors.Join(writeSynced(filepath.Join(dir, fetchedMark), fmt.Appendf(nil, "index=%d term=%d\n", o.Index, o.Term)), syncDir(dir)); err != nil {
		return err
	}
	if j.Logger != nil {
		j.Logger.Info("fetched the state of another node", "address", from.Address, "bytes", fetched, "kept_bytes", kept, "took_ms", time.Since(began).Milliseconds())
	}
	return nil
}

func readOffer(r *bufio.Reader) (o offerOf, err error) {
	text, err := readText(r, maxOffer)
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return o, err
	}
	if o.ID == "" {
		return o, errors.New("the node cannot give a base now")
	}
	for _, f := range o.Files {
		if !isFileName(f.Name) || f.Bytes < 0 {
			return o, fmt.Errorf("a base with a file %.100q", f.Name)
		}
	}
	return o, nil
}

// isFileName reports whether a name is one of a file in a directory.
func isFileName(name string) bool {
	return name == filepath.Base(name) && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\n\x00")
}

// fetchFile fetches a file, and gives it its name when its digest is right and it is on the disk.
func fetchFile(ctx context.Context, conn net.Conn, r io.Reader, path string, f baseFile) (err error) {
	if _, err := fmt.Fprintf(conn, "get %s\n", f.Name); err != nil {
		return err
	}
	file, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum, b := sha256.New(), make([]byte, 1<<20)
	for left := f.Bytes; left > 0; {
		conn.SetDeadline(time.Now().Add(fetchTimeout))
		n, err := r.Read(b[:min(left, int64(len(b)))])
		if n > 0 {
			sum.Write(b[:n])
			if _, err := file.Write(b[:n]); err != nil {
				return err
			}
			left -= int64(n)
		}
		if left > 0 && err != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
	digest := make([]byte, 2*sha256.Size)
	if _, err := io.ReadFull(r, digest); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != string(digest) {
		return fmt.Errorf("its digest is %s, and the sender has %s", got, digest)
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// Install puts a base that Fetch has fetched whole in the place of the store. It reports whether there was one. It may be
// killed at any time: the next call goes on. No process uses the directories.
func Install(dir, store string) (installed bool, err error) {
	mark := filepath.Join(dir, fetchedMark)
	text, err := os.ReadFile(mark)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	var index, term uint64
	if _, err := fmt.Sscanf(string(text), "index=%d term=%d\n", &index, &term); err != nil {
		return false, fmt.Errorf("read %s: %w", mark, err)
	}
	if err := writeBase(dir, index, term); err != nil {
		return false, err
	}
	from := filepath.Join(dir, fetchedDir, "store")
	if _, err := os.Stat(from); err == nil {
		if err := os.RemoveAll(store); err != nil {
			return false, err
		}
		if err := errors.Join(os.Rename(from, store), syncDir(filepath.Dir(store)), syncDir(filepath.Join(dir, fetchedDir))); err != nil {
			return false, err
		}
	}
	return true, errors.Join(os.RemoveAll(filepath.Join(dir, fetchedDir)), os.Remove(mark), syncDir(dir))
}
