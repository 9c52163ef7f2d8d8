package runners

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/proof/report"
)

var (
	full  = flag.Bool("full", false, "200 kills, some minutes; otherwise a few")
	seed  = flag.Uint64("seed", 0, "seed of the plan; 0: a random one, which is printed. A seed repeats the plan, not the run")
	kills = flag.Int("kills", 0, "how many SIGKILLs; 0: 200 with -full, otherwise 8")
)

// binary is a copy of the real binary in base, so that runners can have links to it.
var binary, base string

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	if *kills == 0 {
		*kills = 8
		if *full {
			*kills = 200
		}
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if base, err = os.MkdirTemp("", "daybook-runners-"); err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(base)
	built, err := daybooktest.Binary()
	if err == nil {
		binary = filepath.Join(base, "daybook")
		err = exec.Command("cp", built, binary).Run()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("runners: seed %d, %d kills, binary %s\n", *seed, *kills, built)
	return m.Run()
}

// maxWait is how long a lane waits for an answer. It decides nothing: if this takes longer, the result is undecided.
const maxWait = 4 * time.Minute

const (
	perTrial    = 50 // kills of one server with its data, after which everything is checked
	fewRunners  = 2
	manyRunners = 3
)

// trial is a server, its runners and a producer.
type trial struct {
	*testing.T
	rng     *rand.Rand
	server  *daybooktest.Process
	log     testkit.Log
	client  *client.Client
	runners []*runner
	account account
}

func (s *trial) must(err error) {
	s.Helper()
	testkit.NoError(s, err, "seed", *seed, "the end of the server's log", &s.log)
}

// newTrial starts a server and n runners. args are flags of the server.
func newTrial(t *testing.T, rng *rand.Rand, n int, args ...string) *trial {
	t.Helper()
	s := &trial{T: t, rng: rng}
	s.server = &daybooktest.Process{
		Binary: binary, Data: t.TempDir(), Log: &s.log,
		Args: append([]string{"--log-level", "error", "--abandoned-age", lease.String(), "--max-attempts", "100"}, args...),
	}
	t.Cleanup(func() {
		testkit.Check(t, s.server.Kill())
		for _, r := range s.runners {
			if t.Failed() {
				t.Logf("%s:\n%s", r.mark, r.log)
			}
		}
	})
	s.startServer()
	s.client = client.New(s.server.URL(), client.Options{RetryFor: maxWait})
	s.storeGuests()
	web := serveWeb()
	t.Cleanup(web.Close)
	for i := range n {
		r := &runner{
			binary: binary, dir: base, config: func(mark string) string { return configuration(web.URL, mark) },
			args: []string{"--server", s.server.URL(), "--id", fmt.Sprint("runner-", i), "--takeover", "--concurrency", "6", "--http-allow", web.Listener.Addr().String(), "--accept", "wasi"},
		}
		t.Cleanup(func() { testkit.Check(t, r.clean()) })
		s.must(r.start())
		s.runners = append(s.runners, r)
	}
	return s
}

// storeGuests stores the handlers of kind wasi, whose binary is a blob. One has its output inline, the other in a blob.
func (s *trial) storeGuests() {
	s.Helper()
	binary, err := os.ReadFile("testdata/guest.wasm")
	s.must(err)
	stored, err := s.client.Blobs("").Put(s.Context(), bytes.NewReader(binary))
	s.must(err)
	for typ, o := range map[string]handler.Options{guestType: {}, blobType: {InlineBytes: 1}} {
		_, err := s.client.PutHandler(s.Context(), "", typ, handler.Document{Kind: handler.WASI, Binary: stored.Address, Options: &o})
		s.must(err)
	}
}

func (s *trial) startServer() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), maxWait)
	defer cancel()
	s.must(s.server.Start(ctx))
}

// completed returns how many jobs are completed, and how many are unfinished.
func (s *trial) completed() (done, left int64) {
	s.Helper()
	stats, err := s.client.Stats(s.Context())
	s.must(err)
	return stats.Jobs["completed"], stats.Jobs["pending"] + stats.Jobs["active"] + stats.Jobs["deferred"]
}

// awaitWork waits until a few more jobs are completed. Without work the test could lose nothing.
func (s *trial) awaitWork() {
	s.Helper()
	before, _ := s.completed()
	testkit.Eventually(s, "five more jobs are completed", func() bool { done, _ := s.completed(); return done >= before+5 })
}

// drain waits until no job is unfinished.
func (s *trial) drain() {
	s.Helper()
	testkit.Eventually(s, "no job is unfinished", func() bool { _, left := s.completed(); return left == 0 })
}

// jobs reads all jobs.
func (s *trial) jobs() (jobs []*client.Job) {
	s.Helper()
	for j, err := range s.client.Jobs(s.Context(), client.JobsQuery{}) {
		s.must(err)
		jobs = append(jobs, j)
	}
	return jobs
}

// victims counts the kills, which are by turns.
type victims struct{ runners, children, servers int }

// kill kills the next victim, and starts it again.
func (s *trial) kill(v *victims) {
	s.Helper()
	switch (v.runners + v.children + v.servers) % 3 {
	case 0:
		r := s.runners[s.rng.IntN(len(s.runners))]
		s.must(r.kill())
		s.must(r.start())
		v.runners++
	case 1:
		testkit.Eventually(s, "a runner has a process", func() bool {
			killed, err := s.runners[s.rng.IntN(len(s.runners))].killOne(s.rng.IntN)
			s.must(err)
			return killed
		})
		v.children++
	case 2:
		s.must(s.server.Kill())
		time.Sleep(time.Duration(s.rng.IntN(200)) * time.Millisecond) // the runners continue without it
		s.startServer()
		v.servers++
	}
}

// TestKills kills runners, their processes and the server with SIGKILL at random moments, under load.
func TestKills(t *testing.T) {
	testkit.Need(t, "sh", "setsid", "nohup", "sleep", "python3")
	rng := rand.New(rand.NewPCG(*seed, 1))
	began := time.Now()
	var all tally
	var v victims
	for killed := 0; killed < *kills; {
		n := fewRunners
		if *full {
			n = manyRunners
		}
		s := newTrial(t, rng, n)
		ctx, stop := context.WithCancel(t.Context())
		var producing sync.WaitGroup
		p := producer{client: s.client, to: &s.account, rng: rand.New(rand.NewPCG(*seed, uint64(killed))), name: fmt.Sprint("p", killed)}
		producing.Go(func() { p.run(ctx) })
		defer producing.Wait()
		defer stop()
		for range min(perTrial, *kills-killed) {
			s.awaitWork()
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond) // the load continues until the kill
			s.kill(&v)
			killed++
		}
		s.awaitWork()
		stop()
		producing.Wait()
		report.Add(&all, s.finish())
		if *full {
			fmt.Printf("%s %d of %d kills, %+v\n", time.Now().Format(time.TimeOnly), killed, *kills, all)
		}
	}
	took := time.Since(began).Round(time.Second)
	t.Logf("%+v, %+v in %v", v, all, took)
	testkit.Holds(t, all.Next != 0 && all.After != 0 && all.Guests != 0 &&
		(!*full || all.Repeated != 0), "there was hardly any load, so the lane proves nothing", all)
	if *full {
		report.Write(t, "runner-kills", fmt.Sprintf(`| kills of runners | of their processes | of the server | jobs acknowledged | jobs of the load | chained by lines | by on_complete | runs | jobs that ran more than once | lost, doubled or wrong | processes left over | time |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
| %d | %d | %d | %d | %d | %d | %d | %d | %d | 0 | 0 | %v |

Seed %d.
`, v.runners, v.children, v.servers, all.Acknowledged, all.Jobs, all.Next, all.After, all.Runs, all.Repeated, took, *seed))
	}
}

func (s *trial) stopRunners() {
	s.Helper()
	for _, r := range s.runners {
		s.must(r.stop())
	}
}

// finish lets the runners end all jobs, stops everything, and checks the account, the processes and the data.
func (s *trial) finish() tally {
	s.Helper()
	s.drain()
	jobs := s.jobs()
	for _, j := range jobs {
		if j.OutputAddr != "" {
			b, err := s.client.Blobs("").Stat(s.Context(), j.OutputAddr)
			if want := int64(len(blobOf(string(j.Payload)))); err != nil || b.Size != want {
				s.Errorf("the output of %s %.100q is a blob of %d bytes, not %d: %v", j.Type, j.Payload, b.Size, want, err)
			}
		}
	}
	s.stopRunners()
	seen, problems := s.account.check(jobs)
	for _, p := range problems[:min(len(problems), 20)] {
		s.Error(p)
	}
	testkit.Holds(s, len(problems) == 0, "seed", *seed, len(problems), "problems")
	s.must(s.server.Stop())
	out, err := exec.Command(binary, "check", "--data", s.server.Data).CombinedOutput()
	testkit.Check(s, err, "check", out)
	return seen
}
