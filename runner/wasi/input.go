package wasi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/wasi/guest"
)

// input is the stdin of a guest.
type input struct {
	first []byte        // the beginning
	rest  io.ReadCloser // the rest, or nil
}

// openInput opens the input of a job: the blob at its input_addr, or otherwise the payload.
func (p *Pool) openInput(ctx context.Context, j *client.Job) (*input, error) {
	var from io.ReadCloser = io.NopCloser(bytes.NewReader(j.Payload))
	if j.InputAddr == "" {
		if len(j.Payload) <= guest.MaxPartBytes {
			return &input{first: j.Payload}, nil
		}
	} else {
		var err error
		if from, err = p.open(ctx, "input_addr", j.Client, j.InputAddr); err != nil {
			return nil, err
		}
	}
	first := make([]byte, guest.MaxPartBytes)
	n, err := io.ReadFull(from, first)
	switch {
	case err == nil:
		return &input{first, from}, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && n > 0 && ended(from):
		return &input{first: first[:n]}, from.Close()
	}
	from.Close() // report the first error
	return nil, inputError(j, err)
}

// ended reports whether a reader is at its end. io.ReadFull returns io.ErrUnexpectedEOF for a broken connection, too.
func ended(r io.Reader) bool {
	n, err := r.Read(make([]byte, 1))
	return n == 0 && err == io.EOF
}

// inputError wraps an error of reading the input.
func inputError(j *client.Job, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = &awayError{err}
	}
	return blobError(fmt.Sprintf("input_addr: read blob %s", j.InputAddr), err)
}

func (in *input) close() {
	if in.rest != nil {
		in.rest.Close() // its error no longer matters
	}
}
