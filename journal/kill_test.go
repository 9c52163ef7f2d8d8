package journal

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// killDir is set in the process that TestKill starts: this test binary, running as a writer.
const killDir = "DAYBOOK_JOURNAL_KILL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		if err := writeUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// writeUntilKilled writes from several goroutines. It prints a line with the seq and the body length for every
// acknowledged command, until its standard output is closed or it is killed.
func writeUntilKilled(dir string) error {
	last := uint64(0)
	if rep, err := Verify(dir); err == nil {
		last = rep.Synced // a cursor that the journal proves, as a store has
	}
	j, err := Open(Options{Dir: dir, SegmentBytes: 20_000, VolumeBytes: 100_000, Applied: last})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 9)
	go func() { ended <- j.Run(ctx) }()
	var mu sync.Mutex
	for w := range 8 {
		go func() {
			rng := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(w)))
			for {
				n := rng.IntN(5000)
				a := make(chan answer, 1)
				err := j.Propose(ctx, &Proposal{Lane: Lane(w % 2), Verb: "create", Body: []byte(strings.Repeat("k", n)),
					Done: func(seq uint64, at int64, err error) { a <- answer{seq, at, err} }})
				if err != nil {
					ended <- err
					return
				}
				got := <-a
				if got.err == nil {
					mu.Lock()
					_, got.err = fmt.Printf("%d %d\n", got.seq, n)
					mu.Unlock()
				}
				if got.err != nil {
					ended <- got.err
					return
				}
			}
		}()
	}
	err = <-ended
	cancel()
	return err
}

// TestKill repeatedly kills a writing process. It checks that no command that was answered as stored is missing. The page
// cache survives the process, so this tests the start but not the fsyncs, which other tests cover.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	acked := make(map[uint64]int)
	for round := range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killDir+"="+dir)
		cmd.Stderr = os.Stderr
		out := testkit.Must(cmd.StdoutPipe())(t)
		testkit.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			a, b, ok := strings.Cut(lines.Text(), " ")
			seq, err := strconv.ParseUint(a, 10, 64)
			size, err2 := strconv.Atoi(b)
			if !ok || err != nil || err2 != nil {
				break // the kill has cut this line
			}
			acked[seq] = size
			if n == 50+round*40 {
				testkit.NoError(t, cmd.Process.Kill())
			}
		}
		testkit.MustHold(t, cmd.Wait() != nil, "the writer ended by itself")
		expected := len(acked)
		j := mustOpen(t, Options{Dir: dir})
		for r, err := range j.Records(1) {
			testkit.NoError(t, err)
			if size, ok := acked[r.Seq]; ok {
				testkit.MustHold(t, r.Verb == "create" && len(r.Body) == size, "round", round, "seq", r.Seq, "is a",
					r.Verb, "of", len(r.Body), "bytes, acknowledged were", size)
				expected--
			}
		}
		testkit.MustEqual(t, expected, 0, "round", round, "acknowledged records are gone")
		testkit.NoError(t, j.Close())
	}
	testkit.MustHold(t, len(acked) >= 1000, len(acked))
}
