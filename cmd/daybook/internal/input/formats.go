package input

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
	Lines        = "lines"
	formatNDJSON = "ndjson"
	CSV          = "csv"
)

var addFormats = []string{Lines, formatNDJSON, CSV}

// maxRowBytes bounds a row of a CSV file. An unclosed quote would otherwise turn the rest of the file into one row.
const maxRowBytes = 16 << 20

// FormatError is an error in a line of the input. Lines count from 1, including skipped ones.
type FormatError struct {
	Line int
	Err  error
}

func (e *FormatError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *FormatError) Unwrap() error { return e.Err }

// Format describes an input: it holds the flags that add and submit share.
type Format struct {
	Kind, delimiter string
	Comma           rune // the parsed delimiter
	given           bool // the delimiter was given as a flag
	SkipLines       int
	StripCR         bool
}

func (f *Format) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Kind, "format", Lines, "what the input is: "+strings.Join(addFormats, ", "))
	flags.StringVar(&f.delimiter, "delimiter", ",", "the character between the fields of a CSV file; \"tab\" is a tab")
	flags.IntVar(&f.SkipLines, "skip-lines", 0, "how many lines at the beginning are left out")
	flags.BoolVar(&f.StripCR, "strip-cr", false, "remove a carriage return at the end of each line")
	config.CompleteFlag(cmd, "format", func(*cobra.Command, string) []string { return addFormats })
}

// maxSkipLines bounds --skip-lines: headers are shorter.
const maxSkipLines = 1 << 20

// Check checks the flags, and parses the delimiter.
func (f *Format) Check(cmd *cobra.Command) error {
	if err := job.CheckRange("--skip-lines", int64(f.SkipLines), 0, maxSkipLines); err != nil {
		return terminal.Usage(err)
	}
	if !slices.Contains(addFormats, f.Kind) {
		return terminal.Usagef("--format must be one of %s, and not %q", strings.Join(addFormats, ", "), f.Kind)
	}
	if f.StripCR && f.Kind != Lines {
		return terminal.Usagef("--strip-cr is for --format lines; %s needs no such flag", f.Kind)
	}
	if f.Kind != CSV && cmd.Flags().Changed("delimiter") {
		return terminal.Usage(errors.New("--delimiter is for --format csv only"))
	}
	f.given = cmd.Flags().Changed("delimiter")
	text := f.delimiter
	if text == "tab" || text == `\t` {
		text = "\t"
	}
	var size int
	if f.Comma, size = utf8.DecodeRuneInString(text); size == 0 || size != len(text) || f.Comma == utf8.RuneError || strings.ContainsRune("\"\r\n", f.Comma) {
		return terminal.Usagef("--delimiter must be one character other than a quote and a newline, and not %q", f.delimiter)
	}
	return nil
}

// PayloadKind returns the kind of the payloads; if it is empty, the client derives the kind from the bytes.
func (f *Format) PayloadKind() client.Kind {
	if f.Kind == Lines {
		return client.None
	}
	return client.JSON
}

// LineReader is the input of `daybook add` as lines: the lines of the file or, in the other formats, one JSON value each.
type LineReader struct {
	raw    atomic.Int64 // bytes that were read from the file
	Made   atomic.Int64 // bytes of the lines that were made from them
	buffer []byte
	err    error
	next   func() ([]byte, error) // the next line with its newline; nil: the lines are the lines of the file
	from   io.Reader
}

// NewLineReader turns an input into lines.
func NewLineReader(in io.Reader, f *Format) (*LineReader, error) {
	a := &LineReader{}
	buffered := bufio.NewReader(&countedReader{Reader{in}, &a.raw})
	a.from = buffered
	for range f.SkipLines {
		if err := skipLine(buffered); err != nil {
			return nil, err
		}
	}
	if f.Kind == Lines {
		return a, nil
	}
	if start, err := buffered.Peek(3); err == nil && bytes.Equal(start, []byte("\xef\xbb\xbf")) { // a byte order mark
		if _, err := buffered.Discard(3); err != nil {
			return nil, err
		}
	}
	if f.Kind == formatNDJSON {
		a.next = values(buffered, f.SkipLines)
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
func (a *LineReader) Read(p []byte) (int, error) {
	if a.next == nil {
		n, err := a.from.Read(p)
		a.Made.Add(int64(n))
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
	a.Made.Add(int64(n))
	return n, nil
}

// FileBytes estimates from how many bytes of the file the first lines were made.
func (a *LineReader) FileBytes(lines int64) float64 {
	made := a.Made.Load()
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
				return nil, &FormatError{line, fmt.Errorf("the value has more than %d bytes, which is the maximum of a payload", job.MaxPayloadBytes)}
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
			if problem := CheckValue(value); problem != nil {
				return nil, &FormatError{line, problem}
			}
			return append(value, '\n'), err
		}
	}
}

// CheckValue checks that a text is one JSON value, as the server checks it.
func CheckValue(text []byte) error {
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
func rows(in io.Reader, f *Format) (func() ([]byte, error), error) {
	skipped := f.SkipLines
	limited := &rowReader{in: in}
	r := csv.NewReader(limited)
	r.Comma, r.ReuseRecord = f.Comma, true
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
		return nil, &FormatError{skipped + 1, err}
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
				return nil, &FormatError{skipped + line, fmt.Errorf("the field %s is not UTF-8", bytes.TrimSuffix(name, []byte{':'}))}
			}
		}
		if object = append(object, '}'); len(object) > job.MaxPayloadBytes {
			line, _ := r.FieldPos(0)
			return nil, &FormatError{skipped + line, fmt.Errorf("the row becomes an object of %d bytes; a payload has %d at most", len(object), job.MaxPayloadBytes)}
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
		return &FormatError{skipped + parse.StartLine, fmt.Errorf("the row has %s, and the header row has %d", terminal.NumberText(len(fields), "field", "fields"), columns)}
	case errors.Is(err, csv.ErrQuote):
		return &FormatError{skipped + parse.Line, fmt.Errorf("column %d: a quote inside a quoted field must be doubled, and a quoted field must end", parse.Column)}
	case errors.Is(err, csv.ErrBareQuote):
		return &FormatError{skipped + parse.Line, fmt.Errorf("column %d: a field with a quote must be quoted", parse.Column)}
	}
	return &FormatError{skipped + parse.Line, parse.Err}
}

// rowReader bounds how much a csv.Reader reads for one row.
type rowReader struct {
	in   io.Reader
	read int // since the row began
}

func (r *rowReader) begin() { r.read = 0 }

func (r *rowReader) Read(p []byte) (int, error) {
	if r.read > maxRowBytes {
		return 0, &Error{fmt.Errorf("a row has more than %d bytes; a quote at its beginning may not be closed", maxRowBytes)}
	}
	n, err := r.in.Read(p)
	r.read += n
	return n, err
}
