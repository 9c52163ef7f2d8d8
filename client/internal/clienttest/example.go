package clienttest

import (
	"fmt"
	"os"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
)

// exampleTB replaces the testing.T that an example lacks.
type exampleTB struct{ cleanups []func() }

func (t *exampleTB) Helper()                           {}
func (t *exampleTB) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleTB) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *exampleTB) TempDir() string {
	dir, err := os.MkdirTemp("", "daybook-example-")
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Println(err)
		}
	})
	return dir
}

func (t *exampleTB) end() {
	for len(t.cleanups) > 0 {
		last := len(t.cleanups) - 1
		t.cleanups[last]()
		t.cleanups = t.cleanups[:last]
	}
}

// Server starts a server for an example. A program calls client.New("http://127.0.0.1:1717", client.Options{}) instead.
func Server() (c *client.Client, stop func()) {
	var t exampleTB
	s := daybooktest.Start(&t)
	return s.Client, t.end
}
