package opsqueue

import (
	"bytes"
	"io"
	"os"
	"syscall"
	"testing"
)

// newPipe returns a pipe: its end to read from, and a PortPipe that owns the other end.
func newPipe(t *testing.T) (*os.File, *PortPipe) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	// The PortPipe closes its descriptor, so it gets one of its own.
	descriptor, err := syscall.Dup(int(writer.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	pipe, err := NewPortPipe(descriptor)
	if err != nil {
		t.Fatal(err)
	}
	return reader, pipe
}

func TestPortPipe(t *testing.T) {
	for port, want := range map[uint16][]byte{3999: {0x0f, 0x9f}, 1: {0, 1}, 65535: {255, 255}} {
		reader, pipe := newPipe(t)
		if err := pipe.Report(port); err != nil {
			t.Error(err)
		}
		if err := pipe.Close(); err != nil {
			t.Errorf("Close after Report: %v", err)
		}
		if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, want) {
			t.Errorf("port %d is % x, %v", port, got, err)
		}
	}
	t.Run("a start that fails writes nothing", func(t *testing.T) {
		reader, pipe := newPipe(t)
		if err := pipe.Close(); err != nil {
			t.Error(err)
		}
		if err := pipe.Report(1); err != nil {
			t.Errorf("Report after Close: %v", err)
		}
		if got, err := io.ReadAll(reader); err != nil || len(got) > 0 {
			t.Errorf("% x, %v", got, err)
		}
	})
	t.Run("nobody reads", func(t *testing.T) {
		reader, pipe := newPipe(t)
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
		if err := pipe.Report(1); err == nil {
			t.Error("no error")
		}
	})
	t.Run("off", func(t *testing.T) {
		pipe, err := NewPortPipe(-1)
		if pipe != nil || err != nil {
			t.Fatalf("%v, %v", pipe, err)
		}
		if err := pipe.Report(1); err != nil {
			t.Error(err)
		}
		if err := pipe.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("not open", func(t *testing.T) {
		if pipe, err := NewPortPipe(1 << 20); err == nil {
			t.Errorf("%v", pipe)
		}
	})
}
