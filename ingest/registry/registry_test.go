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
	"github.com/daybookq/daybook/job"
)

const every = 10 * time.Second

// clock makes moments.
type clock struct{ began, now time.Time }

func newClock() *clock { began := time.Now(); return &clock{began, began} }

func (c *clock) moment() Moment { return Moment{At: c.now.Sub(c.began).Milliseconds(), Mono: c.now} }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

func mustBeat(t *testing.T, r *Registry, c *clock, id, instance string) int64 {
	t.Helper()
	return testkit.Must(r.Heartbeat(job.Owner{}, id, Info{Instance: instance}, false, c.moment()))(t)
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
	ids := lose(r, c)
	testkit.Holds(t, ids == nil, "lost before the first Excuse", ids)
	r.Excuse(c.now)
	c.pass(MissedHeartbeats*every - 1)
	mustBeat(t, r, c, "b", "1")
	ids = lose(r, c)
	testkit.Holds(t, ids == nil, "lost too early", ids)
	c.pass(1)
	testkit.Holds(t, r.Overdue(c.now), "nobody is overdue")
	testkit.EqualSlices(t, lose(r, c), []string{"a"}, "lost")
	c.pass(MissedHeartbeats*every - 2)
	mustBeat(t, r, c, "b", "1")
	c.pass(MissedHeartbeats*every - 1)
	ids = lose(r, c)
	testkit.Holds(t, ids == nil && !r.Overdue(c.now), "lost in spite of a heartbeat", ids)
	r.Excuse(c.now)
	c.pass(MissedHeartbeats*every - 1)
	ids = lose(r, c)
	testkit.Holds(t, ids == nil, "lost too early after an excuse", ids)
	c.pass(1)
	testkit.EqualSlices(t, lose(r, c), []string{"b"}, "lost")
	testkit.Equal(t, r.Counts(), Counts{Dead: 2, Lost: 2})
}

// TestInstances: one instance holds an id at a time, and a former instance never holds it again.
func TestInstances(t *testing.T) {
	r, c := New(every), newClock()
	r.Excuse(c.now)
	beat := func(instance string, takeover bool, want error) {
		t.Helper()
		_, err := r.Heartbeat(job.Owner{}, "a", Info{Instance: instance}, takeover, c.moment())
		testkit.Holds(t, errors.Is(err, want), "heartbeat of", instance, err, "want", want)
	}
	beat("1", false, nil)
	beat("1", true, nil) // taking over an id that it already holds changes nothing
	beat("2", false, ErrTaken)
	c.pass(time.Second)
	beat("2", true, nil)
	beat("1", false, ErrReplaced)
	beat("1", true, ErrReplaced)
	got, _ := r.Runner("a", c.moment())
	testkit.Holds(t, got.Since == 1000 && got.Instance == "2", "after the takeover", got)
	c.pass(MissedHeartbeats * every)
	ids := lose(r, c)
	testkit.MustHold(t, slices.Equal(ids, []string{"a"}), "lost", ids)
	beat("2", true, ErrLost)
	beat("1", true, ErrReplaced)
	beat("3", false, nil)
	beat("2", true, ErrLost)
	testkit.Failed(t, r.Goodbye("a", "2", c.moment()), ErrLost)
	testkit.Failed(t, r.Goodbye("a", "4", c.moment()), ErrTaken)
	for range 2 {
		testkit.Check(t, r.Goodbye("a", "3", c.moment()), "goodbye")
	}
	beat("3", true, ErrLost)
	testkit.Failed(t, r.Goodbye("b", "3", c.moment()), ErrNotFound)
	got, _ = r.Runner("a", c.moment())
	testkit.Holds(t, got.State == Dead && got.End == Left, "after the goodbye", got)
	for i := range 3 * maxFormer {
		beat(fmt.Sprint("more ", i), true, nil)
	}
	testkit.Equal(t, len(r.runners["a"].former), maxFormer, "former instances are kept")
}

func TestBoundsOfTheRegistry(t *testing.T) {
	r, c := New(every), newClock()
	r.Excuse(c.now)
	for i := range MaxAlive {
		mustBeat(t, r, c, fmt.Sprint("r", i), "i")
	}
	testkit.Fails(r.Heartbeat(job.Owner{}, "one more", Info{Instance: "i"}, true, c.moment()))(t, ErrFull)
	mustBeat(t, r, c, "r7", "i")
	c.pass(MissedHeartbeats * every)
	testkit.Equal(t, len(lose(r, c)), MaxAlive, "lost")
	n := r.Counts()
	testkit.Holds(t, n == (Counts{Dead: MaxDead, Lost: MaxAlive}) && len(r.runners) == MaxDead, n, "and", len(r.runners), "runners in the map")
	mustBeat(t, r, c, "one more", "i")
	c.pass(deadFor)
	mustBeat(t, r, c, "one more", "i")
	n = r.Counts()
	testkit.Holds(t, n == (Counts{Alive: 1, Lost: MaxAlive}) && len(r.runners) == 1, "a day later", n)
}

func TestList(t *testing.T) {
	r, c := New(every), newClock()
	var ids []string
	for i := range 300 {
		ids = append(ids, fmt.Sprint("r", i))
	}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		testkit.Must(r.Heartbeat(job.Owner{}, id, Info{Instance: "i", Name: strings.Repeat("n", 2000)}, false, c.moment()))(t)
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
		testkit.MustHold(t, len(page) <= 200 && len(page) != 0, "a page of", len(page))
		after = page[len(page)-1].ID
	}
	testkit.Holds(t, slices.Equal(got, ids) && pages == 3, pages, "pages", got) // 2 KB each, so 132 to a page
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
		testkit.Holds(t, (field != "" || err == nil) && (field == "" || wrong != nil && wrong.Field == field), field, err)
	}
	i := Info{Instance: "i"}
	for n := range maxAddresses {
		i.Addresses = append(i.Addresses, long(maxAddressBytes)[:maxAddressBytes-n%2])
	}
	wrong, ok := errors.AsType[*FieldError](i.Check())
	testkit.Holds(t, (ok || i.bytes() <= MaxInfoBytes) && (!ok || wrong.Field == ""), i.bytes(), "bytes", wrong)
	i.Name = long(100)
	testkit.Holds(t, i.Check() != nil, i.bytes(), "bytes are taken")
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

// TestSharesOfTheRegistry: a client has at most half of the runners once others have keys.
func TestSharesOfTheRegistry(t *testing.T) {
	r, c := New(every), newClock()
	r.Excuse(c.now)
	take := func(of job.Owner, n int) (err error) {
		for i := range n {
			if _, err = r.Heartbeat(of, fmt.Sprint(of.Client, i), Info{Instance: "i"}, true, c.moment()); err != nil {
				return err
			}
		}
		return nil
	}
	a, b := job.Owner{Client: "a", Shares: true}, job.Owner{Client: "b", Shares: true}
	testkit.NoError(t, take(a, MaxAlive/2))
	err := take(a, MaxAlive/2+1)
	testkit.Failed(t, err, ErrFull, "client a")
	testkit.NoError(t, take(b, MaxAlive/4))
	testkit.NoError(t, take(job.Owner{}, MaxAlive/4))
	testkit.Failed(t, take(job.Owner{Client: "c", Shares: true}, 1), ErrFull)
	testkit.NoError(t, r.Goodbye("a0", "i", c.moment()))
	testkit.NoError(t, take(job.Owner{Client: "c", Shares: true}, 1))
	testkit.Equal(t, r.places.All(), MaxAlive)
}
