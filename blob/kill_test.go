package blob

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/powerfs"
)

// killDir is set in the process that TestKill starts, which is this test binary as a writer.
const killDir = "DAYBOOK_BLOB_KILL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		if err := putUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// putUntilKilled puts blobs and prints the number of each acknowledged one, while an upload that never ends holds a
// temporary file.
func putUntilKilled(dir string) error {
	s, err := OpenDir(context.Background(), dir, Options{})
	if err != nil {
		return err
	}
	begun := make(chan struct{})
	var once sync.Once
	go s.Put(context.Background(), "", readerFunc(func(p []byte) (int, error) { // ends with the process
		once.Do(func() { close(begun) })
		return len(p), nil
	}), Ref{})
	<-begun
	for i := 0; ; i++ {
		if _, err := put(s, killContent(i)); err != nil {
			return err
		}
		if _, err := fmt.Println(i); err != nil {
			return err
		}
	}
}

func killContent(i int) string { return strings.Repeat(fmt.Sprintf("kill %d ", i), 1+i*i*100) }

// TestKill kills a process that puts blobs. The page cache survives the process, so this tests the start. Separate
// tests cover the fsyncs.
func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	leftovers := 0
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killDir+"="+dir)
		cmd.Stderr = os.Stderr
		out := testkit.Must(cmd.StdoutPipe())(t)
		testkit.NoError(t, cmd.Start())
		acknowledged := -1
		for lines := bufio.NewScanner(out); lines.Scan(); {
			acknowledged++
			if acknowledged == 3+round {
				testkit.NoError(t, cmd.Process.Kill())
			}
		}
		testkit.Failed(t, cmd.Wait())
		left := testkit.Must(os.ReadDir(filepath.Join(dir, "uploads")))(t)
		leftovers += len(left)
		s := mustOpen(t, dir, Options{})
		for i := range acknowledged + 1 {
			mustRead(t, s, killContent(i))
			mustResolve(t, s, killContent(i))
		}
		mustAddUp(t, s)
		mustBeEmpty(t, s.uploadsDir())
		testkit.NoError(t, s.Close())
	}
	testkit.Holds(t, leftovers != 0, "no kill has left an upload")
}

// TestPowerCuts repeatedly cuts the power of the disk while blobs are put. Each acknowledged blob is stored with its
// SHA-1, and each blob that Has reports is whole and survives the next cut.
func TestPowerCuts(t *testing.T) {
	testkit.OneByOne(t)
	disk, mount := mountDisk(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(mount, "blobs")
	durable := map[string]bool{} // contents that were acknowledged, or that Has has reported
	attempted := map[string]bool{}
	rounds := 20
	if testing.Short() {
		rounds = 6
	}
	telling := func() bool { // the cuts have lost bytes that only syncs keep
		lost := disk.Unsynced()
		return lost.Files > 0 && lost.Names > 0 && len(durable) > 0
	}
	for round := 0; round < rounds || !telling() && round < 20*rounds; round++ { // few cuts may all miss a file
		moment := disk.CutAt(powerfs.Moment(rng.IntN(3)), 1+rng.IntN(40), rng.Uint64())
		s, err := OpenDir(t.Context(), dir, Options{})
		for i := 0; err == nil && i < 30; i++ {
			content := strings.Repeat(fmt.Sprint("cut ", rng.IntN(20), " "), 1+rng.IntN(2)*2000)
			attempted[content] = true
			if _, err = put(s, content); err == nil {
				durable[content] = true
			}
		}
		s = afterCut(t, disk, moment, rng.Uint64(), s, dir)
		mustBeEmpty(t, s.uploadsDir())
		mustAddUp(t, s)
		for content := range attempted {
			there := testkit.Must(has(t, s, addressOf(content)))(t)
			testkit.Holds(t, there || !durable[content], "Has is", there)
			if there {
				mustRead(t, s, content)
				mustResolve(t, s, content)
				durable[content] = true
			}
		}
		if t.Failed() {
			return
		}
		testkit.NoError(t, s.Close())
		disk.Cut(rng.Uint64())
		disk.PowerOn()
	}
	if !telling() {
		t.Errorf("the cuts have lost %+v, and %d blobs were acknowledged", disk.Unsynced(), len(durable))
	}
}

// TestFailedSyncsThenCut: a disk that fails one sync and no later one loses no acknowledged blob at a power cut.
func TestFailedSyncsThenCut(t *testing.T) {
	disk, mount := mountDisk(t)
	dir := filepath.Join(mount, "blobs")
	for n := range 8 {
		s := mustOpen(t, dir, Options{})
		disk.FailSyncs(n % 3)
		durable := map[string]bool{}
		failed := 0
		for i := range 6 {
			content := fmt.Sprint("failing ", n, " ", i%4)
			if _, err := put(s, content); err == nil {
				durable[content] = true
			} else if failed++; !strings.Contains(err.Error(), "input/output error") {
				t.Error(err)
			}
		}
		testkit.Equal(t, failed, n%3, "Puts failed")
		disk.Cut(uint64(n))
		if err := s.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Log(err) // the power is off
		}
		disk.PowerOn()
		s = mustOpen(t, dir, Options{})
		for content := range durable {
			mustRead(t, s, content)
			mustResolve(t, s, content)
		}
		testkit.NoError(t, s.Close())
	}
}
