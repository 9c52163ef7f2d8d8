package testkit

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
)

// Need skips a test if a program that it runs is not installed.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("this machine has no %s", name)
		}
	}
}

// nodeServer is a web server that answers each line of a request with 200.
const nodeServer = `
const server = require("http").createServer((req, res) => {
  let lines = 0
  req.on("data", (part) => { for (let i = part.indexOf(10); i >= 0; i = part.indexOf(10, i + 1)) lines++ })
  req.on("end", () => res.end("200\n".repeat(lines)))
})
server.listen(0, "127.0.0.1", () => console.log("http://127.0.0.1:" + server.address().port))
process.stdin.on("end", () => process.exit(0)).resume()
`

// NodeServer starts a web server in node for a benchmark of webhooks, and returns its URL. It answers each line of a
// request with 200, and ends with the test, or with this process.
func NodeServer(t testing.TB) string {
	t.Helper()
	Need(t, "node")
	node := exec.Command("node", "-e", nodeServer)
	input, output := Must(node.StdinPipe())(t), Must(node.StdoutPipe())(t)
	NoError(t, node.Start())
	t.Cleanup(func() {
		input.Close()
		_ = node.Wait() // it ends with its input
	})
	return strings.TrimSpace(Must(bufio.NewReader(output).ReadString('\n'))(t))
}
