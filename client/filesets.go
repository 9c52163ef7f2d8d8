package client

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
	"github.com/daybookq/daybook/job"
)

// Fileset describes a version of a fileset: a named tree of files.
type Fileset struct {
	ID        string `json:"fileset_id"`
	Client    string `json:"client"` // "" if it belongs to no client
	Name      string `json:"name"`
	Version   int    `json:"version"` // from 1 on
	Newest    bool   `json:"newest"`
	Manifest  string `json:"manifest"` // the address of its manifest, which is a blob
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"` // of all files
	CreatedAt int64  `json:"created_at"`
	Existed   bool   `json:"-"` // only after PutFileset and PutManifest: the newest version had the same files
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

// PutFileset stores a version of a fileset from a tar archive, which may be compressed with gzip or zstd. If r is an
// io.Seeker and the upload fails, PutFileset repeats it from the first position of r. Nothing is stored unless the
// whole archive arrives. The error is ErrBadRequest if the archive is refused, ErrTooLarge if it exceeds a limit, and
// ErrOverloaded if the quota or the disk of the server is full. After the last byte PutFileset waits up to 22 minutes
// longer than Options.Timeout, because the server may have to copy the files into a bucket then.
func (c *Client) PutFileset(ctx context.Context, client, name string, r io.Reader) (Fileset, error) {
	rq, err := filesetRequest(http.MethodPut, client, name, "")
	if err != nil {
		return Fileset{}, err
	}
	rq.contentType, rq.upload, rq.wait = "application/x-tar", newUpload(r), waitForFiles(fileset.MaxFiles) // the number of files is not known
	if rq.upload.seeker == nil {
		return filesetAnswer(c.once(ctx, rq))
	}
	return filesetAnswer(c.do(ctx, rq))
}

// PutManifest stores a version of a fileset whose blobs are stored. The error is ErrConflict if some are not:
// Error.Missing lists them. PutManifest is repeated when the answer is lost. It waits 5 minutes longer than
// Options.Timeout, and 10 ms more for each file, since a server with a bucket looks up each file there.
func (c *Client) PutManifest(ctx context.Context, client, name string, m *fileset.Manifest) (Fileset, error) {
	rq, err := filesetRequest(http.MethodPut, client, name, "")
	if err != nil {
		return Fileset{}, err
	}
	if rq.body, err = m.Encode(); err != nil {
		return Fileset{}, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	rq.contentType, rq.wait = mimeJSON, waitForFiles(len(m.Files))
	return filesetAnswer(c.do(ctx, rq))
}

func filesetAnswer(a answer, err error) (f Fileset, _ error) {
	if err != nil {
		return f, err
	}
	err = decode(a, &f)
	f.Existed = a.status == http.StatusOK
	return f, err
}

// Fileset returns the manifest of a version of a fileset, or the part that the patterns select, and the number of the
// version. The error is ErrNotFound if there is no such fileset or version.
func (c *Client) Fileset(ctx context.Context, client, name string, q FilesetQuery) (m *fileset.Manifest, version int, err error) {
	rq, err := q.request(client, name)
	if err != nil {
		return nil, 0, err
	}
	a, err := c.do(ctx, rq)
	if err != nil {
		return nil, 0, err
	}
	if m, err = fileset.Decode(a.body); err == nil {
		version, err = strconv.Atoi(a.header.Get("Daybook-Fileset-Version"))
	}
	if err != nil {
		return nil, 0, a.unreadable(err)
	}
	return m, version, nil
}

// FilesetTar returns a version of a fileset, or the files that the patterns select, as a tar archive. The caller closes
// it. If the connection breaks, or a file is damaged, a Read fails, so a caller that gets io.EOF has got the whole
// archive. The error is ErrNotFound if there is no such fileset or version.
func (c *Client) FilesetTar(ctx context.Context, client, name string, q FilesetQuery) (io.ReadCloser, error) {
	rq, err := q.request(client, name)
	if err != nil {
		return nil, err
	}
	rq.accept, rq.wait = "application/x-tar", filesetWait
	return c.openAgain(ctx, rq, c.o.Timeout)
}

// Filesets yields the filesets of all clients in order of name and client, each in its newest version. An error ends the
// list.
func (c *Client) Filesets(ctx context.Context) iter.Seq2[Fileset, error] {
	return pages(ctx, c, get("/filesets"), filesetsOf)
}

// FilesetVersions returns the versions of a fileset that the server keeps, the newest first. The error is ErrNotFound
// if there is no such fileset.
func (c *Client) FilesetVersions(ctx context.Context, client, name string) ([]Fileset, error) {
	rq, err := filesetRequest(http.MethodGet, client, name, "/versions")
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, rq)
	if err != nil {
		return nil, err
	}
	list, _, err := filesetsOf(a)
	return list, err
}

// DeleteFileset deletes a fileset with all its versions. The error is ErrNotFound if there is none. DeleteFileset is
// repeated when the answer is lost; ErrNotFound may then mean that the first request deleted the fileset.
func (c *Client) DeleteFileset(ctx context.Context, client, name string) error {
	rq, err := filesetRequest(http.MethodDelete, client, name, "")
	if err != nil {
		return err
	}
	_, err = c.do(ctx, rq)
	return err
}

func filesetsOf(a answer) (list []Fileset, next string, err error) {
	var page struct {
		Filesets []Fileset `json:"filesets"`
		Next     string    `json:"next"`
	}
	err = decode(a, &page)
	return page.Filesets, page.Next, err
}

func filesetRequest(method, client, name, rest string) (request, error) {
	if err := job.CheckName("name", name); err != nil {
		return request{}, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return request{method: method, path: "/filesets/" + name + rest, query: ofClient(client), repeat: repeatable}, nil
}

// request returns the request for the version and files that a query selects.
func (q FilesetQuery) request(client, name string) (request, error) {
	rq, err := filesetRequest(http.MethodGet, client, name, "")
	if err != nil {
		return rq, err
	}
	if _, err := fileset.ParsePatterns(q.Patterns); err != nil {
		return rq, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	if rq.query == nil {
		rq.query = url.Values{}
	}
	if len(q.Patterns) > 0 {
		rq.query["pattern"] = q.Patterns
	}
	if q.Version != 0 {
		rq.query.Set("version", strconv.Itoa(q.Version))
	}
	return rq, nil
}
