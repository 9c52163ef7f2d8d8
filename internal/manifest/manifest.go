package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/daybookq/daybook/job/handler"
)

// manifest has a field for each key.
type manifest struct {
	Name                string   `toml:"name"`
	Namespace           string   `toml:"namespace"`
	Version             string   `toml:"version"`
	Binary              string   `toml:"binary"`
	Description         string   `toml:"description"`
	RequiredExtensions  []string `toml:"required_extensions"`
	RequiredPermissions []string `toml:"required_permissions"`
}

// MaxBytes bounds a manifest.
const MaxBytes = 1 << 20

// Parse converts a manifest to a handler of kind wasi. The caller must call Check. Binary is the text of the key, which
// may be a path if the manifest is a runner's file. The error is a *handler.FieldError for an unknown key. Other errors
// name the line.
func Parse(text []byte) (handler.Document, error) {
	if len(text) > MaxBytes {
		return handler.Document{}, fmt.Errorf("the manifest has %d bytes; the maximum is %d", len(text), MaxBytes)
	}
	var m manifest
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&m); err != nil {
		if unknown, ok := errors.AsType[*toml.StrictMissingError](err); ok {
			key := strings.Join(unknown.Errors[0].Key(), ".")
			return handler.Document{}, &handler.FieldError{Field: key, Text: key + " is no key of a manifest"}
		}
		if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, _ := wrong.Position()
			return handler.Document{}, fmt.Errorf("line %d of the manifest: %s", line, strings.TrimPrefix(wrong.Error(), "toml: "))
		}
		return handler.Document{}, fmt.Errorf("the manifest is not TOML: %w", err)
	}
	return handler.Document{
		Kind: handler.WASI, Name: m.Name, Namespace: m.Namespace, Version: m.Version, Description: m.Description, Binary: m.Binary,
		RequiredExtensions: m.RequiredExtensions, RequiredPermissions: m.RequiredPermissions,
	}, nil
}
