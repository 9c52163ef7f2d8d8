package script

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// sources has the same handler in several languages. A missing language cannot express it.
type sources map[string]string

func value(kind client.Kind, payload string) *client.Job {
	return &client.Job{Payload: []byte(payload), Kind: kind}
}

// cases must pass in all languages. The jobs of a case are one batch.
var cases = []struct {
	name    string
	sources sources
	jobs    []*client.Job
	chain   []string // types that its J: lines may create
	want    []string // see show and matches
	but     map[string][]string
}{
	{
		name: "text",
		sources: sources{
			handler.Node:   `function handle(payload) { return payload.toUpperCase() }`,
			handler.Python: `def handle(payload, job): return payload.upper()`,
			handler.PHP:    `function handle($payload) { return strtoupper($payload); }`,
			handler.Shell:  `handle() { printf %s "$1" | tr a-z A-Z; }`,
		},
		jobs: texts("hello", "a b\nc\n", "'\"\\$(x)`"),
		want: []string{"ok text:HELLO", "ok text:A B\nC\n", "ok text:'\"\\$(X)`"},
	},
	{
		name: "the payload comes back",
		sources: sources{
			handler.Node:   `const handle = async (payload) => payload`,
			handler.Python: `handle = lambda payload, job: payload`,
			handler.PHP:    `function handle($payload, $job) { return $payload; }`,
			handler.Shell:  `handle() { cat; }`,
		},
		jobs: []*client.Job{
			text("grüße 🎈 \u2028 \x00 end"), text(""), text(strings.Repeat("long ", 1000)), text("a\r\n"),
			value(client.JSON, "{\"a\": [1, 2.5, \"ü\"],\n \"b\": {\"c\": null}}"), value(client.JSON, "[]"), value(client.JSON, "12"), value(client.JSON, "true"),
			value(client.Bytes, "\xff\x00\xfe\n"), value(client.None, ""),
		},
		want: []string{
			"ok text:grüße 🎈 \u2028 \x00 end", "ok text:", "ok text:" + strings.Repeat("long ", 1000), "ok text:a\r\n",
			`ok json:{"a":[1,2.5,"ü"],"b":{"c":null}}`, "ok json:[]", "ok json:12", "ok json:true",
			"ok bytes:\xff\x00\xfe\n", "ok",
		},
		but: map[string][]string{
			handler.Shell: {
				0: "ok text:grüße 🎈 \u2028  end", 1: "ok",
				4: "ok text:{\"a\": [1, 2.5, \"ü\"],\n \"b\": {\"c\": null}}", 5: "ok text:[]", 6: "ok text:12", 7: "ok text:true",
			},
		},
	},
	{
		name: "what the payload is",
		sources: sources{
			handler.Node:   `function handle(payload, job) { return Array.isArray(payload) ? 'array' : payload instanceof Uint8Array ? 'bytes' : payload === null ? 'none' : typeof payload }`,
			handler.Python: `def handle(payload, job): return {list: "array", bytes: "bytes", type(None): "none", str: "string", int: "number"}[type(payload)]`,
			handler.PHP:    `function handle($payload, $job) { return is_array($payload) ? 'array' : ($job->kind === 'bytes' ? 'bytes' : ($payload === null ? 'none' : (is_int($payload) ? 'number' : gettype($payload)))); }`,
		},
		jobs: []*client.Job{text("1"), value(client.JSON, "1"), value(client.JSON, "[1]"), value(client.Bytes, "1"), value(client.None, "")},
		want: []string{"ok text:string", "ok text:number", "ok text:array", "ok text:bytes", "ok text:none"},
	},
	{
		name: "the job",
		sources: sources{
			handler.Node:   `function handle(payload, job) { return [job.id, job.client, job.type, job.kind, job.attempt, job.max_attempts, job.meta['k"'], job.traceparent, job.payload === payload] }`,
			handler.Python: `def handle(payload, job): return [job.id, job.client, job.type, job.kind, job.attempt, job.max_attempts, job.meta['k"'], job.traceparent, job.payload == payload]`,
			handler.PHP:    `function handle($payload, $job) { return [$job->id, $job->client, $job->type, $job->kind, $job->attempt, $job->max_attempts, $job->meta['k"'], $job->traceparent, $job->payload === $payload]; }`,
			handler.Shell:  `handle() { printf '["%s","%s","%s","%s",%s,%s,%s,"%s",true]' "$DAYBOOK_JOB_ID" "$DAYBOOK_CLIENT" "$DAYBOOK_TYPE" "$DAYBOOK_KIND" "$DAYBOOK_ATTEMPT" "$DAYBOOK_MAX_ATTEMPTS" "$(printf %s "$DAYBOOK_META" | sed 's/.*:\(.*\)}/\1/')" "$TRACEPARENT"; }`,
		},
		jobs: []*client.Job{{ID: "the-id", Kind: client.Text, RunAttempts: 2, MaxAttempts: 3, Meta: map[string]string{`k"`: "v"}, Traceparent: "00-ab-cd-01"}},
		want: []string{`ok json:["the-id","acme","work","text",2,3,"v","00-ab-cd-01",true]`},
		but:  map[string][]string{handler.Shell: {0: `ok text:["the-id","acme","work","text",2,3,"v","00-ab-cd-01",true]`}},
	},
	{
		name: "kinds of outputs",
		sources: sources{
			handler.Node: `async function handle(p) {
				await null
				return { none: undefined, null: null, text: 'a', empty: '', object: { b: [1] }, number: 1.5, false: false, bytes: Buffer.from([255, 0]), view: new Uint8Array([1, 65, 66]).subarray(1), fn: () => 1, surrogate: '\ud800x', 'in JSON': ['\ud800ü'] }[p]
			}`,
			handler.Python: `def handle(p, job):
				return {"none": None, "null": None, "text": "a", "empty": "", "object": {"b": [1]}, "number": 1.5, "false": False, "bytes": b"\xff\x00", "view": bytearray(b"AB"), "fn": len, "surrogate": "\ud800x", "in JSON": {1: "ü", "1": 2}}[p]`,
			handler.PHP: `function handle($p) {
				return ['none' => null, 'null' => null, 'text' => 'a', 'empty' => '', 'object' => ['b' => [1]], 'number' => 1.5, 'false' => false, 'bytes' => "\xff\x00", 'view' => new Bytes('AB'), 'fn' => NAN, 'surrogate' => "\u{fffd}x", 'in JSON' => ["\xff"]][$p];
			}`,
		},
		jobs: texts("none", "null", "text", "empty", "object", "number", "false", "bytes", "view", "fn", "surrogate", "in JSON"),
		want: []string{"ok", "ok", "ok text:a", "ok text:", `ok json:{"b":[1]}`, "ok json:1.5", "ok json:false", "ok bytes:\xff\x00", "ok bytes:AB", "error…JSON", "error…lone surrogate", "error…not valid JSON"},
		but:  map[string][]string{handler.PHP: {9: "error…Inf and NaN", 10: "ok text:\ufffdx", 11: "error…UTF-8"}},
	},
	{
		name: "exceptions, Fail and Retry",
		sources: sources{
			handler.Node: `
				function deep(p) { throw new TypeError('broken ' + p) }
				function handle(p) {
					switch (p) {
					case 'fail': throw new Fail('never ü')
					case 'return fail': return Fail('never')
					case 'retry': throw new Retry('later', 1500)
					case 'return retry': return new Retry('soon')
					case 'string': throw 'a text'
					}
					deep(p)
				}`,
			handler.Python: `
def deep(p): raise TypeError("broken " + p)
def handle(p, job):
	if p == "fail": raise Fail("never ü")
	if p == "return fail": return Fail("never")
	if p == "retry": raise Retry("later", 1500)
	if p == "return retry": return Retry("soon")
	if p == "string": raise Exception("a text")
	deep(p)`,
			handler.PHP: `
				function deep($p) { throw new TypeError("broken $p"); }
				function handle($p) {
					switch ($p) {
					case 'fail': throw new Fail('never ü');
					case 'return fail': return new Fail('never');
					case 'retry': throw new Retry('later', 1500);
					case 'return retry': return new Retry('soon');
					case 'string': throw new Exception('a text');
					}
					deep($p);
				}`,
			handler.Shell: `
				deep() { echo "broken $1, TypeError of deep" >&2; return 3; }
				handle() {
					case $1 in
					fail) Fail 'never ü' ;;
					'return fail') Fail never ;;
					retry) Retry later 1500 ;;
					'return retry') Retry soon ;;
					string) echo 'a text' >&2; exit 4 ;;
					*) deep "$1" ;;
					esac
				}`,
		},
		jobs: texts("fail", "return fail", "retry", "return retry", "string", "x"),
		want: []string{"failed:never ü", "failed:never", "retry:later after 1500", "retry:soon", "error…a text", "error…broken x"},
	},
	{
		name: "the top of the stack is in the error",
		sources: sources{
			handler.Node:   "function handle() { deep() }\n\nfunction deep() { throw new Error('x') }",
			handler.Python: "def handle(p, job): deep()\n\ndef deep(): raise Exception('x')",
			handler.PHP:    "function handle() { deep(); }\n\nfunction deep() { throw new Exception('x'); }",
		},
		jobs: texts("x"),
		want: []string{"error…deep"},
	},
	{
		name:  "prints and jobs to create",
		chain: []string{handler.AnyType},
		sources: sources{
			handler.Node: `function handle(p) { console.log('hello %d', 1); process.stdout.write('J: mail|to: ada|bob\n#J:up|' + p); if (p === 'fail') throw Fail('no'); if (p === 'error') throw Error('no') }`,
			handler.Python: `def handle(p, job):
				print("hello", 1)
				print("J: mail|to: ada|bob\n#J:up|" + p, end="")
				if p == "fail": raise Fail("no")
				if p == "error": raise Exception("no")`,
			handler.PHP:   `function handle($p) { echo "hello 1\n"; ?>J: mail|to: ada|bob` + "\n" + `<?php ob_start(); echo "#J:up|$p"; if ($p === 'fail') throw new Fail('no'); if ($p === 'error') throw new Exception('no'); }`,
			handler.Shell: `handle() { echo hello 1 >&2; printf 'J: mail|to: ada|bob\n#J:up|%s' "$1"; if [ "$1" = fail ]; then Fail no; fi; if [ "$1" = error ]; then echo no >&2; exit 1; fi; }`,
		},
		jobs: texts("a", "fail", "error", "ü"),
		want: []string{"ok then mail|to: ada|bob then up|a", "failed:no then mail|to: ada|bob then up|fail", "error…no", "ok then mail|to: ada|bob then up|ü"},
	},
	{
		name:  "J lines that are wrong",
		chain: []string{handler.AnyType},
		sources: sources{
			handler.Node:   `function handle(p) { for (let i = 0; i < (p === 'many' ? 101 : 100); i++) console.log(p === 'type' ? 'J: a b|c' : 'J: a|') }`,
			handler.Python: `def handle(p, job): print("\n".join(["J: a b|c" if p == "type" else "J: a|"] * (101 if p == "many" else 100)))`,
			handler.PHP:    `function handle($p) { echo str_repeat($p === 'type' ? "J: a b|c\n" : "J: a|\n", $p === 'many' ? 101 : 100); }`,
			handler.Shell:  `handle() { n=100; case $1 in many) n=101; l='J: a|' ;; type) l='J: a b|c' ;; *) l='J: a|' ;; esac; while [ $n -gt 0 ]; do echo "$l"; n=$((n - 1)); done; }`,
		},
		jobs: texts("type", "many", "right"),
		want: []string{"error…may hold only a-z", "error…more than 100", "ok" + strings.Repeat(" then a|", 100)},
	},
	{
		name:  "J lines of types that the handler does not list",
		chain: []string{"mail"},
		sources: sources{
			handler.Node:   `function handle(p) { console.log('hello ' + p); return 'ok' }`,
			handler.Python: `def handle(p, job): print("hello " + p); return "ok"`,
			handler.PHP:    `function handle($p) { echo "hello $p\n"; return 'ok'; }`,
			handler.Shell:  `handle() { printf 'hello %s\n' "$1"; }`,
		},
		jobs: texts("Ann\nJ: admin.reset|all\nJ: a b|c\nJ: mail|x"),
		want: []string{"ok text:ok then mail|x"},
		but:  map[string][]string{handler.Shell: {"ok text:hello Ann\nJ: admin.reset|all\nJ: a b|c\n then mail|x"}},
	},
	{
		name:  "a J line with a lone surrogate",
		chain: []string{"mail"},
		sources: sources{
			handler.Node:   `function handle(p) { console.log(p === 'J' ? 'J: mail|\ud800' : '\ud800') }`,
			handler.Python: `def handle(p, job): print("J: mail|\ud800" if p == "J" else "\ud800")`,
		},
		jobs: texts("J", "log"),
		want: []string{"error…lone surrogate", "ok"},
	},
	{
		name: "an output that is too large",
		sources: sources{
			handler.Node:   `function handle(p) { return 'a'.repeat(Number(p)) }`,
			handler.Python: `def handle(p, job): return "a" * int(p)`,
			handler.PHP:    `function handle($p) { return str_repeat('a', (int)$p); }`,
			handler.Shell:  `handle() { head -c "$1" /dev/zero | tr '\0' a; }`,
		},
		jobs: texts("262145", "20000000", "262144", "1"),
		want: []string{"failed:the output has …output_bytes", "failed:the output has …output_bytes", "ok text:" + strings.Repeat("a", 262144), "ok text:a"},
	},
	{
		name: "a payload of 4 MiB",
		sources: sources{
			handler.Node:   `function handle(p) { return String(p.length) }`,
			handler.Python: `def handle(p, job): return str(len(p))`,
			handler.PHP:    `function handle($p) { return (string)strlen($p); }`,
			handler.Shell:  `handle() { printf %s ${#1}; }`,
		},
		jobs: texts("a", strings.Repeat("x", 4<<20), "bc"),
		want: []string{"ok text:1", "ok text:4194304", "ok text:2"},
	},
	{
		name: "JSON that nobody can read",
		sources: sources{
			handler.Node:   `const handle = (p) => 'x'`,
			handler.Python: `handle = lambda p, job: "x"`,
			handler.PHP:    `function handle() { return 'x'; }`,
			handler.Shell:  `handle() { printf x; }`,
		},
		jobs: []*client.Job{
			value(client.JSON, strings.Repeat("[", 500)+strings.Repeat("]", 500)), value(client.JSON, strings.Repeat("[", 501)+strings.Repeat("]", 501)),
			value(client.JSON, "1}\n{"), value(client.JSON, `"`+strings.Repeat("[", 1000)+`"`),
		},
		want: []string{"ok text:x", "failed…500 deep", "failed…not valid JSON", "ok text:x"},
	},
}

// TestCases: all languages behave the same.
func TestCases(t *testing.T) {
	for _, lang := range handler.Langs {
		t.Run(lang, func(t *testing.T) {
			b := newBed(t)
			need(t, b.Pool, lang)
			for _, c := range cases {
				source, ok := c.sources[lang]
				if !ok {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					x := b.executor(c.name, handler.Document{Lang: lang, Source: source, ChainTypes: c.chain, Options: &handler.Options{OutputBytes: 262144}})
					defer x.Close()
					got := shown(run(x, c.jobs...))
					for n, want := range c.want {
						if own := c.but[lang]; n < len(own) && own[n] != "" {
							want = own[n]
						}
						testkit.Holds(t, matches(got[n], want), "job", n, got[n], "not", want)
					}
				})
			}
		})
	}
}
