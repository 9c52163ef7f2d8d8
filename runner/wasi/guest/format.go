package guest

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// The header of WebAssembly: magic number, version, layer.
const (
	magic       = "\x00asm"
	headerBytes = 8
	// moduleLayer and componentLayer are the layers of modules and components.
	moduleLayer, componentLayer = 0, 1
)

// others are the names of other formats, with the bytes at the start of their files.
var others = []struct{ prefix, name string }{
	{"\x7fELF", "a program or library for Linux or another Unix (ELF)"},
	{"MZ", "a program or library for Windows (PE)"},
	{"\xcf\xfa\xed\xfe", "a program or library for macOS (Mach-O)"},
	{"\xca\xfe\xba\xbe", "a program for macOS (Mach-O) or a class of Java"},
	{"!<arch>\n", "a static library (ar)"},
	{"#!", "a script"},
	{"\x1f\x8b", "a file that is compressed with gzip"},
	{"\x28\xb5\x2f\xfd", "a file that is compressed with zstd"},
	{"PK\x03\x04", "a ZIP archive"},
	{"BC\xc0\xde", "bitcode of LLVM"},
	{"(module", "the text form of WebAssembly; assemble it first, for example with wat2wasm"},
	{"(component", "the text form of a component of WebAssembly"},
	{"<", "a document in HTML or XML"},
	{"{", "a document in JSON"},
}

// notModule returns a text that says why a file is not a binary module, as far as its header shows, or "".
func notModule(file []byte) string {
	if len(file) >= headerBytes && bytes.HasPrefix(file, []byte(magic)) {
		version, layer := binary.LittleEndian.Uint16(file[4:]), binary.LittleEndian.Uint16(file[6:])
		switch {
		case layer == componentLayer:
			return "it is a component of WebAssembly (WASI preview 2 or later), and only modules for WASI preview 1 can run; compile it for the target wasm32-wasip1"
		case layer != moduleLayer || version != 1:
			return fmt.Sprintf("it is WebAssembly of version %d and layer %d, and only modules of version 1 can run", version, layer)
		}
		return ""
	}
	const what = "it is not a module of WebAssembly"
	switch {
	case len(file) == 0:
		return what + ": the file is empty"
	case bytes.HasPrefix([]byte(magic), file), bytes.HasPrefix(file, []byte(magic)):
		return fmt.Sprintf("%s: the file ends after %d bytes, in the header", what, len(file))
	}
	for _, f := range others {
		if bytes.HasPrefix(file, []byte(f.prefix)) {
			return what + ", but " + f.name
		}
	}
	return fmt.Sprintf("%s: it begins with %q instead of %q", what, file[:min(len(file), headerBytes)], magic)
}
