package runners

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
)

// configuration returns the file of a runner. Its arguments are the URL of the web server, and a mark. Programs have the
// mark in their environment, and scripts in the path of their directory.
func configuration(web, mark string) string {
	return fmt.Sprintf(`
[handlers.tree]
kind = "exec"
env = { MARK = %[2]q }
chain_types = ["next"]
shell = '''
p=$(cat)
sleep 300 &
setsid sleep 300 &
nohup sleep 300 >/dev/null 2>&1 &
(sleep 300 &)
(setsid sh -c 'trap "" TERM HUP INT; sleep 300; :' &)
sleep 0.03
printf 'J: next|%%s\n' "$p"
printf 'tree %%s' "$p"
'''

[handlers.lines]
kind = "exec"
frames = "lines"
chain_types = ["next"]
env = { MARK = %[2]q }
shell = '''
setsid sleep 300 &
while read -r p; do
  printf 'J: next|%%s\n200 lines %%s\n' "$p" "$p"
done
'''

[handlers.script]
kind = "script"
lang = "python"
chain_types = ["next"]
before = '''
import subprocess, time
child = subprocess.Popen(["setsid", "sleep", "300"])
'''
source = '''
runs = 0
def handle(payload, job):
    global runs
    runs += 1
    if runs %% 5 == 0:
        time.sleep(0.02)
    print("J: next|" + payload)
    return "script " + payload
'''

[handlers.web]
kind = "http"
url = "%[1]s/web"
chain_types = ["next"]
options = { batch = true }

[handlers.hook]
kind = "http"
url = "%[1]s/hook"

[handlers.next]
kind = "exec"
frames = "lines"
env = { MARK = %[2]q }
shell = "while read -r p; do echo \"200 next $p\"; done"

[handlers.after]
kind = "script"
lang = "python"
source = '''
def handle(payload, job):
    return "after " + payload
'''
`, web, mark)
}

// breakOne: one in this many requests of batches ends in the middle of the answer.
const breakOne = 20

// serveWeb serves the handlers of kind http.
func serveWeb() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /web", func(w http.ResponseWriter, r *http.Request) {
		breaks := rand.IntN(breakOne) == 0
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			fmt.Fprintf(w, "J: %s|%s\n200 %s\n", nextType, lines.Text(), outputOf(webType, lines.Text()))
			if breaks && rand.IntN(3) == 0 {
				_ = http.NewResponseController(w).Flush() // the connection is broken in any case
				panic(http.ErrAbortHandler)
			}
		}
	})
	mux.HandleFunc("POST /hook", func(w http.ResponseWriter, r *http.Request) {
		payload, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, outputOf(hookType, strings.TrimSuffix(string(payload), "\n")))
	})
	return httptest.NewServer(mux)
}
