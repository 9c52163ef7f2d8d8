package opsqueue

import (
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue/wire"
	"github.com/daybookq/daybook/store/document"
)

// about is the part of a submission that never changes, in the form that consumers and producers get.
type about struct{ wire.Submission }

// at returns the submission with its current counts of chunks.
func (a *about) at(chunks, done int64) wire.Submission {
	s := a.Submission
	s.ChunksTotal, s.ChunksDone = chunks, done
	return s
}

// aboutCache caches the about of submissions that consumers work on. The server sends it with each chunk, and building it
// takes several reads and a decoding of meta. The cache is bounded in bytes. When it is full, it forgets submissions at
// random.
type aboutCache struct {
	mu    sync.Mutex
	of    map[job.ID]*about
	bytes int
}

const (
	maxCachedBytes = 32 << 20
	aboutBytes     = 512 // approximate, without texts
	pairBytes      = 32  // of a pair of strategic metadata, without its key
)

// bytes returns the approximate size in memory and in a message.
func (a *about) bytes() int {
	n := aboutBytes + len(a.Metadata) + len(a.OtelTraceCarrier)
	if a.Prefix != nil {
		n += len(*a.Prefix)
	}
	for key := range a.StrategicMetadata {
		n += pairBytes + len(key)
	}
	return n
}

func (c *aboutCache) get(id job.ID) *about {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[id]
}

func (c *aboutCache) put(id job.ID, a *about) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[id] != nil {
		return
	}
	if c.of == nil {
		c.of = map[job.ID]*about{}
	}
	for other, old := range c.of {
		if c.bytes+a.bytes() <= maxCachedBytes {
			break
		}
		c.bytes -= old.bytes()
		delete(c.of, other)
	}
	c.of[id] = a
	c.bytes += a.bytes()
}

// about returns the about of a submission, from the cache if possible.
func (s *Server) about(doc *document.Batch) (*about, error) {
	if a := s.cache.get(doc.ID); a != nil {
		return a, nil
	}
	of := doc.Submission
	a := &about{wire.Submission{
		ID: wire.SubmissionID(of.Snowflake), ChunkSize: of.ChunkSize, StrategicMetadata: strategicMetadata(of.Meta),
		OtelTraceCarrier: carrierOf(&of.Submission),
	}}
	if of.Name != "" {
		a.Prefix = &of.Name
	}
	if of.ChunkSize == 0 {
		a.ChunkSize = defaultChunkSize
	}
	if of.MetadataBytes > 0 {
		var err error
		if a.Metadata, err = s.state.BatchMetadata(doc.ID); err != nil {
			return nil, err
		}
	}
	s.cache.put(doc.ID, a)
	return a, nil
}
