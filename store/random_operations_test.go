package store

import "github.com/daybookq/daybook/job"

// fileset generates a command that stores or deletes a fileset.
func (g *generator) fileset() job.Command {
	client, name := oneOf(g, "", "a", "b"), oneOf(g, "x", "y")
	if g.some(25) {
		return job.DeleteFileset{Client: client, Name: name}
	}
	return job.PutFileset{Client: client, Name: name, Manifest: job.ManifestDigest{byte(g.IntN(5))}, Files: oneOf(g, 0, 1, 100_000), Bytes: oneOf[int64](g, 0, 1, 1<<62)}
}

// handler generates a command that stores or deletes a handler.
func (g *generator) handler() job.Command {
	client, typ := oneOf(g, "", "a", "b"), oneOf(g, "x", "y")
	if g.some(25) {
		return job.DeleteHandler{Client: client, Type: typ}
	}
	return job.PutHandler{Client: client, Type: typ, Kind: oneOf(g, "http", "exec"), Document: make([]byte, oneOf(g, 1, 2, 3, 4, 50, 150, 299, 301))}
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
