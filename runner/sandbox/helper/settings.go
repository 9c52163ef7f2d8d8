//go:build linux

package helper

// Settings are the runner's instructions to the helper. Descriptors are numbers in the helper; -1 means none.
type Settings struct {
	Path      string // path of the program's file
	Argv, Env []string
	Dir       string

	// FirstFile is the descriptor that becomes the program's descriptor 3. Files is the number of such descriptors.
	FirstFile, Files int64

	// Ruleset is a landlock ruleset, to which the helper adds its new /proc.
	Ruleset int64
	// CgroupKill is the file cgroup.kill of the helper's and the program's cgroup.
	CgroupKill int64

	// MountProc mounts a new /proc for the helper's PID namespace. ProcAccess is the access that landlock allows there.
	MountProc  bool
	ProcAccess uint64
	// Sweep makes the helper find and end the program's remaining descendants.
	Sweep bool

	// Capabilities is the set of capabilities that the program may keep, as bits.
	Capabilities uint64
	Limits       []Limit
	// Filter is a seccomp filter: instructions of eight bytes, in the kernel's layout.
	Filter []uint64
}

// Limit is a resource limit.
type Limit struct {
	Resource int64
	Value    uint64
}

// maxSettings bounds the settings. The kernel accepts at most 6 MiB of arguments and environment.
const maxSettings = 8 << 20

// Append appends the settings as bytes: first their length, then numbers of eight bytes each, and texts with their
// lengths.
func (s *Settings) Append(b []byte) []byte {
	start := len(b)
	b = appendNumber(b, 0)
	b = appendText(b, s.Path)
	b = appendTexts(b, s.Argv)
	b = appendTexts(b, s.Env)
	b = appendText(b, s.Dir)
	for _, n := range []int64{s.FirstFile, s.Files, s.Ruleset, s.CgroupKill, number(s.MountProc), int64(s.ProcAccess), number(s.Sweep), int64(s.Capabilities), int64(len(s.Limits))} {
		b = appendNumber(b, uint64(n))
	}
	for _, l := range s.Limits {
		b = appendNumber(b, uint64(l.Resource))
		b = appendNumber(b, l.Value)
	}
	b = appendNumber(b, uint64(len(s.Filter)))
	for _, instruction := range s.Filter {
		b = appendNumber(b, instruction)
	}
	appendNumber(b[start:start], uint64(len(b)-start-8))
	return b
}

// Decode is the inverse of Append, without the length. It returns false if b is invalid.
func (s *Settings) Decode(b []byte) bool {
	d := decoder{b, true}
	s.Path, s.Argv, s.Env, s.Dir = d.text(), d.texts(), d.texts(), d.text()
	s.FirstFile, s.Files, s.Ruleset, s.CgroupKill = int64(d.number()), int64(d.number()), int64(d.number()), int64(d.number())
	s.MountProc, s.ProcAccess, s.Sweep, s.Capabilities = d.number() != 0, d.number(), d.number() != 0, d.number()
	for range d.count(16) {
		s.Limits = append(s.Limits, Limit{int64(d.number()), d.number()})
	}
	for range d.count(8) {
		s.Filter = append(s.Filter, d.number())
	}
	return d.ok && len(d.b) == 0
}

func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func appendNumber(b []byte, n uint64) []byte {
	for range 8 {
		b = append(b, byte(n))
		n >>= 8
	}
	return b
}

func appendText(b []byte, s string) []byte { return append(appendNumber(b, uint64(len(s))), s...) }

func appendTexts(b []byte, texts []string) []byte {
	b = appendNumber(b, uint64(len(texts)))
	for _, s := range texts {
		b = appendText(b, s)
	}
	return b
}

// decoder reads the encoding that the functions above write. After a missing byte, ok is false and all values are zero.
type decoder struct {
	b  []byte
	ok bool
}

func (d *decoder) number() (n uint64) {
	if len(d.b) < 8 {
		d.b, d.ok = nil, false
		return 0
	}
	for i := range 8 {
		n |= uint64(d.b[i]) << (8 * i)
	}
	d.b = d.b[8:]
	return n
}

// count reads the number of following values, each of which has at least size bytes.
func (d *decoder) count(size int) int {
	n := d.number()
	if n > uint64(len(d.b)/size) {
		d.b, d.ok = nil, false
		return 0
	}
	return int(n)
}

func (d *decoder) text() string {
	n := d.count(1)
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) texts() []string {
	texts := make([]string, 0, d.count(8))
	for range cap(texts) {
		texts = append(texts, d.text())
	}
	return texts
}
