package handler

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job"
)

func TestCheck(t *testing.T) {
	script := func(o Options) Document { return Document{Kind: Script, Lang: Node, Source: "x", Options: &o} }
	for _, d := range []Document{
		{Kind: Script, Lang: Python, Source: "def handle(payload, job): return payload", Before: "a", BeforeEach: "b", AfterEach: "c", EID: strings.Repeat("e", MaxEIDBytes)},
		{Kind: HTTP, URL: "https://example.com:8443/a?b=c", Options: &Options{Batch: true, BatchSize: job.MaxClaimJobs}},
		{Kind: Exec, Program: "upper", Options: &Options{Concurrency: MaxConcurrency, Weight: MaxWeight, Slots: MaxSlots, TimeoutMs: MinTimeoutMs, MemoryBytes: MinMemoryBytes}},
		script(Options{IdleMs: MinIdleMs, MaxRuns: 1, InlineBytes: job.MaxOutputBytes}),
		script(Options{}),
	} {
		if err := d.Check(); err != nil {
			t.Errorf("%+v: %v", d, err)
		}
	}
	for name, c := range map[string]struct {
		d     Document
		field string
	}{
		"no kind":              {Document{}, "kind"},
		"an unknown kind":      {Document{Kind: "wasm"}, "kind"},
		"no language":          {Document{Kind: Script, Source: "x"}, "lang"},
		"an unknown language":  {Document{Kind: Script, Lang: "perl", Source: "x"}, "lang"},
		"no source":            {Document{Kind: Script, Lang: Node}, "source"},
		"a script with a URL":  {Document{Kind: Script, Lang: Node, Source: "x", URL: "http://a/"}, "url"},
		"a long eid":           {Document{Kind: Script, Lang: Node, Source: "x", EID: strings.Repeat("e", MaxEIDBytes+1)}, "eid"},
		"no URL":               {Document{Kind: HTTP}, "url"},
		"a URL without a host": {Document{Kind: HTTP, URL: "http:///a"}, "url"},
		"a file":               {Document{Kind: HTTP, URL: "file:///etc/passwd"}, "url"},
		"a password":           {Document{Kind: HTTP, URL: "http://u:p@a/"}, "url"},
		"a fragment":           {Document{Kind: HTTP, URL: "http://a/#b"}, "url"},
		"a long URL":           {Document{Kind: HTTP, URL: "http://a/" + strings.Repeat("b", MaxURLBytes)}, "url"},
		"a URL with source":    {Document{Kind: HTTP, URL: "http://a/", Source: "x"}, "source"},
		"no program":           {Document{Kind: Exec}, "program"},
		"a command line":       {Document{Kind: Exec, Program: "rm -rf"}, "program"},
		"a program of a shell": {Document{Kind: Exec, Program: "a", Lang: Shell}, "lang"},
		"a batch of a script":  {script(Options{Batch: true}), "options.batch"},
		"a large batch":        {script(Options{BatchSize: job.MaxClaimJobs + 1}), "options.batch_size"},
		"negative":             {script(Options{Weight: -1}), "options.weight"},
		"much concurrency":     {script(Options{Concurrency: MaxConcurrency + 1}), "options.concurrency"},
		"many slots":           {script(Options{Slots: MaxSlots + 1}), "options.slots"},
		"a short time-out":     {script(Options{TimeoutMs: MinTimeoutMs - 1}), "options.timeout_ms"},
		"a short idle time":    {script(Options{IdleMs: MinIdleMs - 1}), "options.idle_ms"},
		"little memory":        {script(Options{MemoryBytes: 1}), "options.memory_bytes"},
		"a large output":       {script(Options{InlineBytes: job.MaxOutputBytes + 1}), "options.inline_bytes"},
		"many runs":            {script(Options{MaxRuns: MaxRuns + 1}), "options.max_runs"},
		"a context of a URL":   {Document{Kind: HTTP, URL: "http://a/", Options: &Options{MaxRuns: 1}}, "options.max_runs"},
		"memory of a URL":      {Document{Kind: HTTP, URL: "http://a/", Options: &Options{MemoryBytes: MinMemoryBytes}}, "options.memory_bytes"},
	} {
		wrong, ok := errors.AsType[*FieldError](c.d.Check())
		if !ok || wrong.Field != c.field || !strings.Contains(wrong.Text, c.field) {
			t.Errorf("%s: %v, not an error of the field %s", name, c.d.Check(), c.field)
		}
	}
}

func TestCheckZero(t *testing.T) {
	numbers := 0
	for f := range reflect.TypeFor[Options]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		wrong, ok := errors.AsType[*FieldError](CheckZero(name))
		if f.Type.Kind() == reflect.Bool {
			if ok {
				t.Errorf("%s: %v", name, wrong)
			}
			continue
		}
		numbers++
		if !ok || wrong.Field != "options."+name || !strings.HasSuffix(wrong.Text, ", not 0") {
			t.Errorf("%s: %v", name, wrong)
		}
	}
	if numbers == 0 || CheckZero("other") != nil {
		t.Errorf("%d numbers; of another option: %v", numbers, CheckZero("other"))
	}
}
