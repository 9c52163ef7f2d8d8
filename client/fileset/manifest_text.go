package fileset

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// format is the number of the manifest's format. A new format would get a new number, so that programs that do not know
// it refuse it.
const format = 1

// document is the text form of a manifest.
type document struct {
	Format           int      `json:"format"`
	Files            []File   `json:"files"`
	EmptyDirectories []string `json:"empty_directories,omitempty"`
}

// Encode sorts the manifest and returns its canonical text. It fails if Check fails, or with ErrTooLarge if the text is
// longer than MaxManifestBytes.
func (m *Manifest) Encode() ([]byte, error) {
	m.Sort()
	if err := m.Check(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(document{format, m.Files, m.EmptyDirectories})
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	if err := checkLength(text); err != nil {
		return nil, err
	}
	return text, nil
}

// Decode reads the text of a manifest. It accepts white space, and files in any order, and sorts the result. The error
// wraps ErrManifest, ErrPath or ErrTooLarge.
func Decode(text []byte) (*Manifest, error) {
	if err := checkLength(text); err != nil {
		return nil, err
	}
	var d document
	if err := json.Unmarshal(text, &d, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if d.Format != format {
		return nil, fmt.Errorf("%w: its format is %d, and this program reads format %d", ErrManifest, d.Format, format)
	}
	m := &Manifest{d.Files, d.EmptyDirectories}
	m.Sort()
	if err := m.Check(); err != nil {
		return nil, err
	}
	return m, nil
}

func checkLength(text []byte) error {
	if len(text) > MaxManifestBytes {
		return fmt.Errorf("%w: the manifest has %d bytes; the maximum is %d", ErrTooLarge, len(text), MaxManifestBytes)
	}
	return nil
}
