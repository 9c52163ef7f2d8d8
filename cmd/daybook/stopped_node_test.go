package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/cluster"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
)

// dumped is a line of `daybook journal dump --json`.
type dumped struct {
	Verb             string
	Seq, Index, Term uint64
	Body             *string
}

func dump(t *testing.T, text string) (list []dumped) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	for d.More() {
		var r dumped
		testkit.NoError(t, d.Decode(&r))
		list = append(list, r)
	}
	return list
}

// verified is the output of `daybook journal verify --json` for a node.
type verified struct {
	Verdict string
	Node    struct{ Commit, Base, First, Last, First_seq, Last_seq uint64 }
}

func verify(t *testing.T, data string) (v verified) {
	t.Helper()
	testkit.NoError(t, json.Unmarshal([]byte(ok(t, "journal", "verify", "--json", "--data", data)), &v))
	return v
}

// TestStoppedNode: the commands for the data of a stopped server work on the data of nodes: of one that was a single server, and
// of one that has joined.
func TestStoppedNode(t *testing.T) {
	dir := t.TempDir()
	single := serving(t, filepath.Join(dir, "n1"))
	ok(t, "create", "before", "--type", "t", "--server", single.url)
	testkit.Equal(t, single.end(t, syscall.SIGTERM), 0)
	own := len(dump(t, ok(t, "journal", "dump", "--json", "--data", single.data)))
	n1 := startNode(t, "n1", single.data, "--cluster-init")
	n2 := startNode(t, "n2", filepath.Join(dir, "n2"), "--join", n1.address)
	n1.awaitVoters(t, 2)
	for _, n := range []*node{n1, n2} {
		ok(t, "create", "at "+n.name, "--type", "t", "--server", n.url)
	}
	for _, args := range [][]string{{"journal", "dump"}, {"journal", "verify"}, {"check"}} {
		execute(t, "", append(args, "--data", n2.data)...).ends(t, terminal.ExitDataInUse, "in use by another process")
	}
	n2.end(t, syscall.SIGTERM)
	n1.end(t, syscall.SIGTERM)

	var both []string
	for _, n := range []*node{n1, n2} {
		v := verify(t, n.data)
		testkit.Holds(t, v.Verdict == "accept" && v.Node.Commit <= v.Node.Last && v.Node.First == v.Node.Base+1, n.name, v)
		testkit.Contains(t, ok(t, "journal", "verify", "--data", n.data), "node ", n.name+" of cluster", "base ", "entries ", "committed ", "up to", "commands", "create ", "announce ", "clean end", "accept")
		list := dump(t, ok(t, "journal", "dump", "--json", "--data", n.data))
		text := ""
		for i, r := range list {
			testkit.Holds(t, r.Seq == v.Node.First_seq+uint64(i) && r.Index > v.Node.Base && r.Index <= v.Node.Commit && r.Term > 0, r)
			if r.Verb == "create" {
				text += *r.Body
			}
		}
		testkit.Equal(t, list[len(list)-1].Seq, v.Node.Last_seq)
		testkit.Contains(t, text, "at n1", "at n2")
		testkit.Lacks(t, text, "before")
		testkit.Contains(t, ok(t, "check", "--data", n.data), "ok: no problems\n")
		last := fmt.Sprint(v.Node.Last_seq)
		part := ok(t, "journal", "dump", "--data", n.data, "--from", last)
		testkit.Contains(t, part, "#:", " seq="+last+" ", "#:end crc=")
		testkit.Contains(t, ok(t, "journal", "dump", "--data", n.data, "--to", fmt.Sprint(v.Node.First_seq), "--bodies=false"), fmt.Sprintf(" seq=%d ", v.Node.First_seq), " index=", " term=")
		both = append(both, part)
		for _, args := range [][]string{{"rebuild"}, {"journal", "give-up", "--last", "3"}} {
			execute(t, "", append(args, "--data", n.data)...).ends(t, terminal.ExitUsage, "has the data of node "+n.name, "join under another name")
		}
	}
	testkit.Equal(t, both[0], both[1], "the last command at both nodes")
	testkit.Holds(t, len(dump(t, ok(t, "journal", "dump", "--json", "--data", n1.data))) > 0 && own > 0, "the journal of the single server")
}

// founded returns the data directory of a node that has founded a cluster and has some jobs, and the file with its log.
func founded(t *testing.T) (data, log string) {
	t.Helper()
	n := startNode(t, "n1", filepath.Join(t.TempDir(), "n1"), "--cluster-init")
	for range 3 {
		ok(t, "create", "some payload", "--type", "t", "--server", n.url)
	}
	n.end(t, syscall.SIGTERM)
	testkit.Contains(t, ok(t, "check", "--data", n.data), "ok: no problems\n")
	n = n.again(t) // the check has left a directory that a node can use
	ok(t, "create", "some payload", "--type", "t", "--server", n.url)
	n.end(t, syscall.SIGKILL)
	testkit.Contains(t, ok(t, "check", "--data", n.data), "ok: no problems\n")
	n = n.again(t)
	n.end(t, syscall.SIGTERM)
	return n.data, filepath.Join(cluster.LogDir(cluster.DirOf(n.data)), "00000000000000000001", "00000000000000000001")
}

// TestDamagedNode: damage of the log of a node has the exit code and the words that it has in a journal, and the next step of a
// node. The end of a log that a power cut took away is no damage for a check.
func TestDamagedNode(t *testing.T) {
	data, log := founded(t)
	whole := testkit.Must(os.ReadFile(log))(t)
	v := verify(t, data)
	// A node that stops may have an entry that it does not know to be committed yet.
	waiting := v.Node.Last - v.Node.Commit
	checked := func(waiting uint64) string {
		if waiting == 0 {
			return "ok: no problems\n"
		}
		return fmt.Sprintf("the store was checked up to entry %d; entries after it, which are not known to be committed: %d\nok: no problems\n", v.Node.Commit, waiting)
	}

	flipped := bytes.Replace(whole, []byte("some payload"), []byte("sOme payload"), 1)
	testkit.NoError(t, os.WriteFile(log, flipped, 0o600))
	for _, args := range [][]string{{"journal", "dump"}, {"journal", "verify"}, {"check"}} {
		execute(t, "", append(args, "--data", data)...).ends(t, terminal.ExitCorrupt, "damaged at seq", "a later record", "next step: remove this node from the cluster")
	}

	// The store has what the log has lost here: the start would be refused, too.
	cut := bytes.LastIndex(whole, []byte("some payload"))
	testkit.NoError(t, os.WriteFile(log, whole[:cut], 0o600))
	execute(t, "", "journal", "verify", "--data", data).ends(t, terminal.ExitCorrupt, "torn entry").prints(t, "discard")
	execute(t, "", "journal", "dump", "--data", data).ends(t, terminal.ExitCorrupt, "torn entry").prints(t, "some payload")
	execute(t, "", "check", "--data", data).ends(t, terminal.ExitCorrupt, "the store includes the entries up to ", "next step: remove this node from the cluster")

	// A record that never got whole on the disk.
	testkit.NoError(t, os.WriteFile(log, append(whole[:len(whole):len(whole)], 99, '\n', '#'), 0o600))
	execute(t, "", "journal", "verify", "--data", data).ends(t, terminal.ExitCorrupt, "torn entry").prints(t, "discard")
	testkit.Equal(t, ok(t, "check", "--data", data), checked(waiting))
	testkit.NoError(t, os.WriteFile(log, whole, 0o600))

	// Entries that only this node has.
	uncommitted(t, filepath.Dir(filepath.Dir(log)), fmt.Sprintf("index=%d term=9 commit=%d type=empty", v.Node.Last+1, v.Node.Commit))
	waiting++
	testkit.Contains(t, ok(t, "journal", "verify", "--data", data), fmt.Sprintf("up to %d; entries after it: %d", v.Node.Commit, waiting))
	testkit.Equal(t, ok(t, "check", "--data", data), checked(waiting))
	testkit.Equal(t, ok(t, "check", "--json", "--data", data), fmt.Sprintf("{\"index\":%d,\"problems\":0,\"waiting\":%d}\n", v.Node.Commit, waiting))
}

// uncommitted appends an entry to a log, after a state with its term.
func uncommitted(t *testing.T, log, fields string) {
	t.Helper()
	vols := testkit.Must(journal.Volumes(log))(t)
	j := testkit.Must(journal.Open(journal.Options{Dir: log, Applied: vols[0].First - 1, AllowClockAhead: true}))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- j.Run(ctx) }()
	propose(t, j, "state", "term=9 vote=0 commit=1")
	propose(t, j, "entry", fields)
	stop()
	testkit.NoError(t, <-ended)
	testkit.NoError(t, j.Close())
}

func propose(t *testing.T, j *journal.Journal, verb, fields string) {
	t.Helper()
	stored := make(chan error, 1)
	testkit.NoError(t, j.Propose(t.Context(), &journal.Proposal{Lane: journal.Bulk, Verb: verb, Fields: []byte(fields), Done: func(_ uint64, _ int64, err error) { stored <- err }}))
	testkit.NoError(t, <-stored)
}

// TestMixedUpNode: a directory that is only a part of a node's, or has parts of others, is refused with the next step.
func TestMixedUpNode(t *testing.T) {
	data, log := founded(t)
	verbs := [][]string{{"journal", "dump"}, {"journal", "verify"}, {"check"}}
	for _, part := range []string{"store", "cluster", "journal", filepath.Join("cluster", "0", "log"), filepath.Dir(strings.TrimPrefix(log, data))} {
		for _, args := range verbs {
			execute(t, "", append(args, "--data", filepath.Join(data, part))...).ends(t, terminal.ExitNoData, "is not a data directory", "give --data "+data)
		}
	}
	// A node whose first start has not joined yet.
	joining := filepath.Join(t.TempDir(), "n2")
	testkit.NoError(t, os.MkdirAll(filepath.Join(joining, "cluster", "base"), 0o750))
	execute(t, "", "check", "--data", joining).ends(t, terminal.ExitNoData, "has not joined a cluster yet", "--join again")

	store := ingest.StoreDir(data)
	move := func(from, to string) {
		t.Helper()
		testkit.NoError(t, os.Rename(from, to))
	}
	move(store, store+".kept")
	execute(t, "", "check", "--data", data).ends(t, terminal.ExitCorrupt, "there is no store", "next step")
	ok(t, "journal", "verify", "--data", data) // needs no store
	other, _ := founded(t)
	testkit.NoError(t, os.CopyFS(store, os.DirFS(ingest.StoreDir(other))))
	execute(t, "", "check", "--data", data).ends(t, terminal.ExitCorrupt, "the store belongs to journal", "next step: put the store")
	testkit.NoError(t, os.RemoveAll(store))
	move(store+".kept", store)
	// A base that was fetched, and is not in place.
	mark := filepath.Join(data, "cluster", "base.complete")
	testkit.NoError(t, os.WriteFile(mark, []byte("index=9 term=1\n"), 0o600))
	execute(t, "", "check", "--data", data).ends(t, terminal.ExitCorrupt, "start the node once")
	testkit.NoError(t, os.Remove(mark))
	// The log of another node of another cluster.
	move(filepath.Join(data, "cluster", "0"), filepath.Join(data, "cluster", "kept"))
	execute(t, "", "check", "--data", data).ends(t, terminal.ExitNoData, "the log of the node is missing", "next step: put it back")
	testkit.NoError(t, os.CopyFS(filepath.Join(data, "cluster", "0"), os.DirFS(filepath.Join(other, "cluster", "0"))))
	for _, args := range verbs {
		execute(t, "", append(args, "--data", data)...).ends(t, terminal.ExitCorrupt, "and the journal of this cluster")
	}
}
