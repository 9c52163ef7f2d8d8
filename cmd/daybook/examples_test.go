//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// notRun are the examples that the test cannot run as they are, with the reason. A key is the beginning of a line. If
// several keys match, the longest counts. The other maps have the same keys.
var notRun = map[string]string{
	"daybook cluster ":             "it needs a cluster: TestServeCluster",
	"daybook bench":                "it measures for a minute, or for as long as it says; TestBench runs it for less",
	"daybook discover":             "it finds servers on other machines of the network",
	"daybook queues --server mdns": "it finds servers on other machines of the network",
	"daybook queues --context":     "its server does not exist",
	"daybook journal verify &&":    "it gives up the end of a journal that is damaged",
	"daybook top":                  "it needs a terminal",
	"daybook top --once":           "",
}

// endless are the examples that run until they are ended, and what they print first.
var endless = map[string]string{
	"daybook serve":              "listening on",
	"DAYBOOK_LOG_FORMAT=console": "listening on",
	"daybook restore /backups":   "listening on",
	"daybook restore --verify":   "", // this one ends
	restoreWithoutKeys:           "", // and this one
	"daybook work":               "the runner has started",
	"daybook work --config":      "", // this one ends
}

// before are commands to run before an example. They set JOB, BATCH and CLAIM, which replace the ids in the line.
var before = map[string]string{
	"daybook cancel":                       pendingJob,
	"daybook cancel --batch":               newBatch,
	"daybook close":                        `BATCH=$(curl -sS -H 'Content-Type: application/json' -d '{"batch":{"open":true},"jobs":[{"payload":"x"}]}' "$DAYBOOK_SERVER/jobs/create" | jq -r .batch_id)`,
	"daybook complete":                     activeJob,
	"daybook get":                          pendingJob,
	"daybook get --batch":                  newBatch,
	"daybook logs":                         working + `JOB=$(echo x | daybook create --type logged --wait x >/dev/null; daybook jobs --type logged --ids)`,
	"daybook redrive":                      failedJob,
	"daybook jobs --status fail":           failedJob,
	"daybook jobs --status failed --batch": newBatch,
	"daybook release":                      activeJob,
	"daybook results":                      working + newBatch + `; daybook watch "$BATCH" > watched.txt`,
	"daybook submit":                       working,
	"daybook create":                       working,
	"daybook resume --batch":               `BATCH=$(daybook submit --type resize --paused images.txt)`,
	"daybook rm":                           pendingJob,
	"daybook run":                          `JOB=$(daybook create --type resize --delay 1h x)`,
	"daybook runners":                      `daybook work --accept script --id mixer-1 2> work.log & until daybook runners mixer-1 > runner.txt 2>&1; do sleep 0.05; done`,
	"daybook tickle":                       activeJob,
	"daybook watch":                        working + `JOB=$(daybook create --type resize x)`,
	"daybook claim":                        pendingJob,
	"daybook context add trial":            `daybook tls self-signed > made.txt`,
	"daybook serve --tls-cert":             `daybook tls self-signed > made.txt`,
	"daybook key create acme-worker":       `export DAYBOOK_KEY_FILE=boss.key`, "daybook key get": newKeys, "daybook key list": newKeys, "daybook key whoami": newKeys,
	"daybook key rotate": newKeys, "daybook key revoke": newKeys, "daybook key import": newKeys + `; daybook key revoke acme-worker > revoked.txt`,
	"daybook context use":                         `daybook context add prod https://queue.example.com`,
	"daybook context remove":                      `daybook context add test 127.0.0.1:1718`,
	"daybook blob get":                            `printf test | daybook blob put - > address.txt`,
	"daybook fileset pull input":                  `daybook fileset push . input > pushed.txt`,
	"daybook fileset pull output":                 `for i in 1 2 3; do echo $i > photos/a.dat; daybook fileset push photos output; done > pushed.txt`,
	"daybook fileset history":                     `daybook fileset push photos input --client acme > pushed.txt`,
	"daybook fileset rm":                          `daybook fileset push photos input --client acme > pushed.txt`,
	"daybook handler get":                         `daybook handler put resize resize.py > put.txt`,
	"daybook handler rm":                          `daybook handler put resize resize.py > put.txt`,
	"daybook handler history":                     `daybook handler put resize resize.py > put.txt`,
	"daybook queues delete":                       `daybook cancel --queue acme/resize > cancel.txt; daybook rm --queue acme/resize --status cancelled > rm.txt`,
	"daybook restore":                             `daybook backup backups > backup.txt`,
	restoreWithoutKeys:                            `rm -rf var backups; daybook backup backups > backup.txt`,
	"daybook restore --verify":                    `rm -rf backups; daybook backup backups > backup.txt; mv backups/2* backups/20261123T180500.123Z`,
	"daybook key create boss --role admin --data": stopped,
	"daybook check":                               stopped, "daybook journal": stopped, "daybook rebuild": stopped,
}

const (
	restoreWithoutKeys = "daybook restore /backups/daybook --data /var/lib/daybook --revoke-keys"

	newKeys = `daybook key create boss --role admin > boss.key; export DAYBOOK_KEY_FILE=boss.key; daybook key create acme-worker --role worker > worker.key`

	pendingJob = `JOB=$(daybook create --type resize x)`
	activeJob  = `daybook create --type resize x > created.txt; daybook claim --type resize --json > claim.json; JOB=$(jq -r .job_id claim.json) CLAIM=$(jq -r .claim_id claim.json)`
	failedJob  = activeJob + `; daybook complete "$JOB" --code failed > completed.txt`
	newBatch   = `BATCH=$(daybook submit --type resize images.txt)`
	working    = "daybook work --config work.toml 2> work.log &\n"
	stopped    = `rm -rf var backups backup serve.log; mkdir -p var backup; daybook serve --listen 127.0.0.1:0 --data var/daybook > serve.log 2>&1 &
until grep -qs 'listening on' serve.log; do sleep 0.05; done
ADDRESS=$(grep -o 'http://127[0-9.:]*' serve.log | head -1)
daybook create --server "$ADDRESS" x > created.txt; daybook backup --server "$ADDRESS" backups > backup.txt
kill -INT $!; wait $! || true; cp -r backups/2* backup/daybook`
)

// prefixed returns the value of the longest key with which the line begins.
func prefixed(values map[string]string, line string) (value string) {
	longest := ""
	for key, v := range values {
		if strings.HasPrefix(line, key) && len(key) >= len(longest) {
			longest, value = key, v
		}
	}
	return value
}

// TestCLIExamples: each line of the examples of each command works: it succeeds, or prints that it runs. The lines of a
// command have their own server and directory.
func TestCLIExamples(t *testing.T) {
	for _, program := range []string{"bash", "curl", "jq", "less"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the examples need %s: %v", program, err)
		}
	}
	binary := testkit.Must(daybooktest.Binary())(t)
	bin := t.TempDir()
	testkit.NoError(t, os.Symlink(binary, filepath.Join(bin, "daybook")))
	eachCommand(func(name string, cmd *cobra.Command) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir := daybooktest.Start(t), t.TempDir()
			exampleFiles(t, dir)
			environment := append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir,
				"DAYBOOK_SERVER="+server.URL, "DAYBOOK_LISTEN=127.0.0.1:0", "DAYBOOK_INIT=true", "TZ=UTC")
			for line := range strings.Lines(cmd.Example) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				if why := prefixed(notRun, line); why != "" {
					t.Logf("%s is not run: %s", line, why)
					continue
				}
				runExample(t, line, dir, server.URL, environment)
			}
		})
	})
}

// runExample runs a line of an example, with addresses and paths of the test.
func runExample(t *testing.T, line, dir, url string, environment []string) {
	t.Helper()
	id := "$JOB"
	switch word := strings.Fields(line)[1]; {
	case strings.Contains(line, "--batch"), word == "results", word == "close":
		id = "$BATCH"
	}
	command := strings.NewReplacer("0185a1b2-c3d4-7000-8000-00000c800000", id, "0185a1b2-c3d4-7000-8000-00000c800001", "$CLAIM",
		"http://queue.internal:1717", url, "http://queue.example:1717", url, "http://127.0.0.1:1717", url, "sha256:…", "sha256:"+strings.Repeat("0", 64),
		"/var/lib/", dir+"/var/", "/backups/daybook", dir+"/backups", "/backup/daybook", dir+"/backup/daybook", "/data ", dir+" ", "/etc/", dir+"/", "/usr/local/share/man", dir,
		"--port 3999", "--port 0").Replace(line)
	setup := "trap 'kill $(jobs -p) 2> kill.log; wait' EXIT\n" // a killed runner would keep jobs of the next line for a while
	if strings.Contains(line, "acme/resize") {
		setup += "daybook create --client acme --type resize x > created.txt"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", "JOB= BATCH= CLAIM=; "+setup+"\n"+prefixed(before, line)+"\n"+command)
	shell.Dir, shell.Env = dir, environment
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.Cancel = end
	path := filepath.Join(t.TempDir(), "output")
	output := testkit.Must(os.Create(path))(t)
	defer output.Close()
	shell.Stdout, shell.Stderr = output, output
	testkit.NoError(t, shell.Start())
	prints := prefixed(endless, line)
	ended := make(chan error, 1)
	go func() { ended <- shell.Wait() }()
	for prints != "" {
		if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte(prints)) || ctx.Err() != nil {
			break
		}
		time.Sleep(10 * time.Millisecond) // real time: until the process has printed something, or has ended
	}
	if prints != "" {
		end()
	}
	err := <-ended
	end()           // ends its runners
	for range 500 { // a server that is about to end still has the lock of the data directory
		if errors.Is(syscall.Kill(-shell.Process.Pid, 0), syscall.ESRCH) {
			break
		}
		time.Sleep(10 * time.Millisecond) // real time: until the kernel has ended all processes of the line
	}
	text, _ := os.ReadFile(path)
	testkit.Holds(t, bytes.Contains(text, []byte(prints)), line, "does not print", prints, "but", text)
	testkit.Holds(t, prints != "" || err == nil, line, "ends with", err, "and prints", text)
}

// exampleFiles makes the files that examples name.
func exampleFiles(t *testing.T, dir string) {
	t.Helper()
	for name, text := range map[string]string{
		"images.txt": "a.png\nb.png\n", "urls.txt": "https://example.com/\n", "documents.jsonl": `{"a":1}` + "\n", "orders.csv": "order;customer\n1;Ann\n",
		"events.ndjson": `{"a":1}` + "\n", "guest.wasm": "\x00asm\x01\x00\x00\x00", "resize.py": "def handle(payload, job): return payload\n", "photos/cat.jpg": "cat", "results/a.dat": "a",
		"work.toml":    "[handlers.cat]\nkind = \"exec\"\nargv = [\"cat\"]\ntypes = [\"resize\", \"mail\", \"sum\", \"check\", \"parse\", \"double\"]\n\n[handlers.logged]\nkind = \"exec\"\nargv = [\"sh\", \"-c\", \"cat >&2\"]\nlog_bytes = 65536\n",
		"daybook.toml": "log-level = \"info\"\n", "config/default.toml": "log-level = \"warn\"\n",
	} {
		path := filepath.Join(dir, name)
		testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}
