package node

import (
	"encoding/binary"

	"go.etcd.io/raft/v3"
)

// Read is the answer to a question of ReadIndex: the state up to this seq includes all commands that any node knew to be
// stored before the question.
type Read struct{ Ticket, Seq uint64 }

// reads are the questions that are not answered yet. Questions that arrive together share one round to the other nodes.
type reads struct {
	ticket  uint64 // of the last question
	fresh   uint64 // the ticket that no round has yet; 0: none
	asked   []read // in the order of rounds
	round   uint64 // the last one; no number is used twice
	retry   bool   // the last round may have been lost
	waiting []read // confirmed, and the node has not delivered as much yet
}

// read is a question: the round in which it was asked first, or the index up to which the node must deliver.
type read struct{ ticket, at uint64 }

// ReadIndex asks up to which seq a state must be. Ready returns the answer in Reads, with this ticket, if a majority
// answers. Questions that wait for the same round have the same ticket, so they take no memory while no node leads.
func (n *Node) ReadIndex() (ticket uint64) {
	if n.reads.fresh == 0 {
		n.reads.ticket++
		n.reads.fresh = n.reads.ticket
	}
	return n.reads.fresh
}

// confirmed notes the answer to a round, which holds for all questions that were asked before the round began. An answer
// that comes late may be for an earlier process of this node, whose rounds have the same numbers.
func (n *Node) confirmed(s raft.ReadState) {
	if len(s.RequestCtx) != 16 || binary.BigEndian.Uint64(s.RequestCtx) != n.o.Origin {
		return
	}
	r, round := &n.reads, binary.BigEndian.Uint64(s.RequestCtx[8:])
	for len(r.asked) > 0 && r.asked[0].at <= round {
		r.waiting = append(r.waiting, read{r.asked[0].ticket, s.Index})
		r.asked = r.asked[1:]
	}
}

// read begins a round if there are questions, and answers those up to whose index the node has delivered.
func (n *Node) read() {
	r := &n.reads
	kept := r.waiting[:0]
	for _, w := range r.waiting {
		if w.at <= n.pos.Index {
			n.out.Reads = append(n.out.Reads, Read{w.ticket, n.pos.Seq})
		} else {
			kept = append(kept, w)
		}
	}
	r.waiting = kept
	if n.leader == 0 || r.fresh == 0 && len(r.asked) == 0 || len(r.asked) > 0 && !r.retry {
		return
	}
	r.retry = false
	r.round++
	if r.fresh != 0 {
		r.asked, r.fresh = append(r.asked, read{r.fresh, r.round}), 0
	}
	n.rn.ReadIndex(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, n.o.Origin), r.round))
}
