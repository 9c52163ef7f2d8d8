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
	handler        client.StoredHandler // the server's answer to the last version
	handlerVersion int                  // the last one, which may be a deletion
	hasHandler     bool
	programs       int // versions that the user has tried to store

	tree           string // the contents of the fileset's files
	filesetVersion int    // the last one, which may be a deletion
	hasFileset     bool
	trees          int // versions that the user has tried to store

	blobs  int   // how many uploads it has tried
	stored []int // the newest maxOwnBlobs whose uploads were answered
}

// maxOwnBlobs is how many of its newest blobs a user reads.
const maxOwnBlobs = 12

// ifVersion requires that the version is the newest one. A change that requires that there is none could not be repeated
// after a lost answer.
func ifVersion(version int, exists bool) []client.IfVersion {
	if !exists {
		return nil
	}
	return []client.IfVersion{client.IfVersion(version)}
}

// putHandler stores a version of the handler of the user's type. A repeat after a lost answer finds the same version.
func (e *errands) putHandler() row {
	e.programs++
	program := fmt.Sprintf("p%d", e.programs)
	return row{
		verb: "store a handler",
		request: func(c call) (any, error) {
			h, err := c.PutHandler(c, ownClient, e.name, handler.Document{Kind: handler.Exec, Program: program}, ifVersion(e.handlerVersion, e.hasHandler)...)
			if err == nil {
				e.handler = h
			}
			return h, err
		},
		change: func() { e.handlerVersion, e.hasHandler = e.handlerVersion+1, true },
		answer: func() any { return fields{"Version": e.handlerVersion, "Newest": true, "Document.Program": program} },
	}
}

// readHandler reads the handler, which must be the version that was stored last.
func (e *errands) readHandler() row {
	return row{
		verb: "read the handler",
		request: func(c call) (any, error) {
			h, err := c.Handler(c, ownClient, e.name, 0)
			if err != nil {
				return nil, err
			}
			return map[string]any{"ID": h.ID, "Version": h.Version, "Digest": h.Digest, "Document": *h.Document}, nil
		},
		answer: func() any {
			if !e.hasHandler {
				return notFound
			}
			return fields{"ID": e.handler.ID, "Version": e.handlerVersion, "Digest": e.handler.Digest, "Document": *e.handler.Document}
		},
	}
}

func (e *errands) deleteHandler() row {
	return row{
		verb: "delete the handler", removes: neverRemoved,
		request: func(c call) (any, error) {
			return nil, c.DeleteHandler(c, ownClient, e.name, ifVersion(e.handlerVersion, e.hasHandler)...)
		},
		change: func() { e.handlerVersion, e.hasHandler = e.handlerVersion+1, false },
	}
}

// treePaths are the paths of the files of a fileset. All files have the same content.
var treePaths = []string{"a", "d/b"}

// putFileset stores a version of the user's fileset. A repeat after a lost answer finds the same version.
func (e *errands) putFileset() row {
	e.trees++
	content := fmt.Sprintf("%s %d", e.name, e.trees)
	return row{
		verb: "store a fileset",
		request: func(c call) (any, error) {
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
			return c.Filesets(ownClient).Put(c, e.name, &archive, ifVersion(e.filesetVersion, e.hasFileset)...)
		},
		change: func() { e.filesetVersion, e.hasFileset, e.tree = e.filesetVersion+1, true, content },
		answer: func() any { return fields{"Version": e.filesetVersion, "Newest": true, "Files": len(treePaths)} },
	}
}

// readFileset reads the files of the fileset, which must be the ones that were stored last.
func (e *errands) readFileset() row {
	return row{
		verb: "read the fileset",
		request: func(c call) (any, error) {
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
		},
		answer: func() any {
			if !e.hasFileset {
				return notFound
			}
			return []string{e.tree, e.tree}
		},
	}
}

func (e *errands) deleteFileset() row {
	return row{
		verb: "delete the fileset", removes: neverRemoved,
		request: func(c call) (any, error) {
			return nil, c.Filesets(ownClient).Delete(c, e.name, ifVersion(e.filesetVersion, e.hasFileset)...)
		},
		change: func() { e.filesetVersion, e.hasFileset = e.filesetVersion+1, false },
	}
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
