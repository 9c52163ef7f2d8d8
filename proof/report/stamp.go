package report

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Stamp names the code that was attacked. It is the first line of each block.
type Stamp struct {
	Date    string
	Commit  string // the name that git gives it, with "-dirty" if files other than the page were changed; or "unknown"
	Storage string // digest of the storage code
	Release string // the newest release in CHANGELOG.md at that time; "none" before the first
}

var stampLine = regexp.MustCompile("(?m)^Run on (\\d{4}-\\d\\d-\\d\\d) with commit `([^`]+)`, storage code `([0-9a-f]{12})`, after release `([^`]+)`\\.$")

func (s Stamp) String() string {
	return fmt.Sprintf("Run on %s with commit `%s`, storage code `%s`, after release `%s`.", s.Date, s.Commit, s.Storage, s.Release)
}

// parseStamp finds the stamp of a block.
func parseStamp(block string) (s Stamp, ok bool) {
	m := stampLine.FindStringSubmatch(block)
	if m == nil {
		return s, false
	}
	return Stamp{m[1], m[2], m[3], m[4]}, true
}

// storageCode lists the folders with the code that keeps the promises under attack, with the folders in them.
var storageCode = []string{"job", "journal", "store", "ingest"}

// storageDigest returns a digest of the storage code of the tree at root, without its tests.
func storageDigest(root string) (string, error) {
	h := sha256.New()
	for _, dir := range storageCode {
		files := 0
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error { // in lexical order
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			name, err := filepath.Rel(root, path)
			fmt.Fprintf(h, "%s %d\n%s", filepath.ToSlash(name), len(src), src)
			return err
		})
		if err == nil && files == 0 {
			err = errors.New("it has no code")
		}
		if err != nil {
			return "", fmt.Errorf("digest %s: %w", filepath.Join(root, dir), err)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:12], nil
}

var heading = regexp.MustCompile(`(?m)^## (.+)$`)

// releases lists the releases of a change log, the newest first, without the unreleased part.
func releases(changelog string) (list []string) {
	for _, m := range heading.FindAllStringSubmatch(changelog, -1) {
		if name, _, _ := strings.Cut(strings.TrimSpace(m[1]), " "); !strings.EqualFold(name, "unreleased") {
			list = append(list, strings.Trim(name, "[]"))
		}
	}
	return list
}

// stampOf makes the stamp of a run that ends now, for the tree that contains the page in docs/explanation.
func stampOf(page string) (Stamp, error) {
	root := filepath.Join(filepath.Dir(page), "..", "..")
	s := Stamp{Date: time.Now().UTC().Format(time.DateOnly), Commit: commitOf(root, page), Release: "none"}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return s, err
	}
	if list := releases(string(changelog)); len(list) > 0 {
		s.Release = list[0]
	}
	s.Storage, err = storageDigest(root)
	return s, err
}

func commitOf(root, page string) string {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return string(bytes.TrimSpace(out)), err
	}
	commit, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "unknown"
	}
	rel, err := filepath.Rel(root, page)
	if err != nil {
		return commit
	}
	if changed, err := git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)"+rel); err == nil && changed != "" {
		commit += "-dirty"
	}
	return commit
}

// maxReleases is how many releases may have come out since figures of other storage code were taken. It is not 0, since
// the figures for a release are taken before the release has a name.
const maxReleases = 1

// outdated says why figures with a stamp are no longer valid for the tree, or returns "". Figures of the same storage
// code never become outdated. Other figures are valid up to the next release, so that a change of the storage code does
// not immediately require a run of an hour.
func outdated(s Stamp, storage string, list []string) string {
	if s.Storage == storage {
		return ""
	}
	since := slices.Index(list, s.Release)
	if since < 0 {
		since = len(list)
	}
	if since > maxReleases {
		return fmt.Sprintf("they are about storage code %s, from before %d releases (%s); the tree has storage code %s", s.Storage, since, strings.Join(list[:since], ", "), storage)
	}
	return ""
}
