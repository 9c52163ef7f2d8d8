package testkit

import (
	"errors"
	"fmt"
	"testing"
)

// recorder keeps the reports of one test.
type recorder struct {
	testing.TB
	fatal, reported []any
}

func (r *recorder) Helper()          {}
func (r *recorder) Fatal(why ...any) { r.fatal = append(r.fatal, why...) }
func (r *recorder) Error(why ...any) { r.reported = append(r.reported, why...) }

func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }

func TestErrors(t *testing.T) {
	var r recorder
	NoError(&r, nil)
	Check(&r, nil)
	if n := Must(7, nil)(&r); n != 7 || len(r.fatal)+len(r.reported) > 0 {
		t.Fatalf("without an error: %d, %v, %v", n, r.fatal, r.reported)
	}
	if n, s := Must2(7, "s", nil)(&r); n != 7 || s != "s" || len(r.fatal) > 0 {
		t.Fatalf("without an error: %d, %q, %v", n, s, r.fatal)
	}
	failed := errors.New("failed")
	NoError(&r, failed)
	Must(7, failed)(&r)
	Must2(7, "s", failed)(&r)
	Check(&r, failed)
	Check(&r, failed, "line", 3)
	if len(r.fatal) != 3 || len(r.reported) != 2 || r.reported[1] != "line 3: failed" {
		t.Errorf("with an error: %v, %v", r.fatal, r.reported)
	}
}
