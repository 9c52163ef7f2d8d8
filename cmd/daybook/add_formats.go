package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// The formats of the input of `daybook add` and `daybook submit`.
const (
	formatLines  = "lines"
	formatNDJSON = "ndjson"
	formatCSV    = "csv"
)

var addFormats = []string{formatLines, formatNDJSON, formatCSV}

// maxRowBytes bounds a row of a CSV file. An unclosed quote would otherwise turn the rest of the file into one row.
const maxRowBytes = 16 << 20

// formatError is an error in a line of the input. Lines count from 1, including skipped ones.
type formatError struct {
	line int
	err  error
}

func (e *formatError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *formatError) Unwrap() error { return e.err }

// inputFormat describes an input: it holds the flags that add and submit share.
type inputFormat struct {
	format, delimiter string
	comma             rune // the parsed delimiter
	given             bool // the delimiter was given as a flag
	skipLines         int
	stripCR           bool
}

func (f *inputFormat) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", formatLines, "what the input is: "+strings.Join(addFormats, ", "))
	flags.StringVar(&f.delimiter, "delimiter", ",", "the character between the fields of a CSV file; \"tab\" is a tab")
	flags.IntVar(&f.skipLines, "skip-lines", 0, "how many lines at the beginning are left out")
	flags.BoolVar(&f.stripCR, "strip-cr", false, "remove a carriage return at the end of each line")
	config.CompleteFlag(cmd, "format", func(*cobra.Command, string) []string { return addFormats })
}

// maxSkipLines bounds --skip-lines: headers are shorter.
const maxSkipLines = 1 << 20

// Check checks the flags, and parses the delimiter.
func (f *inputFormat) Check(cmd *cobra.Command) error {
	if err := job.CheckRange("--skip-lines", int64(f.skipLines), 0, maxSkipLines); err != nil {
		return terminal.Usage(err)
	}
	if !slices.Contains(addFormats, f.format) {
		return terminal.Usagef("--format must be one of %s, and not %q", strings.Join(addFormats, ", "), f.format)
	}
	if f.stripCR && f.format != formatLines {
		return terminal.Usagef("--strip-cr is for --format lines; %s needs no such flag", f.format)
	}
	if f.format != formatCSV && cmd.Flags().Changed("delimiter") {
		return terminal.Usage(errors.New("--delimiter is for --format csv only"))
	}
	f.given = cmd.Flags().Changed("delimiter")
	text := f.delimiter
	if text == "tab" || text == `\t` {
		text = "\t"
	}
	var size int
	if f.comma, size = utf8.DecodeRuneInString(text); size == 0 || size != len(text) || f.comma == utf8.RuneError || strings.ContainsRune("\"\r\n", f.comma) {
		return terminal.Usagef("--delimiter must be one character other than a quote and a newline, and not %q", f.delimiter)
	}
	return nil
}

// kind returns the kind of the payloads; if it is empty, the client derives the kind from the bytes.
func (f *inputFormat) kind() client.Kind {
	if f.format == formatLines {
		return client.None
	}
	return client.JSON
}

// addInput is the input of `daybook add` as lines: the lines of the file or, in the other formats, one JSON value each.
type addInput struct {
	raw    atomic.Int64 // bytes that were read from the file
	made   atomic.Int64 // bytes of the lines that were made from them
	buffer []byte
	err    error
	next   func() ([]byte, error) // the next line with its newline; nil: the lines are the lines of the file
	from   io.Reader
}

// newAddInput turns an input into lines.
func newAddInput(in io.Reader, f *inputFormat) (*addInput, error) {
	a := &addInput{}
	buffered := bufio.NewReader(&countedReader{inputReader{in}, &a.raw})
	a.from = buffered
	for range f.skipLines {
		if err := skipLine(buffered); err != nil {
			return nil, err
		}
	}
	if f.format == formatLines {
		return a, nil
	}
	if start, err := buffered.Peek(3); err == nil && bytes.Equal(start, []byte("\xef\xbb\xbf")) { // a byte order mark
		if _, err := buffered.Discard(3); err != nil {
			return nil, err
		}
	}
	if f.format == formatNDJSON {
		a.next = values(buffered, f.skipLines)
		return a, nil
	}
	var err error
	a.next, err = rows(buffered, f)
	return a, err
}

func skipLine(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if err == nil || err == io.EOF {
			return nil
		}
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}

// Read returns the bytes of the lines.
func (a *addInput) Read(p []byte) (int, error) {
	if a.next == nil {
		n, err := a.from.Read(p)
		a.made.Add(int64(n))
		return n, err
	}
	for len(a.buffer) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		a.buffer, a.err = a.next()
	}
	n := copy(p, a.buffer)
	a.buffer = a.buffer[n:]
	a.made.Add(int64(n))
	return n, nil
}

// fileBytes estimates from how many bytes of the file the first lines were made.
func (a *addInput) fileBytes(lines int64) float64 {
	made := a.made.Load()
	if made == 0 {
		return 0
	}
	return float64(a.raw.Load()) * float64(lines) / float64(made)
}

type countedReader struct {
	io.Reader
	n *atomic.Int64
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// maxValueLine bounds a line of NDJSON: a payload, and white space around it.
const maxValueLine = job.MaxPayloadBytes + 64<<10

// values returns the lines of an input, each of which must be a JSON value.
func values(in *bufio.Reader, line int) func() ([]byte, error) {
	var text []byte
	return func() ([]byte, error) {
		line++
		text = text[:0]
		for {
			part, err := in.ReadSlice('\n')
			text = append(text, part...)
			if len(text) > maxValueLine { // also white space, so that the memory is bounded
				return nil, &formatError{line, fmt.Errorf("the value has more than %d bytes, which is the maximum of a payload", job.MaxPayloadBytes)}
			}
			if err == bufio.ErrBufferFull {
				continue
			}
			if err != nil && err != io.EOF {
				return nil, err
			}
			value := bytes.TrimSpace(text)
			if len(value) == 0 {
				return nil, err
			}
			if problem := checkValue(value); problem != nil {
				return nil, &formatError{line, problem}
			}
			return append(value, '\n'), err
		}
	}
}

// checkValue checks that a text is one JSON value, as the server checks it.
func checkValue(text []byte) error {
	if jsontext.Value(text).IsValid() {
		return nil
	}
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8")
	}
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := d.ReadValue(); err != nil {
		return fmt.Errorf("it is not a JSON value: %s", jsonProblem(err))
	}
	return errors.New("there is more than one JSON value")
}

// jsonProblem describes an error in a JSON value, without the names of the package that found it.
func jsonProblem(err error) string {
	wrong, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	case !ok:
		return err.Error()
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Sprintf("the object has two members with the name %q", wrong.JSONPointer.LastToken())
	}
	return fmt.Sprintf("%s after %s", strings.TrimPrefix(wrong.Err.Error(), "jsontext: "), terminal.NumberText(wrong.ByteOffset, "byte", "bytes"))
}

// rows returns the rows of a CSV file as JSON objects. The first row has the names of their members.
func rows(in io.Reader, f *inputFormat) (func() ([]byte, error), error) {
	skipped := f.skipLines
	limited := &rowReader{in: in}
	r := csv.NewReader(limited)
	r.Comma, r.ReuseRecord = f.comma, true
	names, err := r.Read()
	if err == io.EOF {
		return func() ([]byte, error) { return nil, io.EOF }, nil
	}
	if err != nil {
		return nil, csvError(err, skipped, 0, nil)
	}
	header, err := quotedNames(names)
	if other := strings.IndexAny(names[0], ";\t|"); err == nil && len(names) == 1 && other >= 0 && !f.given {
		name := string(names[0][other])
		if name == "\t" {
			name = "tab"
		}
		err = fmt.Errorf("the header row has one column, %q: give --delimiter '%s' if that is what separates the columns, or --delimiter , if there is one column", names[0], name)
	}
	if err != nil {
		return nil, &formatError{skipped + 1, err}
	}
	r.FieldsPerRecord = len(header)
	var object []byte
	return func() ([]byte, error) {
		limited.begin()
		fields, err := r.Read()
		if err == io.EOF {
			return nil, err
		}
		if err != nil {
			return nil, csvError(err, skipped, len(header), fields)
		}
		object = append(object[:0], '{')
		for i, name := range header {
			if i > 0 {
				object = append(object, ',')
			}
			if object, err = jsontext.AppendQuote(append(object, name...), fields[i]); err != nil {
				line, _ := r.FieldPos(i)
				return nil, &formatError{skipped + line, fmt.Errorf("the field %s is not UTF-8", bytes.TrimSuffix(name, []byte{':'}))}
			}
		}
		if object = append(object, '}'); len(object) > job.MaxPayloadBytes {
			line, _ := r.FieldPos(0)
			return nil, &formatError{skipped + line, fmt.Errorf("the row becomes an object of %d bytes; a payload has %d at most", len(object), job.MaxPayloadBytes)}
		}
		return append(object, '\n'), nil
	}, nil
}

// quotedNames returns the names of a header row, each in the form in which it begins a member of an object.
func quotedNames(names []string) ([][]byte, error) {
	quoted := make([][]byte, len(names))
	for i, name := range names {
		if name == "" {
			return nil, fmt.Errorf("column %d of the header row has no name", i+1)
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("two columns of the header row have the name %q", name)
		}
		text, err := jsontext.AppendQuote(nil, name)
		if err != nil {
			return nil, fmt.Errorf("the name of column %d of the header row is not UTF-8", i+1)
		}
		quoted[i] = append(text, ':')
	}
	return quoted, nil
}

// csvError adds the line to an error of encoding/csv.
func csvError(err error, skipped, columns int, fields []string) error {
	parse, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, csv.ErrFieldCount):
		return &formatError{skipped + parse.StartLine, fmt.Errorf("the row has %s, and the header row has %d", terminal.NumberText(len(fields), "field", "fields"), columns)}
	case errors.Is(err, csv.ErrQuote):
		return &formatError{skipped + parse.Line, fmt.Errorf("column %d: a quote inside a quoted field must be doubled, and a quoted field must end", parse.Column)}
	case errors.Is(err, csv.ErrBareQuote):
		return &formatError{skipped + parse.Line, fmt.Errorf("column %d: a field with a quote must be quoted", parse.Column)}
	}
	return &formatError{skipped + parse.Line, parse.Err}
}

// rowReader bounds how much a csv.Reader reads for one row.
type rowReader struct {
	in   io.Reader
	read int // since the row began
}

func (r *rowReader) begin() { r.read = 0 }

func (r *rowReader) Read(p []byte) (int, error) {
	if r.read > maxRowBytes {
		return 0, &inputError{fmt.Errorf("a row has more than %d bytes; a quote at its beginning may not be closed", maxRowBytes)}
	}
	n, err := r.in.Read(p)
	r.read += n
	return n, err
}
