// Package check tests the documents: each link leads somewhere, and each block of code works as its page says.
//
// It reads the README and all pages of this repository as a code host shows them. The test of a page copies the page's
// files and runs its commands in one shell, in an empty directory, against a new server. The language of a block
// determines how it is tested:
//
//   - console: lines that begin with "$ " are commands, and lines that begin with "> " continue them. The lines after a
//     command are its output, on both standard output and standard error; runs of spaces count as one. `…` matches any
//     characters of a line, or, alone on a line, any number of lines. If a command fails, the test ends. Where the
//     failure is intended, the command says `|| true` or `; echo $?`.
//   - sh: commands, each of which must succeed. Their output is not compared.
//   - go, python, js, ts, php, ruby, toml, yaml, json and others with a title (```toml title="work.toml"): a file with
//     this name, which later commands can use. Go, Python, JavaScript, PHP, Ruby and JSON must be well-formed.
//   - json without a title must be well-formed. On the page of the API, below a heading with a method and a path, it must
//     also be an answer of this route according to the description of the API (api/testdata/openapi.yaml).
//   - text, abnf and mermaid are not code.
//
// A page whose commands start `daybook serve` gets no other server. 127.0.0.1:1717 is replaced by the address of the
// page's server, 127.0.0.1:17xx and 127.0.0.1:19xx by free ones, and DAYBOOK_SERVER and DAYBOOK_LISTEN are set to the first. $REPOSITORY is the directory of this repository.
//
// A comment in the line before a block changes this:
//
//   - <!-- tested by: FOLDER TestName -->: the test of this name in FOLDER reads the block and runs it. A string in the
//     code of the test's file has the name of the page. If the block has a title, its syntax is checked as well.
//     TestMoving runs docs/how-to/moving.md together with the blocks that need other queues (make check PART=moving), in
//     which testdata/moving creates the jobs that wait.
//   - <!-- checked by: FOLDER TestName (WHAT) -->: no test runs the block as it is. The test of this name makes a weaker
//     check, which the text in brackets describes.
//   - <!-- not run: REASON -->: the block needs something that no test has, such as another operating system. The reason
//     is in testdata/not-run.txt.
//   - <!-- answer of: METHOD PATH -->, <!-- request of: METHOD PATH -->: the JSON is an answer or a request of this
//     route.
//
// If a program is not installed, the tests that need it are skipped. With TESTS_NEED_PROGRAMS set, as in CI, they fail.
//
// proxies_test.go starts nginx and Caddy, which `scripts/tools` installs, with the blocks of docs/how-to/proxies.md.
package check
