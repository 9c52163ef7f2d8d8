package guest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
)

// Variable is the environment variable that makes the binary run this package's process.
const Variable = "DAYBOOK_WASI_GUEST"

// Modes are the first argument of a process. The second argument of mode run is the directory of the cache, and its third
// the version of the compiler. Mode compile gets the file of the module and an empty directory.
const (
	ModeRun     = "run"
	ModeCompile = "compile"
)

// ExitMachine is the exit status of a compilation if this machine lacks memory or disk space.
const ExitMachine = 3

// Kinds of frames.
const (
	Run byte = iota + 1
	RunStream
	Input
	Answer
	Output
	Errors
	Credit
	Request
	Done
)

const (
	// MaxFrameBytes bounds the content of a frame. Only requests and their answers are long.
	MaxFrameBytes = 16 << 20
	// MaxPartBytes bounds a part of an input or output.
	MaxPartBytes = 64 << 10
	// Window bounds the bytes of input that were sent but not yet credited.
	Window = 256 << 10
	// StderrBytes is how many of the last bytes of stderr are kept.
	StderrBytes = 8 << 10
	// maxTextBytes bounds the text of a Result.
	maxTextBytes = 16 << 10

	frameHeader = 9
)

// Spec describes a run. Modules are named by their SHA-256, in hex.
type Spec struct {
	Module     string            `json:"module"`
	Extensions map[string]string `json:"extensions,omitempty"` // modules, by the names under which they are imported
	// MemoryBytes bounds the sum of the memories of the guest and its extensions.
	MemoryBytes int64 `json:"memory_bytes"`
	Proc        bool  `json:"proc,omitzero"` // the guest may read /proc
	HTTP        bool  `json:"http,omitzero"` // the guest may send requests
}

// End is the kind of a run's end.
type End byte

const (
	Exit   End = iota + 1 // with a status, which is 0 if _start returned
	Trap                  // by an error of the guest
	Load                  // a module could not be read from the cache
	Link                  // a module could not be instantiated
	Memory                // a module needs more initial memory than the run may have
	NoProc                // this machine has no /proc
	Lack                  // this machine lacks file descriptors, or memory within the limit of the run
)

// Result describes the end of a run. Stderr and Output have the bytes that were not sent before.
type Result struct {
	End    End
	Code   uint32 // exit status, for Exit
	Text   string // error message
	Stderr []byte
	Output []byte
}

// Append appends the encoded result, the content of a frame, to b.
func (r *Result) Append(b []byte) []byte {
	text := r.Text[:min(len(r.Text), maxTextBytes)]
	b = append(b, byte(r.End))
	b = binary.LittleEndian.AppendUint32(b, r.Code)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = append(b, text...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Stderr)))
	b = append(b, r.Stderr...)
	return append(b, r.Output...)
}

var errResult = errors.New("the content of the frame is no result")

// Decode is the inverse of Append. Stderr and Output are parts of b.
func (r *Result) Decode(b []byte) error {
	if len(b) < 9 {
		return errResult
	}
	r.End, r.Code = End(b[0]), binary.LittleEndian.Uint32(b[1:])
	text, b, ok := cutBytes(b[5:])
	if !ok {
		return errResult
	}
	if r.Stderr, b, ok = cutBytes(b); !ok {
		return errResult
	}
	r.Text, r.Output = string(text), b
	return nil
}

// cutBytes cuts bytes that are preceded by their length.
func cutBytes(b []byte) (cut, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n, b := binary.LittleEndian.Uint32(b), b[4:]
	if uint64(n) > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// AppendSpec appends a spec after its length: the beginning of a Run or RunStream frame. The input follows.
func AppendSpec(b []byte, s *Spec) ([]byte, error) {
	text, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return b, err
	}
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...), nil
}

// AppendFrame appends a frame whose content is the concatenated parts.
func AppendFrame(b []byte, kind byte, run uint32, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint32(b, run)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// Reader reads frames.
type Reader struct {
	r       *bufio.Reader
	content []byte
}

// NewReader returns a reader of frames.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, MaxPartBytes)} }

// Frame is a frame that Reader.Next returned. Content is valid until the next call of Next.
type Frame struct {
	Kind    byte
	Run     uint32
	Content []byte
}

// Next returns the next frame, or an error if the stream ends or has a frame that is too long.
func (r *Reader) Next() (f Frame, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r.r, header[:]); err != nil {
		return f, err
	}
	f.Kind, f.Run = header[0], binary.LittleEndian.Uint32(header[1:])
	n := binary.LittleEndian.Uint32(header[5:])
	if n > MaxFrameBytes {
		return f, fmt.Errorf("a frame has %d bytes; the maximum is %d", n, MaxFrameBytes)
	}
	if int(n) > cap(r.content) || cap(r.content) > 1<<20 && n < 1<<16 { // do not keep the memory of a long frame
		r.content = make([]byte, max(n, 4<<10))
	}
	f.Content = r.content[:n]
	_, err = io.ReadFull(r.r, f.Content)
	return f, err
}
