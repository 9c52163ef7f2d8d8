package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

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
		file := testkit.Must(os.ReadFile(path))(t)
		testkit.Equal(t, notModule(file), "", path)
	}
}
