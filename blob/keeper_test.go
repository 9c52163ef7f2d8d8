package blob

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

type alone struct{ only Store }

func (a alone) Store(string) (Store, error) { return a.only, nil }
func (a alone) Names() ([]string, error)    { return nil, nil }
func (a alone) All() ([]Store, error)       { return []Store{a.only}, nil }
func (a alone) Used() int64                 { return a.only.Used() }

func TestKeeper(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	s := newStore(t, Options{Hooks: Hooks{Now: c.now}})
	mustPut(t, s, "dead")
	c.at = c.at.Add(defaultGrace + 1)
	scanning, goOn := make(chan struct{}), make(chan error)
	var log bytes.Buffer
	k := &Keeper{Stores: alone{s}, Log: slog.New(slog.NewTextHandler(&log, nil)), Scan: func(context.Context, func([]byte) error) error {
		scanning <- struct{}{}
		return <-goOn
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Run(ctx, time.Millisecond)
	}()
	<-scanning
	if _, err := k.Collect(t.Context()); !errors.Is(err, ErrCollecting) {
		t.Errorf("a second collection: %v", err)
	}
	goOn <- errors.New("row 7 is damaged")
	<-scanning
	goOn <- nil
	testkit.Eventually(t, "there is a collection", func() bool { return k.Stats().Collections > 0 })
	cancel()
	<-ended
	if got, want := k.Stats(), (KeeperStats{Collections: k.Stats().Collections, Failures: 1, Collected: Swept{Blobs: 1, Bytes: 4, SHA1s: 1}}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
	if !strings.Contains(log.String(), "row 7") || !strings.Contains(log.String(), "blobs=1") {
		t.Errorf("log: %s", log.String())
	}
}
