package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
)

// Filesets are the filesets of a client, or those that belong to no client. Client.Filesets of package client returns them.
type Filesets struct {
	c      *transport.Conn
	client string
}

// IfVersion is what a change of a fileset requires of its newest version.
type IfVersion = transport.IfVersion

// NewFilesets returns the filesets of a client, or with "" those that belong to no client.
func NewFilesets(c *transport.Conn, client string) *Filesets { return &Filesets{c, client} }

// blobs are the blobs of the filesets.
func (s *Filesets) blobs() *Blobs { return NewBlobs(s.c, s.client) }

// Fileset describes a version of a fileset: a named tree of files.
type Fileset struct {
	ID        string `json:"fileset_id"`
	Client    string `json:"client"` // "" if it belongs to no client
	Name      string `json:"name"`
	Version   int    `json:"version"` // from 1 on
	Newest    bool   `json:"newest"`
	Deleted   bool   `json:"deleted"`  // this version deleted the fileset. It has no manifest
	Gone      bool   `json:"gone"`     // the fileset was deleted later, so the server does not keep the files
	Manifest  string `json:"manifest"` // the address of its manifest, which is a blob
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"` // of all files
	By        string `json:"by"`    // who stored it, see Options.By
	CreatedAt int64  `json:"created_at"`
	Existed   bool   `json:"-"` // only after Put and PutManifest: the newest version had the same files
	Text      []byte `json:"-"` // the document as the server sent it
}

// UnmarshalJSON decodes a document of the server.
func (f *Fileset) UnmarshalJSON(text []byte) error {
	type document Fileset
	*f = Fileset{Text: bytes.Clone(text)}
	return json.Unmarshal(text, (*document)(f))
}

// FilesetQuery selects a version and files. The zero value selects all files of the newest version.
type FilesetQuery struct {
	Version  int      // 0: the newest
	Patterns []string // in the form of fileset.ParsePatterns
}

const (
	// filesetWait is how long the server may take to store an archive that it has received, in addition to fileWait for
	// each file.
	filesetWait = 5 * time.Minute
	// fileWait is for a server whose blobs are in a bucket. There a file takes a few requests, of which many run in
	// parallel.
	fileWait = 10 * time.Millisecond
)

// waitForFiles is how long the server may take to store a fileset that it has received.
func waitForFiles(files int) time.Duration { return filesetWait + time.Duration(files)*fileWait }

// Put stores a version of a fileset from a tar archive, which may be compressed with gzip or zstd. If r is an
// io.Seeker and the upload fails, Put repeats it from the first position of r. Nothing is stored unless the
// whole archive arrives. The error is ErrBadRequest if the archive is refused, ErrTooLarge if it exceeds a limit,
// ErrVersionDiffers if only does not hold, and ErrOverloaded if the quota or the disk of the server is full. After the
// last byte Put waits up to 22 minutes longer than Options.Timeout, because the server may have to copy the files into
// a bucket then.
func (s *Filesets) Put(ctx context.Context, name string, r io.Reader, only ...IfVersion) (Fileset, error) {
	rq, err := s.request(http.MethodPut, name, "")
	if err != nil {
		return Fileset{}, err
	}
	s.c.Require(&rq, only)
	rq.ContentType, rq.Upload, rq.Wait = "application/x-tar", transport.NewUpload(r), waitForFiles(fileset.MaxFiles) // the number of files is not known
	if rq.Upload.Seeker == nil {
		return filesetAnswer(s.c.Once(ctx, rq))
	}
	return filesetAnswer(s.c.Do(ctx, rq))
}

// PutManifest stores a version of a fileset whose blobs the server already has. If it lacks some of them, the error is
// ErrConflict, and Error.Missing lists them. The error is ErrVersionDiffers if the condition only does not hold.
// PutManifest is repeated when the answer is lost. It waits 5 minutes longer than Options.Timeout, and 10 ms more for each
// file, since a server with a bucket looks up each file there.
func (s *Filesets) PutManifest(ctx context.Context, name string, m *fileset.Manifest, only ...IfVersion) (Fileset, error) {
	rq, err := s.request(http.MethodPut, name, "")
	if err != nil {
		return Fileset{}, err
	}
	if rq.Body, err = m.Encode(); err != nil {
		return Fileset{}, fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	s.c.Require(&rq, only)
	rq.ContentType, rq.Wait = transport.MimeJSON, waitForFiles(len(m.Files))
	return filesetAnswer(s.c.Do(ctx, rq))
}

func filesetAnswer(a transport.Answer, err error) (f Fileset, _ error) {
	if err != nil {
		return f, err
	}
	err = transport.Decode(a, &f)
	f.Existed = a.Status == http.StatusOK
	return f, err
}

// Manifest returns the manifest of a version of a fileset, or the part that the patterns select, and the number of the
// version. The error is ErrNotFound if there is no such fileset or version.
func (s *Filesets) Manifest(ctx context.Context, name string, q FilesetQuery) (m *fileset.Manifest, version int, err error) {
	rq, err := s.selected(name, q)
	if err != nil {
		return nil, 0, err
	}
	a, err := s.c.Do(ctx, rq)
	if err != nil {
		return nil, 0, err
	}
	if m, err = fileset.Decode(a.Body); err == nil {
		version, err = strconv.Atoi(a.Header.Get("Daybook-Fileset-Version"))
	}
	if err != nil {
		return nil, 0, a.Unreadable(err)
	}
	return m, version, nil
}

// Tar returns a version of a fileset, or the files that the patterns select, as a tar archive. The caller closes
// it. If the connection breaks, or a file is damaged, a Read fails, so a caller that gets io.EOF has got the whole
// archive. The error is ErrNotFound if there is no such fileset or version.
func (s *Filesets) Tar(ctx context.Context, name string, q FilesetQuery) (io.ReadCloser, error) {
	rq, err := s.selected(name, q)
	if err != nil {
		return nil, err
	}
	rq.Accept, rq.Wait = "application/x-tar", filesetWait
	return s.c.OpenAgain(ctx, rq, s.c.Timeout)
}

// All yields the filesets of all clients in order of name and client, each in its newest version. An error ends the
// list.
func (s *Filesets) All(ctx context.Context) iter.Seq2[Fileset, error] {
	return transport.Pages(ctx, s.c, transport.Get("/filesets"), filesetsOf)
}

// History returns the newest 20 versions of a fileset, the newest first, also if it was deleted. The error is
// ErrNotFound if the server knows none.
func (s *Filesets) History(ctx context.Context, name string) ([]Fileset, error) {
	rq, err := s.request(http.MethodGet, name, "/history")
	if err != nil {
		return nil, err
	}
	a, err := s.c.Do(ctx, rq)
	if err != nil {
		return nil, err
	}
	list, _, err := filesetsOf(a)
	return list, err
}

// Delete deletes a fileset with the files of all versions. The error is ErrNotFound if there is none, and
// ErrVersionDiffers if only does not hold. Delete is repeated when the answer is lost; ErrNotFound may then mean that the
// first request deleted the fileset.
func (s *Filesets) Delete(ctx context.Context, name string, only ...IfVersion) error {
	rq, err := s.request(http.MethodDelete, name, "")
	if err != nil {
		return err
	}
	s.c.Require(&rq, only)
	_, err = s.c.Do(ctx, rq)
	return err
}

func filesetsOf(a transport.Answer) (list []Fileset, next string, err error) {
	var page struct {
		Filesets []Fileset `json:"filesets"`
		Next     string    `json:"next"`
	}
	err = transport.Decode(a, &page)
	return page.Filesets, page.Next, err
}

func (s *Filesets) request(method, name, rest string) (transport.Request, error) {
	if err := job.CheckName("name", name); err != nil {
		return transport.Request{}, fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	return transport.Request{Method: method, Path: "/filesets/" + name + rest, Query: ofClient(s.client), Repeat: transport.Repeatable}, nil
}

// selected returns the request for the version and files that a query selects.
func (s *Filesets) selected(name string, q FilesetQuery) (transport.Request, error) {
	rq, err := s.request(http.MethodGet, name, "")
	if err != nil {
		return rq, err
	}
	if _, err := fileset.ParsePatterns(q.Patterns); err != nil {
		return rq, fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	if rq.Query == nil {
		rq.Query = url.Values{}
	}
	if len(q.Patterns) > 0 {
		rq.Query["pattern"] = q.Patterns
	}
	if q.Version != 0 {
		rq.Query.Set("version", strconv.Itoa(q.Version))
	}
	return rq, nil
}
