package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
)

// document generates a command that stores or deletes a named document.
func (g *generator) document(kind job.DocumentKind) job.Command {
	name := model.DocumentName{kind, oneOf(g, "", "a", "b"), oneOf(g, "x", "y")}
	p := job.PutDocument{Kind: kind, Client: name.Client, Name: name.Name, By: oneOf(g, "", "anna")}
	if g.some(30) {
		newest := g.m.Documents.Newest(name).Doc
		p.If = oneOf(g, job.IfNone, job.IfExists, job.IfVersion(newest.Version), job.IfVersion(newest.Version+1), job.Condition(newest.Digest.String()))
	}
	switch {
	case g.some(25):
		return job.DeleteDocument{Kind: kind, Client: p.Client, Name: p.Name, If: p.If, By: p.By}
	case kind.Rules().MaxBytes > 0:
		p.Summary, p.Document = oneOf(g, "http", "exec"), make([]byte, oneOf(g, 1, 2, 3, 4, 50, 150, 299, 301))
	default:
		p.Digest, p.Summary = job.DocumentDigest{byte(g.IntN(5))}, job.FilesetSummary(oneOf(g, 0, 1, 100_000), oneOf[int64](g, 0, 1, 1<<62))
	}
	return p
}

// lostRunner generates the loss of a runner: of all its claims, or of its claims up to an earlier command.
func (g *generator) lostRunner() job.Command {
	through := g.seq - 1
	if len(g.claims) > 0 && g.some(30) {
		if c := g.m.Claims[g.anyClaim()]; c != nil {
			through = c.Seq - uint64(g.IntN(2))
		}
	}
	return job.LoseRunner{Runner: g.anyRunner(), Through: through}
}

// once gives some commands one of a few keys, or a number of a session.
func (g *generator) once(o *job.Once, scope string) {
	digest := job.Digest{byte(g.IntN(8) / 7)}
	switch n := g.IntN(100); {
	case n < 12:
		*o = job.Once{Scope: scope + oneOf(g, "s", "t u"), Key: oneOf(g, "1", "2", "3"), Digest: digest}
	case n < 32 && len(g.sessions) > 0:
		id := g.sessions[max(0, len(g.sessions)-1-g.IntN(3))]
		slot, last := oneOf(g, 0, 0, 1, job.MaxSlots-1), uint64(0)
		if n := g.m.Sessions[id]; n != nil {
			last = n.Slots[slot].Number
		}
		if g.some(3) {
			id = job.NewID(id.At()+1, uint64(id.LowSeq()), 0)
		}
		*o = job.Once{Session: id, Slot: slot, Number: max(1, last+oneOf[uint64](g, 0, 0, 1, 1, 1, 9)-oneOf[uint64](g, 0, 0, 0, 0, min(1, last))), Digest: digest}
	}
}

func (g *generator) endSession() job.Command {
	if len(g.sessions) == 0 || g.some(5) {
		return job.EndSession{Session: job.NewID(g.at, 3, 0)}
	}
	return job.EndSession{Session: g.sessions[g.IntN(len(g.sessions))]}
}

// Submission generates the attributes of a batch.
func (g *generator) Submission() *job.Submission {
	s := &job.Submission{
		Name: oneOf(g, "", "one", "two words"), Meta: oneOf[job.BatchMeta](g, "", "user:42", "user=42,x:-1"),
		OnFailure: oneOf(g, job.Continue, job.CancelRest), ChunkSize: oneOf[int64](g, 0, 1, 20), Open: g.some(35), Paused: g.some(25),
	}
	if g.some(30) {
		s.Metadata, s.Tracestate, s.Baggage = []byte("opaque\n\x00"), "a=b", "user=1"
	}
	return s
}

// anySubmission returns the id of a batch, mostly of a batch with attributes.
func (g *generator) anySubmission() job.ID {
	if n := len(g.m.Submissions); n > 0 && g.some(90) {
		return g.m.Submissions[g.IntN(n)].ID
	}
	if n := len(g.m.Batches); n > 0 && g.some(50) {
		return g.m.Batches[g.IntN(n)].ID
	}
	return g.anyClaim()
}

func (g *generator) changeBatch() job.Command {
	return job.ChangeBatch{Op: oneOf(g, job.CloseBatch, job.ResumeBatch), Batch: g.anySubmission()}
}
