// Command release builds the archives of a release. The archive for each system has the static program with its licences,
// manual pages and shell completions. Beside each archive is a list of the program's parts (SBOM, CycloneDX), and
// SHA256SUMS covers everything. The same commit and Go version give the same bytes, in any directory and at any time.
// `make release` runs it.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// defaultSystems are the operating systems and processors of a release.
const defaultSystems = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// release describes the release to build.
type release struct {
	out, version, commit string
	epoch                int64  // time of all files, unix s
	sbom                 string // path of cyclonedx-gomod; "" to skip the lists of parts
}

func main() {
	var r release
	flag.StringVar(&r.out, "out", "bin/release", "directory of the archives; what it has of an earlier release is removed")
	flag.StringVar(&r.version, "version", "", "version of the release")
	flag.StringVar(&r.commit, "commit", "", "commit of the release")
	flag.Int64Var(&r.epoch, "epoch", 0, "time of the commit, in seconds since 1970: the time of all files")
	flag.StringVar(&r.sbom, "sbom", "", "path of cyclonedx-gomod, which lists the parts of a program; empty: there are no lists")
	systems := flag.String("systems", defaultSystems, "systems and processors to build for")
	flag.Parse()
	if err := r.make(strings.Split(*systems, ",")); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// make builds everything. The working directory must be the root of the tree.
func (r *release) make(systems []string) error {
	if r.version == "" || r.commit == "" || r.epoch <= 0 {
		return errors.New("-version, -commit and -epoch are required")
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	for _, system := range systems {
		goos, goarch, ok := strings.Cut(system, "/")
		if !ok {
			return fmt.Errorf("-systems: %q is not a system and a processor, like linux/amd64", system)
		}
		if err := r.build(goos, goarch, r.program(goos, goarch)); err != nil {
			return fmt.Errorf("%s: %w", system, err)
		}
	}
	if err := r.document(slices.Contains(systems, runtime.GOOS+"/"+runtime.GOARCH)); err != nil {
		return err
	}
	for _, system := range systems {
		goos, goarch, _ := strings.Cut(system, "/")
		if err := r.archive(goos, goarch); err != nil {
			return fmt.Errorf("%s: %w", system, err)
		}
	}
	return r.sums()
}

// program returns the path of the program for a system. The program stays there beside the archives, for the packages.
func (r *release) program(goos, goarch string) string {
	name := "daybook"
	if goos == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.out, goos+"_"+goarch, name)
}

// file is a file of an archive.
type file struct {
	name, path string
	mode       os.FileMode
}

// build builds the program for a system.
func (r *release) build(goos, goarch, binary string) error {
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.commit=%s", r.version, r.commit), "-o", binary, "./cmd/daybook")
	// Keep only the part of the environment that finds and stores things. GOAMD64, GOEXPERIMENT and the like would change
	// the program.
	build.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "GO") && !slices.Contains([]string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOROOT", "GOSUMDB", "GONOSUMDB", "GOTMPDIR", "GOMAXPROCS"}, name)
	}), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

// completions are the shells for which packages and archives have completions, and the names of the files.
var completions = []struct{ shell, name string }{{"bash", "daybook.bash"}, {"zsh", "_daybook"}, {"fish", "daybook.fish"}, {"powershell", "daybook.ps1"}}

// document writes the manual pages and completions into the directories man and completions, for the packages and
// archives. The program for this machine writes them. If the release does not include it, document builds it.
func (r *release) document(released bool) error {
	program := r.program(runtime.GOOS, runtime.GOARCH)
	if !released {
		dir, err := os.MkdirTemp("", "release-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "daybook")
		if err := r.build(runtime.GOOS, runtime.GOARCH, program); err != nil {
			return err
		}
	}
	run := func(args ...string) ([]byte, error) {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.epoch))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("daybook %s: %w", strings.Join(args, " "), err)
		}
		return out, nil
	}
	if _, err := run("man", filepath.Join(r.out, "man")); err != nil {
		return err
	}
	if err := compressAll(filepath.Join(r.out, "man"), filepath.Join(r.out, "man1.gz")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(r.out, "completions"), 0o755); err != nil {
		return err
	}
	for _, c := range completions {
		text, err := run("completion", c.shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, "completions", c.name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compressAll compresses the files of a directory with gzip into another directory, because packages contain compressed
// manual pages. The same files give the same bytes.
func compressAll(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(text); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()+".gz"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// archive writes the archive for a system and its list of parts.
func (r *release) archive(goos, goarch string) error {
	name := fmt.Sprintf("daybook_%s_%s_%s", strings.TrimPrefix(r.version, "v"), goos, goarch)
	binary := r.program(goos, goarch)
	files := []file{{"LICENSE", "LICENSE", 0o644}, {"licenses.txt", "cmd/daybook/licenses.txt", 0o644}, {filepath.Base(binary), binary, 0o755}}
	for _, dir := range []string{"man", "completions"} {
		entries, err := os.ReadDir(filepath.Join(r.out, dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			files = append(files, file{dir + "/" + e.Name(), filepath.Join(r.out, dir, e.Name()), 0o644})
		}
	}
	var err error
	if goos == "windows" {
		err = r.write(name+".zip", func(w io.Writer) error { return r.zip(w, name, files) })
	} else {
		err = r.write(name+".tar.gz", func(w io.Writer) error { return r.tar(w, name, files) })
	}
	if err != nil || r.sbom == "" {
		return err
	}
	list := exec.Command(r.sbom, "bin", "-json", "-noserial", "-notimestamp", "-version", r.version, "-output", filepath.Join(r.out, name+".cdx.json"), binary)
	list.Stdout, list.Stderr = os.Stderr, os.Stderr
	if err := list.Run(); err != nil {
		return fmt.Errorf("list the parts of %s: %w", binary, err)
	}
	return nil
}

// write writes a file of the release.
func (r *release) write(name string, content func(io.Writer) error) (err error) {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return content(f)
}

func (r *release) tar(w io.Writer, dir string, files []file) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packed)
	for _, f := range files {
		text, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := tar.Header{Typeflag: tar.TypeReg, Name: dir + "/" + f.name, Mode: int64(f.mode), Size: int64(len(text)), ModTime: time.Unix(r.epoch, 0), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(&h); err != nil {
			return err
		}
		if _, err := archive.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

func (r *release) zip(w io.Writer, dir string, files []file) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		text, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := zip.FileHeader{Name: dir + "/" + f.name, Method: zip.Deflate, Modified: time.Unix(r.epoch, 0).UTC()}
		h.SetMode(f.mode)
		entry, err := archive.CreateHeader(&h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(text); err != nil {
			return err
		}
	}
	return archive.Close()
}

// sums writes SHA256SUMS, in the format of `sha256sum -c`.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
