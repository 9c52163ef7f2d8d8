package guest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

func TestResult(t *testing.T) {
	for _, r := range []Result{
		{End: Exit, Stderr: []byte{}, Output: []byte{}},
		{End: Exit, Code: 1<<32 - 1, Text: "text", Stderr: []byte("stderr"), Output: []byte("output\x00\xff")},
	} {
		var got Result
		err := got.Decode(r.Append(nil))
		testkit.Holds(t, err == nil && reflect.DeepEqual(got, r), r, "decoded", got, err)
	}
	long := Result{End: Trap, Text: strings.Repeat("x", 2*maxTextBytes)}
	var got Result
	err := got.Decode(long.Append(nil))
	testkit.Holds(t, err == nil && len(got.Text) == maxTextBytes, "a text of", len(got.Text), "bytes", err)
}

func FuzzResult(f *testing.F) {
	f.Add((&Result{End: Exit, Code: 1, Text: "text", Stderr: []byte("stderr"), Output: []byte("output")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Result
		testkit.Holds(t, r.Decode(b) != nil || len(r.Text) > maxTextBytes || bytes.Equal(r.Append(nil), b), r, "has another encoding than", string(b))
	})
}

func FuzzReader(f *testing.F) {
	f.Add(AppendFrame(AppendFrame(nil, Run, 1, []byte("a"), []byte("bc")), Input, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, n := NewReader(bytes.NewReader(b)), 0
		for {
			frame, err := r.Next()
			if err != nil {
				testkit.Holds(t, err != io.EOF || n == len(b), n, "of", len(b), "bytes were frames")
				return
			}
			again := AppendFrame(nil, frame.Kind, frame.Run, frame.Content)
			if !bytes.Equal(again, b[n:n+len(again)]) {
				t.Errorf("%v has another encoding than %q", frame, b[n:])
			}
			n += len(again)
		}
	})
}

// TestMemory: memories of a run share its limit, and the next run gets zeros.
func TestMemory(t *testing.T) {
	var p pages
	a := &account{pages: &p, limit: 3 << 16}
	first, second := a.Allocate(0, 4<<30), a.Allocate(0, 4<<30)
	b := first.Reallocate(1 << 16)
	testkit.MustEqual(t, len(b), 1<<16, "bytes")
	b[0] = 1
	b = first.Reallocate(2 << 16)
	testkit.MustHold(t, len(b) == 2<<16 && b[0] == 1, len(b), "bytes, the first is", b[0])
	testkit.Holds(t, second.Reallocate(1<<16) != nil && second.Reallocate(2<<16) == nil &&
		first.Reallocate(3<<16) == nil && a.refused, "the limit does not hold")
	a.free()
	testkit.Equal(t, a.used, 0, "bytes are left")
	next := &account{pages: &p, limit: 3 << 16}
	b = next.Allocate(0, 4<<30).Reallocate(3 << 16)
	testkit.Holds(t, len(b) == 3<<16 && b[0] == 0, "the next run finds what the last one wrote")
	next.free()
}

// TestNotModule: the text names the format of a file that is not a module.
func TestNotModule(t *testing.T) {
	self := testkit.Must(os.Executable())(t)
	program := testkit.Must(os.ReadFile(self))(t)
	for _, c := range []struct{ file, text string }{
		{"", "the file is empty"},
		{"\x00as", "the file ends after 3 bytes"},
		{"\x00asm\x01\x00\x00", "the file ends after 7 bytes"},
		{"\x00asm\x0d\x00\x01\x00", "component of WebAssembly"},
		{"\x00asm\x02\x00\x00\x00", "version 2 and layer 0"},
		{"\x00asm\x01\x00\x02\x00", "version 1 and layer 2"},
		{string(program), "a program or library for"},
		{"#!/bin/sh\nexit\n", "a script"},
		{"\x1f\x8b\x08", "gzip"},
		{"(module)", "the text form of WebAssembly"},
		{"<!DOCTYPE html>", "HTML"},
		{"hello, world", `it begins with "hello, w" instead of "\x00asm"`},
		{"\xff", `it begins with "\xff"`},
	} {
		text := notModule([]byte(c.file))
		testkit.Holds(t, strings.Contains(text, c.text), c.file, text, "want a text with", c.text)
	}
	modules, err := filepath.Glob("../testdata/*.wasm")
	testkit.MustHold(t, err == nil && len(modules) != 0, modules, err)
	for _, path := range modules {
		testkit.Equal(t, notModule(testkit.Must(os.ReadFile(path))(t)), "", path)
	}
}

// TestOfMachine: ofMachine recognizes errors of the machine, but not a module's names, which errors quote.
func TestOfMachine(t *testing.T) {
	for _, c := range []struct {
		err     error
		machine bool
	}{
		{&os.PathError{Op: "write", Path: "a", Err: syscall.ENOSPC}, true},
		{fmt.Errorf("compile: %w", syscall.ENOMEM), true},
		{errors.New("compilationcache: error mmapping executable (len=100): " + syscall.ENOMEM.Error()), true},
		{&os.PathError{Op: "write", Path: "a", Err: syscall.EFBIG}, false},
		{errors.New("the export compilationcache: error mmapping " + syscall.ENOMEM.Error()), false},
		{errors.New(syscall.ENOMEM.Error()), false},
	} {
		testkit.Equal(t, ofMachine(c.err), c.machine, c.err)
	}
}

// TestCompileErrors: a wrong path is not taken for an error of the machine.
func TestCompileErrors(t *testing.T) {
	dir := t.TempDir()
	err := compile(filepath.Join(dir, "none.wasm"), dir)
	testkit.Holds(t, err != nil && !errors.Is(err, errMachine), "no module", err)
	file := []byte("\x00asm\x01\x00\x00\x00")
	sum := sha256.Sum256(file)
	path := filepath.Join(dir, hex.EncodeToString(sum[:])+Suffix)
	testkit.NoError(t, os.WriteFile(path, file, 0o600))
	err = compile(path, filepath.Join(path, "below a file"))
	testkit.Holds(t, err != nil && !errors.Is(err, errMachine), "no directory", err)
}
