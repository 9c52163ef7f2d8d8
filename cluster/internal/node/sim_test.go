package node

import (
	"flag"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/report"
)

var (
	seeds = flag.Uint64("seeds", 0, "how many seeds to play; 0: 200, or 20 with -short")
	from  = flag.Uint64("from", 0, "the first seed")
)

// steps is the length of a play.
const steps = 6000

// play plays a seed. It returns what is wrong, and a hash of all that happened.
func play(t *testing.T, seed uint64, f fault) (wrong string, hash uint64, figures figures) {
	cryptotest.SetGlobalRandom(t, seed) // Raft draws its timeouts there
	w, sum := newWorld(seed, f)
	defer func() {
		if p := recover(); p != nil {
			wrong = fmt.Sprint(p)
		}
		figures, hash = w.figures, sum()
		w.end()
	}()
	for range steps {
		w.step()
	}
	w.heal()
	w.check()
	return
}

// TestSeeds: no command that was answered is lost or doubled, all stores are the same at the same seq, and a read never
// misses what was answered before it.
func TestSeeds(t *testing.T) {
	n := *seeds
	if n == 0 {
		n = 200
		if testing.Short() {
			n = 20
		}
	}
	began, said := time.Now(), time.Now()
	var sum figures
	failed := 0
	for seed := *from; seed < *from+n; seed++ {
		wrong, _, f := play(t, seed, none)
		if wrong != "" {
			t.Errorf("seed %d: %s; %+v", seed, wrong, f)
			failed++
		}
		report.Add(&sum, f)
		if time.Since(said) > 10*time.Second { // real time: how often it prints its progress
			said = time.Now()
			fmt.Printf("%d of %d seeds, %d failed\n", seed-*from+1, n, failed)
		}
	}
	took := time.Since(began)
	t.Logf("%v: %+v", took.Round(time.Second), sum)
	row, names, lines := "|", "|", "|"
	for i, of := range figureNames {
		value := reflect.ValueOf(sum).Field(i).Int()
		testkit.Holds(t, value > 0 || t.Failed() || n < 20, "the run proves nothing of:", of)
		row, names, lines = fmt.Sprint(row, " ", value, " |"), fmt.Sprint(names, " ", of, " |"), lines+"--:|"
	}
	if *seeds > 0 {
		report.Write(t, "cluster-sim", fmt.Sprintf("| seeds %s failed | time |\n|--:%s--:|--:|\n| %d %s %d | %v |\n", names, lines, n, row, failed, took.Round(time.Second)))
	}
}

// figureNames are the headings of figures, in their order.
var figureNames = strings.Split("power cuts, elections, commands answered, of unknown fate, not stored, refused, repeated under their key, "+
	"reads, records applied, jobs at the end, stores compared at a seq, starts of a node, bases, changes of the members", ", ")

// TestSameSeed: a seed plays out the same way each time.
func TestSameSeed(t *testing.T) {
	for seed := range uint64(4) {
		_, a, _ := play(t, seed, none)
		_, b, _ := play(t, seed, none)
		testkit.Equal(t, a, b, "seed", seed)
	}
}

// TestFaults: the simulation notices faults of the driver, of a disk and of the node.
func TestFaults(t *testing.T) {
	for f, name := range map[fault]string{forgetVote: "a vote is forgotten", earlyWrite: "a write is answered too early", lateStart: "a leader begins too early", withoutRule: "nobody checks the order of commands"} {
		wrong, tries := "", uint64(0)
		for ; wrong == "" && tries < 100; tries++ {
			wrong, _, _ = play(t, tries, f)
		}
		t.Logf("%s: seed %d of at most 100 notices it: %.300s", name, tries-1, wrong)
		testkit.Holds(t, wrong != "", name, "and no seed notices it")
	}
}
