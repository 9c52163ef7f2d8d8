package corruption

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// damage is one change to a fixture's files.
type damage struct {
	fixture *fixture
	kind    string
	file    string // or the directory of a volume
	at      int    // number of the bit, byte, sector, or variant
	other   string // the other file of a swap
}

func (d *damage) String() string {
	text := fmt.Sprintf("%s of %s: %s %d", d.fixture.name, d.file, d.kind, d.at)
	if d.other != "" {
		text += " with " + d.other
	}
	return text
}

// kinds are the kinds of damage, in the order of the report.
var kinds = []string{"flip a bit", "cut at a byte", "zero a sector", "double a sector", "append", "swap", "delete"}

// fileKind groups files for the report.
func fileKind(path string) string {
	base := filepath.Base(path)
	switch {
	case path == "journal/identity":
		return "journal identity"
	case strings.HasPrefix(path, "journal/"):
		return "journal segments"
	case strings.HasSuffix(base, ".sst"):
		return "store tables"
	case strings.HasPrefix(base, "MANIFEST"):
		return "store manifest"
	case strings.HasPrefix(base, "OPTIONS"):
		return "store options"
	case strings.HasPrefix(path, "store/"):
		return "store marks"
	}
	return "beside them"
}

const sectorBytes = 512

// damages lists all damages to f.
func (f *fixture) damages() (all []damage) {
	add := func(kind, file string, n int) {
		for at := range n {
			all = append(all, damage{fixture: f, kind: kind, file: file, at: at})
		}
	}
	for _, file := range slices.Sorted(maps.Keys(f.files)) {
		size := len(f.files[file])
		sectors := (size + sectorBytes - 1) / sectorBytes
		add("flip a bit", file, 8*size)
		add("cut at a byte", file, size)
		add("zero a sector", file, sectors)
		add("double a sector", file, max(sectors-1, 0))
		add("append", file, 3)
		add("delete", file, 1)
	}
	segments := f.segments()
	for _, group := range [][]string{segments, f.tables()} {
		for i := range group {
			for k := i + 1; k < len(group); k++ {
				all = append(all, damage{fixture: f, kind: "swap", file: group[i], other: group[k]})
			}
		}
	}
	volumes := map[string]bool{}
	for _, s := range segments {
		volumes[filepath.Dir(s)] = true
	}
	for _, v := range slices.Sorted(maps.Keys(volumes)) {
		add("delete", v, 1)
	}
	return all
}

func (f *fixture) tables() (names []string) {
	for path := range f.files {
		if strings.HasSuffix(path, ".sst") {
			names = append(names, path)
		}
	}
	slices.Sort(names)
	return names
}

// apply returns the files of the fixture with the damage, and whether the damage changed anything.
func (d *damage) apply() (files map[string][]byte, changed bool) {
	files = maps.Clone(d.fixture.files)
	data := bytes.Clone(files[d.file])
	switch d.kind {
	case "flip a bit":
		data[d.at/8] ^= 1 << (d.at % 8)
	case "cut at a byte":
		data = data[:d.at]
	case "zero a sector":
		clear(sector(data, d.at))
	case "double a sector":
		copy(sector(data, d.at+1), sector(data, d.at))
	case "append":
		switch d.at {
		case 0:
			data = append(data, make([]byte, 4096)...)
		case 1:
			data = append(data, "garbage that nobody wrote here\n"...)
		case 2:
			data = append(data, data[max(0, len(data)-100):]...)
		}
	case "swap":
		files[d.file], files[d.other] = files[d.other], files[d.file]
		return files, !bytes.Equal(files[d.file], files[d.other])
	case "delete":
		maps.DeleteFunc(files, func(path string, _ []byte) bool { return path == d.file || strings.HasPrefix(path, d.file+"/") })
		return files, true
	}
	changed = !bytes.Equal(data, files[d.file])
	files[d.file] = data
	return files, changed
}

// reaches reports whether the damage touches bytes from … to of a file.
func (d *damage) reaches(file string, from, to int) bool {
	if file != d.file && file != d.other {
		return d.kind == "delete" && strings.HasPrefix(file, d.file+"/")
	}
	switch d.kind {
	case "flip a bit":
		return from <= d.at/8 && d.at/8 < to
	case "cut at a byte":
		return to > d.at
	case "zero a sector":
		return from < (d.at+1)*sectorBytes && to > d.at*sectorBytes
	case "double a sector":
		return from < (d.at+2)*sectorBytes && to > (d.at+1)*sectorBytes
	case "append":
		return false
	}
	return true
}

// mayMiss reports whether the last n records may be missing after this damage: it touches the first of them, and no
// untouched record proves that record. The damage may also touch earlier records, as a swap of two segments does. These
// must not be missing, and are not: a store that has applied them does not read them again.
func (d *damage) mayMiss(n int) bool {
	places := d.fixture.places
	if n < 1 || n > len(places) {
		return false
	}
	first := places[len(places)-n]
	if !d.reaches(first.file, first.from, first.to) {
		return false
	}
	return !slices.ContainsFunc(places, func(r record) bool {
		return r.synced >= first.seq && !d.reaches(r.file, r.from, r.to)
	})
}

func sector(data []byte, i int) []byte {
	return data[min(i*sectorBytes, len(data)):min((i+1)*sectorBytes, len(data))]
}
