package handler

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/internal/testkit"
)

func TestCheck(t *testing.T) {
	script := func(o Options) Document { return Document{Kind: Script, Lang: Node, Source: "x", Options: &o} }
	for _, d := range []Document{
		{Kind: Script, Lang: Python, Source: "def handle(payload, job): return payload", Before: "a", BeforeEach: "b", AfterEach: "c", EID: strings.Repeat("e", MaxEIDBytes)},
		{Kind: HTTP, URL: "https://example.com:8443/a?b=c", Options: &Options{Batch: true, BatchSize: job.MaxClaimJobs}},
		{Kind: Exec, Program: "upper", Options: &Options{Concurrency: MaxConcurrency, Weight: MaxWeight, Slots: MaxSlots, TimeoutMs: MinTimeoutMs, MemoryBytes: MinMemoryBytes}},
		script(Options{IdleMs: MinIdleMs, MaxRuns: 1, InlineBytes: job.MaxOutputBytes}),
		script(Options{}),
		{Kind: WASI, Binary: strings.Repeat("0", 40), Options: &Options{MemoryBytes: MinMemoryBytes, TimeoutMs: MinTimeoutMs}},
		{Kind: WASI, Binary: "sha256:" + strings.Repeat("aF", 32), Name: "serval-facts_1.0", Namespace: "com.example", Version: "any text", Description: strings.Repeat("d", MaxDescriptionBytes),
			RequiredExtensions: []string{"as-fib"}, RequiredPermissions: []string{"proc:read:*", "http:example.com", "extension:*"}},
		{Kind: WASI, Binary: "sha256-3liqNz2EfPx2zlWscP9ijO5U3GSLdPD+mUKCQkBd670="},
	} {
		testkit.NoError(t, d.Check(), d)
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
		"no binary":            {Document{Kind: WASI, Name: "a"}, "binary"},
		"a path":               {Document{Kind: WASI, Binary: "/a.wasm"}, "binary"},
		"half an address":      {Document{Kind: WASI, Binary: strings.Repeat("0", 63)}, "binary"},
		"a name with a space":  {Document{Kind: WASI, Binary: strings.Repeat("0", 64), Name: "a b"}, "name"},
		"a long name":          {Document{Kind: WASI, Binary: strings.Repeat("0", 64), Name: strings.Repeat("a", MaxManifestNameBytes+1)}, "name"},
		"a namespace":          {Document{Kind: WASI, Binary: strings.Repeat("0", 64), Namespace: "a/b"}, "namespace"},
		"a long version":       {Document{Kind: WASI, Binary: strings.Repeat("0", 64), Version: strings.Repeat("a", MaxVersionBytes+1)}, "version"},
		"a long description":   {Document{Kind: WASI, Binary: strings.Repeat("0", 64), Description: strings.Repeat("a", MaxDescriptionBytes+1)}, "description"},
		"an extension":         {Document{Kind: WASI, Binary: strings.Repeat("0", 64), RequiredExtensions: []string{"a", "../b"}}, "required_extensions"},
		"a permission":         {Document{Kind: WASI, Binary: strings.Repeat("0", 64), RequiredPermissions: []string{"all"}}, "required_permissions"},
		"many permissions":     {Document{Kind: WASI, Binary: strings.Repeat("0", 64), RequiredPermissions: make([]string, MaxPermissions+1)}, "required_permissions"},
		"a guest with a URL":   {Document{Kind: WASI, Binary: strings.Repeat("0", 64), URL: "http://a/"}, "url"},
		"a URL with a guest":   {Document{Kind: HTTP, URL: "http://a/", Binary: strings.Repeat("0", 64)}, "binary"},
		"permissions of a URL": {Document{Kind: HTTP, URL: "http://a/", RequiredPermissions: []string{"http:*"}}, "required_permissions"},
		"a context of a guest": {Document{Kind: WASI, Binary: strings.Repeat("0", 64), Options: &Options{IdleMs: MinIdleMs}}, "options.idle_ms"},
		"a batch of a script":  {script(Options{Batch: true}), "options.batch"},
		"a large batch":        {script(Options{BatchSize: job.MaxClaimJobs + 1}), "options.batch_size"},
		"negative":             {script(Options{Weight: -1}), "options.weight"},
		"much concurrency":     {script(Options{Concurrency: MaxConcurrency + 1}), "options.concurrency"},
		"many slots":           {script(Options{Slots: MaxSlots + 1}), "options.slots"},
		"a short time-out":     {script(Options{TimeoutMs: MinTimeoutMs - 1}), "options.timeout_ms"},
		"a short idle time":    {script(Options{IdleMs: MinIdleMs - 1}), "options.idle_ms"},
		"little memory":        {script(Options{MemoryBytes: 1}), "options.memory_bytes"},
		"a very large output":  {script(Options{OutputBytes: MaxOutputBytes + 1}), "options.output_bytes"},
		"an output of wasi":    {Document{Kind: WASI, Binary: strings.Repeat("0", 64), Options: &Options{OutputBytes: 1}}, "options.output_bytes"},
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
			testkit.Holds(t, !ok, name, wrong)
			continue
		}
		numbers++
		testkit.Holds(t, ok && wrong.Field == "options."+name && strings.HasSuffix(wrong.Text, ", not 0"), name, wrong)
	}
	testkit.Holds(t, numbers != 0 && CheckZero("other") == nil, numbers, "numbers; of another option", CheckZero("other"))
}

func TestPermits(t *testing.T) {
	for _, c := range []struct {
		list   []string
		needed string
		want   bool
	}{
		{[]string{"http:example.com"}, "http:example.com", true},
		{[]string{"http:example.com"}, "http:EXAMPLE.com", true},
		{[]string{"http:*"}, "http:example.com", true},
		{[]string{"http:example.com"}, "http:*", false},
		{[]string{"http:example.com"}, "http:www.example.com", false},
		{[]string{"extension:*"}, "http:example.com", false},
		{[]string{"extension:*"}, "extension:fib", true},
		{[]string{"proc:read:*"}, "proc:read:*", true},
		{[]string{"proc:*"}, "proc:read:*", false},
		{nil, "proc:read:*", false},
	} {
		testkit.Equal(t, Permits(c.list, c.needed), c.want, c.list, "permits", c.needed)
	}
}

func TestCheckPermission(t *testing.T) {
	for _, good := range []string{"proc:read:*", "http:*", "http:example.com", "http:localhost:8080", "http:[::1]:80", "extension:*", "extension:as-fib_1.2"} {
		testkit.NoError(t, CheckPermission(good), good)
	}
	for _, bad := range []string{"", "*", "proc:read:/proc/1", "http", "http:", "http:a/b", "http:a b", "extension:", "extension:a/b", "http:" + strings.Repeat("a", MaxPermissionBytes), "extension:" + strings.Repeat("a", MaxExtensionBytes+1)} {
		testkit.Holds(t, CheckPermission(bad) != nil, bad, "is accepted")
	}
}
