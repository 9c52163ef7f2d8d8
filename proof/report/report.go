package report

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// PageVar is the environment variable with the path of the page. In a short run it is not set, and Write does nothing.
const PageVar = "DAYBOOK_REPORT"

// Write replaces the block called name by a stamp and text (Markdown). If the test has failed, it writes nothing.
func Write(t *testing.T, name, text string) {
	t.Helper()
	path := os.Getenv(PageVar)
	if path == "" || t.Failed() {
		return
	}
	stamp := testkit.Must(stampOf(path))(t)
	testkit.NoError(t, ReplaceBlock(path, name, stamp.String()+"\n\n"+text))
}

// ReplaceBlock replaces the block of a page called name by text.
func ReplaceBlock(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if page, err = replace(page, name, text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, page, 0o644)
}

// Add adds the figures of a run to a sum. T is a struct of exported numbers.
func Add[T any](sum *T, run T) {
	to, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(run)
	for i := range from.NumField() {
		if field := to.Field(i); field.CanUint() {
			field.SetUint(field.Uint() + from.Field(i).Uint())
		} else {
			field.SetInt(field.Int() + from.Field(i).Int())
		}
	}
}

func replace(page []byte, name, text string) ([]byte, error) {
	begin, end := []byte("<!-- "+name+" -->\n"), []byte("<!-- /"+name+" -->\n")
	i := bytes.Index(page, begin)
	j := bytes.Index(page, end)
	if i < 0 || j < i || bytes.Count(page, begin) != 1 || bytes.Count(page, end) != 1 {
		return nil, fmt.Errorf("no block %q: the page must have one line %q and, below it, one line %q", name, begin, end)
	}
	out := append([]byte(nil), page[:i+len(begin)]...)
	out = append(out, bytes.TrimSpace([]byte(text))...)
	out = append(out, '\n')
	return append(out, page[j:]...), nil
}
