package registry

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

const every = 10 * time.Second

// clock makes moments.
type clock struct{ began, now time.Time }

func newClock() *clock {
	began := time.Now()
	return &clock{began, began}
}

func (c *clock) moment() Moment { return Moment{At: c.now.Sub(c.began).Milliseconds(), Mono: c.now} }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

func mustBeat(t *testing.T, r *Registry, c *clock, id, instance string) int64 {
	t.Helper()
	return testkit.Must(r.Heartbeat(id, Info{Instance: instance}, false, c.moment()))(t)
}

// lose declares all overdue runners lost, and returns their ids.
func lose(r *Registry, c *clock) (ids []string) {
	for {
		lost, ok := r.Lose(c.moment())
		if !ok {
			return ids
		}
		ids = append(ids, lost.ID)
	}
}

func TestOverdue(t *testing.T) {
	r, c := New(every), newClock()
	mustBeat(t, r, c, "a", "1")
	c.pass(100 * every)
	if ids := lose(r, c); ids != nil {
		t.Errorf("lost before the first Excuse: %v", ids)
	}
	r.Excuse(c.now)
	c.pass(MissedHeartbeats*every - 1)
	mustBeat(t, r, c, "b", "1")
	if ids := lose(r, c); ids != nil {
		t.Errorf("lost too early: %v", ids)
	}
	c.pass(1)
	if !r.Overdue(c.now) {
		t.Error("nobody is overdue")
	}
	if ids := lose(r, c); !slices.Equal(ids, []string{"a"}) {
		t.Errorf("lost: %v", ids)
	}
	c.pass(MissedHeartbeats*every - 2)
	mustBeat(t, r, c, "b", "1")
	c.pass(MissedHeartbeats*every - 1)
	if ids := lose(r, c); ids != nil || r.Overdue(c.now) {
		t.Errorf("lost in spite of a heartbeat: %v", ids)
	}
	r.Excuse(c.now)
	c.pass(MissedHeartbeats*every - 1)
	if ids := lose(r, c); ids != nil {
		t.Errorf("lost too early after an excuse: %v", ids)
	}
	c.pass(1)
	if ids := lose(r, c); !slices.Equal(ids, []string{"b"}) {
		t.Errorf("lost: %v", ids)
	}
	if n := r.Counts(); n != (Counts{Dead: 2, Lost: 2}) {
		t.Errorf("%+v", n)
	}
}

// TestInstances: one instance holds an id at a time, and a former instance never holds it again.
func TestInstances(t *testing.T) {
	r, c := New(every), newClock()
	r.Excuse(c.now)
	beat := func(instance string, takeover bool, want error) {
		t.Helper()
		if _, err := r.Heartbeat("a", Info{Instance: instance}, takeover, c.moment()); !errors.Is(err, want) {
			t.Errorf("heartbeat of %s: %v, want %v", instance, err, want)
		}
	}
	beat("1", false, nil)
	beat("1", true, nil) // taking over an id that it already holds changes nothing
	beat("2", false, ErrTaken)
	c.pass(time.Second)
	beat("2", true, nil)
	beat("1", false, ErrReplaced)
	beat("1", true, ErrReplaced)
	if got, _ := r.Runner("a", c.moment()); got.Since != 1000 || got.Instance != "2" {
		t.Errorf("after the takeover: %+v", got)
	}
	c.pass(MissedHeartbeats * every)
	if ids := lose(r, c); !slices.Equal(ids, []string{"a"}) {
		t.Fatalf("lost: %v", ids)
	}
	beat("2", true, ErrLost)
	beat("1", true, ErrReplaced)
	beat("3", false, nil)
	beat("2", true, ErrLost)
	if err := r.Goodbye("a", "2", c.moment()); !errors.Is(err, ErrLost) {
		t.Errorf("goodbye of a lost instance: %v", err)
	}
	if err := r.Goodbye("a", "4", c.moment()); !errors.Is(err, ErrTaken) {
		t.Errorf("goodbye of an instance that never held the id: %v", err)
	}
	for range 2 {
		if err := r.Goodbye("a", "3", c.moment()); err != nil {
			t.Errorf("goodbye: %v", err)
		}
	}
	beat("3", true, ErrLost)
	if err := r.Goodbye("b", "3", c.moment()); !errors.Is(err, ErrNotFound) {
		t.Errorf("goodbye of an unknown runner: %v", err)
	}
	if got, _ := r.Runner("a", c.moment()); got.State != Dead || got.End != Left {
		t.Errorf("after the goodbye: %+v", got)
	}
	for i := range 3 * maxFormer {
		beat(fmt.Sprint("more ", i), true, nil)
	}
	if e := r.runners["a"]; len(e.former) != maxFormer {
		t.Errorf("%d former instances are kept", len(e.former))
	}
}

func TestBoundsOfTheRegistry(t *testing.T) {
	r, c := New(every), newClock()
	r.Excuse(c.now)
	for i := range MaxAlive {
		mustBeat(t, r, c, fmt.Sprint("r", i), "i")
	}
	if _, err := r.Heartbeat("one more", Info{Instance: "i"}, true, c.moment()); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	mustBeat(t, r, c, "r7", "i")
	c.pass(MissedHeartbeats * every)
	if ids := lose(r, c); len(ids) != MaxAlive {
		t.Errorf("%d lost", len(ids))
	}
	if n := r.Counts(); n != (Counts{Dead: MaxDead, Lost: MaxAlive}) || len(r.runners) != MaxDead {
		t.Errorf("%+v, and %d runners in the map", n, len(r.runners))
	}
	mustBeat(t, r, c, "one more", "i")
	c.pass(deadFor)
	mustBeat(t, r, c, "one more", "i")
	if n := r.Counts(); n != (Counts{Alive: 1, Lost: MaxAlive}) || len(r.runners) != 1 {
		t.Errorf("a day later: %+v", n)
	}
}

func TestList(t *testing.T) {
	r, c := New(every), newClock()
	var ids []string
	for i := range 300 {
		ids = append(ids, fmt.Sprint("r", i))
	}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		testkit.Must(r.Heartbeat(id, Info{Instance: "i", Name: strings.Repeat("n", 2000)}, false, c.moment()))(t)
	}
	slices.SortFunc(ids, Compare)
	var got []string
	after, pages := "", 0
	for more := true; more; pages++ {
		var page []Runner
		page, more = r.Runners(after, 200, c.moment())
		for _, one := range page {
			got = append(got, one.ID)
		}
		if len(page) > 200 || len(page) == 0 {
			t.Fatalf("a page of %d", len(page))
		}
		after = page[len(page)-1].ID
	}
	if !slices.Equal(got, ids) || pages != 3 { // 2 KB each, so 132 to a page
		t.Errorf("%d pages: %v", pages, got)
	}
}

func TestCheck(t *testing.T) {
	names := func(n int) []string { return slices.Repeat([]string{"n"}, n) }
	labels := map[string]string{}
	for i := range maxLabels + 1 {
		labels[fmt.Sprint(i)] = ""
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	for field, change := range map[string]func(i *Info){
		"":              func(*Info) {},
		"instance":      func(i *Info) { i.Instance = "" },
		"name":          func(i *Info) { i.Name = long(maxNameBytes + 1) },
		"addresses":     func(i *Info) { i.Addresses = names(maxAddresses + 1) },
		"kinds":         func(i *Info) { i.Kinds = []string{"a b"} },
		"types":         func(i *Info) { i.Types = names(maxNames + 1) },
		"clients":       func(i *Info) { i.Clients = []string{""} },
		"slots":         func(i *Info) { i.Slots = maxSlots + 1 },
		"labels":        func(i *Info) { i.Labels = labels },
		"version":       func(i *Info) { i.Version = "\xff" },
		"stats.cpu":     func(i *Info) { i.Stats.CPU = math.NaN() },
		"stats.memory":  func(i *Info) { i.Stats.Memory = -1 },
		"stats.running": func(i *Info) { i.Stats.Running = maxFigure + 1 },
	} {
		i := Info{Instance: "i", Name: long(maxNameBytes), Addresses: names(maxAddresses), Kinds: names(maxKinds), Types: names(maxNames), Clients: names(maxNames), Slots: maxSlots}
		change(&i)
		err := i.Check()
		wrong, _ := errors.AsType[*FieldError](err)
		if field == "" && err != nil || field != "" && (wrong == nil || wrong.Field != field) {
			t.Errorf("%q: %v", field, err)
		}
	}
	i := Info{Instance: "i"}
	for n := range maxAddresses {
		i.Addresses = append(i.Addresses, long(maxAddressBytes)[:maxAddressBytes-n%2])
	}
	if wrong, ok := errors.AsType[*FieldError](i.Check()); !ok && i.bytes() > MaxInfoBytes || ok && wrong.Field != "" {
		t.Errorf("%d bytes: %v", i.bytes(), wrong)
	}
	i.Name = long(100)
	if i.Check() == nil {
		t.Errorf("%d bytes are taken", i.bytes())
	}
}

// TestDescribedInfo: the tags, from which the API is described, have the limits that Check enforces.
func TestDescribedInfo(t *testing.T) {
	tags := func(of any, field string) reflect.StructTag {
		f, ok := reflect.TypeOf(of).FieldByName(field)
		if !ok {
			t.Fatalf("%T has no field %s", of, field)
		}
		return f.Tag
	}
	for _, c := range []struct {
		of         any
		field, tag string
		want       any
	}{
		{Info{}, "Name", "maxLength", maxNameBytes}, {Info{}, "Addresses", "maxItems", maxAddresses}, {Info{}, "Addresses", "maxLength", maxAddressBytes},
		{Info{}, "Kinds", "maxItems", maxKinds}, {Info{}, "Types", "maxItems", maxNames}, {Info{}, "Clients", "maxItems", maxNames},
		{Info{}, "Slots", "maximum", maxSlots}, {Info{}, "Labels", "maxProperties", maxLabels}, {Info{}, "Labels", "maxLength", maxLabelTextBytes},
		{Info{}, "Labels", "names", fmt.Sprintf("^(?s:.{1,%d})$", maxLabelBytes)}, {Info{}, "Version", "maxLength", maxVersionBytes},
		{Stats{}, "Memory", "maximum", maxFigure}, {Stats{}, "Running", "maximum", maxFigure},
	} {
		if got, want := tags(c.of, c.field).Get(c.tag), fmt.Sprint(c.want); got != want {
			t.Errorf("%T.%s: %s is %q, want %q", c.of, c.field, c.tag, got, want)
		}
	}
}
