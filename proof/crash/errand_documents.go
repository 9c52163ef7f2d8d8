package crash

import (
	"archive/tar"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/job/handler"
)

// The rows of a user's handler, fileset and blobs. They need no random numbers.

// ownDocuments are the newest versions of a user's handler and fileset, and its blobs.
type ownDocuments struct {
	handler, fileset ownDocument
	storedHandler    client.StoredHandler // the server's answer to the last version

	blobs  int   // how many uploads it has tried
	stored []int // the newest maxOwnBlobs whose uploads were answered
}

// ownDocument is the newest version of a named document.
type ownDocument struct {
	version int    // the last one, which may be a deletion
	content string // "": it was deleted
	tries   int    // versions that the user has tried to store
}

// maxOwnBlobs is how many of its newest blobs a user reads.
const maxOwnBlobs = 12

// is requires that the version is the newest one. A change that requires that there is none could not be repeated after a lost answer.
func (d *ownDocument) is() []client.IfVersion {
	if d.content == "" {
		return nil
	}
	return []client.IfVersion{client.IfVersion(d.version)}
}

// put stores a version. A repeat after a lost answer finds the same version.
func (d *ownDocument) put(verb, content string, answer fields, request func(c call, content string) (any, error)) row {
	d.tries++
	content = fmt.Sprint(content, d.tries)
	return row{
		verb:    verb,
		request: func(c call) (any, error) { return request(c, content) },
		change:  func() { d.version, d.content = d.version+1, content },
		answer: func() any {
			answer["Version"], answer["Newest"] = d.version, true
			return answer
		},
	}
}

// delete deletes the document.
func (d *ownDocument) delete(verb string, request func(c call) error) row {
	return row{
		verb: verb, removes: neverRemoved,
		request: func(c call) (any, error) { return nil, request(c) },
		change:  func() { d.version, d.content = d.version+1, "" },
	}
}

// read reads the document, which must be the version that was stored last.
func (d *ownDocument) read(verb string, answer func() any, request func(c call) (any, error)) row {
	return row{verb: verb, request: request, answer: func() any {
		if d.content == "" {
			return notFound
		}
		return answer()
	}}
}

func (e *errands) putHandler() row {
	return e.handler.put("store a handler", "p", fields{"Document.Program": fmt.Sprint("p", e.handler.tries+1)}, func(c call, program string) (any, error) {
		h, err := c.PutHandler(c, ownClient, e.name, handler.Document{Kind: handler.Exec, Program: program}, e.handler.is()...)
		if err == nil {
			e.storedHandler = h
		}
		return h, err
	})
}

func (e *errands) readHandler() row {
	return e.handler.read("read the handler", func() any {
		h := &e.storedHandler
		return fields{"ID": h.ID, "Version": e.handler.version, "Digest": h.Digest, "Document": *h.Document}
	}, func(c call) (any, error) {
		h, err := c.Handler(c, ownClient, e.name, 0)
		if err != nil {
			return nil, err
		}
		return map[string]any{"ID": h.ID, "Version": h.Version, "Digest": h.Digest, "Document": *h.Document}, nil
	})
}

func (e *errands) deleteHandler() row {
	return e.handler.delete("delete the handler", func(c call) error { return c.DeleteHandler(c, ownClient, e.name, e.handler.is()...) })
}

// treePaths are the paths of the files of a fileset. All files have the same content.
var treePaths = []string{"a", "d/b"}

func (e *errands) putFileset() row {
	return e.fileset.put("store a fileset", e.name+" ", fields{"Files": len(treePaths)}, func(c call, content string) (any, error) {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, path := range treePaths {
			err := w.WriteHeader(&tar.Header{Name: path, Size: int64(len(content)), Mode: 0o644})
			if _, writeErr := io.WriteString(w, content); err != nil || writeErr != nil {
				return nil, errors.Join(err, writeErr)
			}
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		return c.Filesets(ownClient).Put(c, e.name, &archive, e.fileset.is()...)
	})
}

// readFileset reads the files of the fileset.
func (e *errands) readFileset() row {
	return e.fileset.read("read the fileset", func() any { return []string{e.fileset.content, e.fileset.content} }, func(c call) (any, error) {
		r, err := c.Filesets(ownClient).Tar(c, e.name, files.FilesetQuery{})
		if err != nil {
			return nil, err
		}
		defer r.Close()
		var files []string
		for t := tar.NewReader(r); ; {
			if _, err := t.Next(); err == io.EOF {
				return files, nil
			} else if err != nil {
				return nil, err
			}
			content, err := io.ReadAll(t)
			if err != nil {
				return nil, err
			}
			files = append(files, string(content))
		}
	})
}

func (e *errands) deleteFileset() row {
	return e.fileset.delete("delete the fileset", func(c call) error { return c.Filesets(ownClient).Delete(c, e.name, e.fileset.is()...) })
}

// blobBytes returns the content of the n-th blob of a user. No two blobs have the same content.
func (e *errands) blobBytes(n int) []byte {
	h := fnv.New64a()
	_, _ = io.WriteString(h, e.name) // cannot fail
	rng := rand.New(rand.NewPCG(h.Sum64(), uint64(n)))
	sizes := [...]int{20, 700, 5_000, 60_000, 300_000}
	b := make([]byte, sizes[n%len(sizes)]+rng.IntN(20))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// putBlob stores a blob.
func (e *errands) putBlob() row {
	e.blobs++
	n := e.blobs
	return row{
		verb: "store a blob",
		request: func(c call) (any, error) {
			return c.Blobs("").Put(c, bytes.NewReader(e.blobBytes(n)))
		},
		change: func() {
			if e.stored = append(e.stored, n); len(e.stored) > maxOwnBlobs {
				e.stored = e.stored[1:]
			}
		},
		answer: func() any {
			content := e.blobBytes(n)
			return fields{"Address": fmt.Sprintf("sha256:%x", sha256.Sum256(content)), "Size": len(content), "SHA1": fmt.Sprintf("%x", sha1.Sum(content))}
		},
	}
}

// readBlobs reads the blobs that were stored, by their SHA-256 or SHA-1 in turn. Each must have its bytes.
func (e *errands) readBlobs() row {
	return row{
		verb: "read the blobs",
		request: func(c call) (any, error) {
			var contents []string
			for _, n := range e.stored {
				content := e.blobBytes(n)
				address := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
				if n%2 == 0 {
					address = fmt.Sprintf("%x", sha1.Sum(content))
				}
				got, err := readBlob(c, address)
				if err != nil {
					return nil, fmt.Errorf("blob %s of %d bytes was stored, and is read with the error: %w", address, len(content), err)
				}
				contents = append(contents, digest(got))
			}
			return contents, nil
		},
		answer: func() any {
			var contents []string
			for _, n := range e.stored {
				contents = append(contents, digest(e.blobBytes(n)))
			}
			return contents
		},
	}
}

func digest(content []byte) string {
	return fmt.Sprintf("%d bytes %x", len(content), sha256.Sum256(content))
}

func readBlob(c call, address string) (content []byte, err error) {
	b, err := c.Blobs("").Open(c, address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return io.ReadAll(b)
}
