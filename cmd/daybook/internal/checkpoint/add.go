package checkpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/filelock"
)

// KeyAge is how long the server certainly knows the key of a body: it keeps keys for 24 hours, and the clocks may
// differ.
const KeyAge = 23 * time.Hour

// stateVersion is the version of the format of state files.
const stateVersion = 1

// Add is the file of `daybook add --resume`. Its first line describes the add; each later line records that a body
// was sent or stored, or that all are stored. Each line is on disk before add relies on it.
type Add struct {
	path   string
	Head   Head
	Repeat bool // bodies without an answer are sent again, even if the server may have forgotten their keys
	now    func() time.Time

	mu     sync.Mutex
	f      *os.File
	bodies map[int64]*SentBody // by offset
	Done   bool
	failed error // the first failed write; later writes are not tried
}

// Head is the first line. An add with other values would split the input differently, or add other jobs.
type Head struct {
	Version   int    `json:"daybook_add"`
	Key       string `json:"key"`
	Journal   string `json:"journal"` // the UUID of the server's journal
	Input     string `json:"input"`
	Format    string `json:"format"`
	Comma     string `json:"delimiter,omitzero"`
	SkipLines int    `json:"skip_lines,omitzero"`
	StripCR   bool   `json:"strip_cr,omitzero"`
	Encrypted bool   `json:"encrypted,omitzero"` // with --encrypt-key-file
	Client    string `json:"client"`
	Type      string `json:"type"`
	client.Attributes
}

// Line is a later line. Offsets count in the posted lines, after a conversion.
type Line struct {
	Event  string `json:"event"` // sent, stored or done
	At     int64  `json:"at"`    // unix ms
	Offset int64  `json:"offset"`
	Bytes  int    `json:"bytes,omitzero"`
	Hash   string `json:"sha256,omitzero"`

	Count   int    `json:"count,omitzero"` // of jobs
	BatchID string `json:"batch_id,omitzero"`
	FirstID string `json:"first_id,omitzero"`
	LastID  string `json:"last_id,omitzero"`
}

type SentBody struct {
	Line
	stored bool
}

// OpenAdd opens a state file, or creates it. head has no key yet. It locks the file before it reads it, until
// close. If another process has the file open, the error is filelock.ErrLocked.
func OpenAdd(path string, head Head) (_ *Add, err error) {
	s := &Add{path: path, Head: head, now: time.Now, bodies: map[int64]*SentBody{}}
	s.Head.Version = stateVersion
	if s.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Add) open() error {
	err := filelock.Lock(s.f)
	if errors.Is(err, filelock.ErrLocked) {
		return fmt.Errorf("the state file %s: %w; next step: wait until the other add has ended, and run the same command again", s.path, err)
	}
	if err != nil {
		return fmt.Errorf("lock the state file %s: %w", s.path, err)
	}
	text, err := io.ReadAll(s.f)
	if err != nil {
		return err
	}
	if bytes.IndexByte(text, '\n') < 0 && isStateStart(text) {
		// The file is new, or an add was killed before the first line was on disk, so it has sent nothing.
		return s.create()
	}
	whole := bytes.LastIndexByte(text, '\n') + 1 // a process may have been killed while it wrote the last line
	if err := s.read(text[:whole]); err != nil {
		return fmt.Errorf("the state file %s: %w", s.path, err)
	}
	return s.cut(int64(whole))
}

// cut truncates the file at an offset. Later lines are written there.
func (s *Add) cut(at int64) error {
	if err := s.f.Truncate(at); err != nil {
		return err
	}
	_, err := s.f.Seek(at, io.SeekStart)
	return err
}

// isStateStart reports whether a text without a newline is empty or the beginning of a state file, so that add
// overwrites no other file.
func isStateStart(text []byte) bool {
	const start = `{"daybook_add":`
	n := min(len(text), len(start))
	return string(text[:n]) == start[:n]
}

// create writes the first line of an empty file.
func (s *Add) create() error {
	s.Head.Key = client.NewKey()
	if err := s.cut(0); err != nil {
		return err
	}
	if err := s.write(s.Head); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(s.path))
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// read reads the lines of a state file, and compares the first with the present add.
func (s *Add) read(text []byte) error {
	lines := bufio.NewReader(bytes.NewReader(text))
	first, _ := lines.ReadBytes('\n') // a file without a line is not a state file
	var head Head
	if err := json.Unmarshal(first, &head); err != nil || head.Version == 0 || head.Key == "" {
		return terminal.Usage(errors.New("it is not one; --resume needs a file of its own, which it creates"))
	}
	if head.Version != stateVersion {
		return terminal.Usagef("it has the version %d, which this version of daybook cannot read", head.Version)
	}
	if err := head.compare(s.Head); err != nil {
		return err
	}
	s.Head.Key = head.Key
	for number := 2; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		var l Line
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("line %d is damaged: %w", number, err)
		}
		switch body := s.bodies[l.Offset]; {
		case l.Event == "sent":
			s.bodies[l.Offset] = &SentBody{Line: l, stored: body != nil && body.stored}
		case l.Event == "stored" && body != nil:
			body.stored, body.Count, body.BatchID, body.FirstID, body.LastID = true, l.Count, l.BatchID, l.FirstID, l.LastID
		case l.Event == "done":
			s.Done = true
		default:
			return fmt.Errorf("line %d is damaged", number)
		}
	}
}

// compare returns the first difference between the add that was begun and the present one.
func (h Head) compare(now Head) error {
	if h.Journal != now.Journal {
		return fmt.Errorf("its jobs are on another server, whose journal has the UUID %s; the journal of this server has %s", h.Journal, now.Journal)
	}
	for _, field := range []struct{ name, begun, now string }{
		{"--format", h.Format, now.Format}, {"--delimiter", h.Comma, now.Comma},
		{"--skip-lines", fmt.Sprint(h.SkipLines), fmt.Sprint(now.SkipLines)}, {"--strip-cr", fmt.Sprint(h.StripCR), fmt.Sprint(now.StripCR)},
		{"the encryption", fmt.Sprint(h.Encrypted), fmt.Sprint(now.Encrypted)},
		{"--client", h.Client, now.Client}, {"--type", h.Type, now.Type},
	} {
		if field.begun != field.now {
			return terminal.Usagef("it was begun with %s %q, and not with %q; repeat the first command line, or name another file to add the input again", field.name, field.begun, field.now)
		}
	}
	begun, err := json.Marshal(h.Attributes, json.Deterministic(true))
	if err != nil {
		return err
	}
	given, err := json.Marshal(now.Attributes, json.Deterministic(true))
	if err != nil {
		return err
	}
	if !bytes.Equal(begun, given) {
		return terminal.Usagef("it was begun with the attributes %s, and not with %s; repeat the first command line, or name another file to add the input again", begun, given)
	}
	return nil
}

// write appends a line and waits until it is on disk. The caller holds mu, or has the only reference.
func (s *Add) write(line any) error {
	if s.failed != nil {
		return s.failed
	}
	text, err := json.Marshal(line, json.Deterministic(true))
	if err == nil {
		_, err = s.f.Write(append(text, '\n'))
	}
	if err == nil {
		err = s.f.Sync()
	}
	if err != nil {
		s.failed = fmt.Errorf("write the state file: %w", err)
	}
	return s.failed
}

// Resumed returns the bodies that earlier adds have sent, for client.AddOptions.Resume; nil if they have sent nothing.
// forgotten are the bodies without an answer whose keys the server may have forgotten.
func (s *Add) Resumed() (r *client.AddResult, forgotten []*SentBody) {
	if len(s.bodies) == 0 {
		return nil, nil
	}
	r = &client.AddResult{}
	for _, offset := range slices.Sorted(maps.Keys(s.bodies)) {
		b := s.bodies[offset]
		body := client.AddedBody{Offset: offset, Bytes: b.Bytes, Added: client.Added{Count: b.Count, BatchID: b.BatchID, FirstID: b.FirstID, LastID: b.LastID}}
		if b.stored {
			r.Bodies = append(r.Bodies, body)
			continue
		}
		r.Unknown = append(r.Unknown, body)
		if s.isForgotten(b) {
			forgotten = append(forgotten, b)
		}
	}
	return r, forgotten
}

// isForgotten reports whether the server may have forgotten the key of a body that was sent, also if the clock has been
// set back.
func (s *Add) isForgotten(b *SentBody) bool {
	age := s.now().Sub(time.UnixMilli(b.At))
	return age > KeyAge || age < -time.Minute
}

// InputChangedError means that the input differs from the one that was sent before.
type InputChangedError struct{ input, Where string }

func (e *InputChangedError) Error() string {
	return fmt.Sprintf("%s has changed since an earlier add sent a part of it: %s; nothing more was stored; to add the file as it is now as new jobs, remove the state file",
		cmp.Or(e.input, "the input"), e.Where)
}

// Body is called with each body in order, before it is posted or skipped.
func (s *Add) Body(b client.AddedBody, lines []byte) error {
	sum := sha256.Sum256(lines)
	hash := hex.EncodeToString(sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.bodies[b.Offset]
	if known != nil && (known.Bytes != b.Bytes || known.Hash != hash) {
		return &InputChangedError{s.Head.Input, fmt.Sprintf("bytes %d to %d are others", b.Offset, b.Offset+int64(known.Bytes))}
	}
	if known == nil && s.Done {
		return &InputChangedError{s.Head.Input, fmt.Sprintf("it was stored to its end at byte %d, and it is longer now", b.Offset)}
	}
	switch {
	case known == nil || s.failed != nil: // see write
	case known.stored || !s.isForgotten(known):
		return nil // with a later time, add would trust the key for longer than the server keeps it
	case !s.Repeat: // the key has become too old since the file was opened
		return &UnknownBodiesError{[]*SentBody{known}}
	}
	line := Line{Event: "sent", At: s.now().UnixMilli(), Offset: b.Offset, Bytes: b.Bytes, Hash: hash}
	if err := s.write(line); err != nil {
		return err
	}
	s.bodies[b.Offset] = &SentBody{Line: line}
	return nil
}

// Acknowledged is called when a body is stored.
func (s *Add) Acknowledged(b client.AddedBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.write(Line{ // the next call of Body, or Finish, returns the error
		Event: "stored", At: s.now().UnixMilli(), Offset: b.Offset, Count: b.Count, BatchID: b.BatchID, FirstID: b.FirstID, LastID: b.LastID,
	})
}

// Skip records bodies without an answer as stored.
func (s *Add) Skip(bodies []*SentBody) error {
	for _, b := range bodies {
		if err := s.write(Line{Event: "stored", At: s.now().UnixMilli(), Offset: b.Offset}); err != nil {
			return err
		}
		b.stored = true
	}
	return nil
}

// CheckEnd returns an error if the input is shorter than an earlier input of the same file.
func (s *Add) CheckEnd(size int64) error {
	for offset, b := range s.bodies {
		if offset+int64(b.Bytes) > size {
			return &InputChangedError{s.Head.Input, fmt.Sprintf("it has %d bytes, and bytes up to %d were sent", size, offset+int64(b.Bytes))}
		}
	}
	return nil
}

// Finish records that everything is stored, so that the same command line adds nothing later.
func (s *Add) Finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Done {
		return nil
	}
	return s.write(Line{Event: "done", At: s.now().UnixMilli()})
}

// Close unlocks the file. Each line is on disk already.
func (s *Add) Close() { _ = filelock.Close(s.f) } // each line was synced when it was written

// UnknownBodiesError is the error for bodies that were sent so long ago that the server no longer recognizes them.
type UnknownBodiesError struct{ List []*SentBody }

func (e *UnknownBodiesError) Error() string {
	places := make([]string, len(e.List))
	for i, b := range e.List {
		places[i] = fmt.Sprintf("%d to %d, sent %s", b.Offset, b.Offset+int64(b.Bytes), terminal.Moment(b.At))
	}
	return fmt.Sprintf("an earlier add sent bytes %s, and got no answer; the server keeps keys for 24 hours, so it would store them again if it has them already; `daybook jobs --created-after` shows whether it has; send them again with --unknown repeat, or leave them out with --unknown skip",
		strings.Join(places, "; "))
}

func (e *UnknownBodiesError) Unwrap() error { return client.ErrUnknown }
