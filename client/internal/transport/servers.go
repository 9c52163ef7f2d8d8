package transport

import (
	"strings"
	"sync/atomic"
)

// Servers are the nodes of a cluster, of which one is used until it fails. A single server is its own only node.
type Servers struct {
	urls []string
	at   atomic.Uint64 // how often a node has failed
}

// NewServers returns the servers at URLs that are separated by commas.
func NewServers(urls string) *Servers {
	s := &Servers{}
	for url := range strings.SplitSeq(urls, ",") {
		s.urls = append(s.urls, strings.TrimRight(strings.TrimSpace(url), "/"))
	}
	return s
}

// URL returns the URL of the node that is used now.
func (s *Servers) URL() string { return s.urls[s.at.Load()%uint64(len(s.urls))] }

// Len returns the number of nodes.
func (s *Servers) Len() int { return len(s.urls) }

// Failed says that the node at a URL does not answer, or takes no requests now. From then on the next one is used, unless the
// node was already given up.
func (s *Servers) Failed(url string) {
	if at := s.at.Load(); s.urls[at%uint64(len(s.urls))] == url {
		s.at.CompareAndSwap(at, at+1)
	}
}
