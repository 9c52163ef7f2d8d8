// Package check tests the documents: each link leads somewhere, and each block of code does what its page says.
//
// The README and all pages of this repository are read as a code host shows them. The test of a page copies its files and
// runs its commands in one shell, in an empty directory, against a server of its own. The language of a block says what
// is done with it:
//
//   - console: lines that begin with "$ " are commands, and lines that begin with "> " continue them. The lines after a
//     command are what it prints, to both outputs; runs of spaces are equal. `…` stands for any characters of a line, or for any number of lines if
//     it is a line of its own. A command that fails ends the test; where that is wanted, the command says `|| true` or
//     `; echo $?`.
//   - sh: commands, each of which must succeed. Their output is not compared.
//   - go, python, js, ts, php, ruby, toml, yaml, json and others with a title (```toml title="work.toml"): a file with this name, which the
//     commands after it can use. Go, Python, JavaScript, PHP, Ruby and JSON must be well-formed.
//   - json without a title must be well-formed. On the page of the API, below a heading with a method and a path, it must also
//     be an answer that the description of the API (api/openapi.yaml) has for this route.
//   - text, abnf and mermaid are not code.
//
// A page whose commands start `daybook serve` gets no other server. 127.0.0.1:1717 is replaced by the address of the
// page's server, and DAYBOOK_SERVER and DAYBOOK_LISTEN are set to it. $REPOSITORY is the directory of this repository.
//
// A comment in the line before a block changes this:
//
//   - <!-- tested by: FOLDER TestName -->: the test of this name in FOLDER reads the block and runs it. A string in the code of its
//     file has the name of the page.
//     If the block has a title, its syntax is checked as well. TestMoving runs pages about moving from other systems together
//     with the blocks that need these systems (make check-moving).
//   - <!-- checked by: FOLDER TestName (WHAT) -->: no test runs the block as it is. The test of this name checks something less,
//     which the brackets describe.
//   - <!-- not run: REASON -->: the block needs something that no test has, such as another operating system. The reason is
//     in testdata/not-run.txt.
//   - <!-- answer of: METHOD PATH -->, <!-- request of: METHOD PATH -->: the JSON is an answer or a request of this route.
//
// A test skips what needs a program that is not installed. Where TESTS_NEED_PROGRAMS is set, as in CI, it fails.
//
// Files:
//   - page.go: the blocks, links and headings of a page.
//   - script.go: the shell script of a page, and the comparison of what it prints.
//   - steps.go: the commands and files of a page, for tests of other packages.
//
// workers_test.go runs the workers of the pages about moving with faults between them and the server.
// proxies_test.go starts nginx and Caddy with the blocks of docs/how-to/proxies.md, which `make tools` installs.
package check
