package fileset

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// Patterns select files by their paths. An empty list selects all files.
type Patterns struct{ include, exclude []string }

// ParsePatterns checks a list of patterns. A path is selected if one of the patterns matches it. A pattern that begins
// with `!` excludes the matches of its rest; a list of only these patterns selects everything else. The error wraps
// ErrPattern.
//
// A pattern is matched with the whole relative path:
//
//	?       one character except a slash
//	*       any number of characters except slashes
//	**      as a whole element of the pattern: any number of elements of the path
//	[a-z]   one of these characters; [!a-z] and [^a-z] match one other character
//	{a,b}   one of the alternatives
//	\x      the character x
//
// So `*.dat` selects files at the top, `**/*.dat` files in all directories, and `out/**` everything in `out`.
func ParsePatterns(list []string) (p Patterns, err error) {
	if len(list) > MaxPatterns {
		return p, fmt.Errorf("%w: there are %d patterns; the maximum is %d", ErrPattern, len(list), MaxPatterns)
	}
	alternatives := 0
	for _, text := range list {
		pattern, excludes := strings.CutPrefix(text, "!")
		if why := wrongPattern(pattern); why != "" {
			return Patterns{}, fmt.Errorf("%w: %s %s", ErrPattern, quoted(text), why)
		}
		if alternatives += alternativesOf(pattern); alternatives > MaxAlternatives {
			return Patterns{}, fmt.Errorf("%w: the patterns up to %s have more than %d alternatives in braces", ErrPattern, quoted(text), MaxAlternatives)
		}
		if excludes {
			p.exclude = append(p.exclude, pattern)
		} else {
			p.include = append(p.include, pattern)
		}
	}
	return p, nil
}

// wrongPattern describes the error in a pattern, or returns "" for a valid pattern.
func wrongPattern(pattern string) string {
	switch {
	case pattern == "":
		return "is empty"
	case len(pattern) > MaxPatternBytes:
		return fmt.Sprintf("has %d bytes; the maximum is %d", len(pattern), MaxPatternBytes)
	case !utf8.ValidString(pattern):
		return "is not valid UTF-8"
	case pattern[0] == '/':
		return "begins with a slash, but paths are relative"
	case strings.HasPrefix(pattern, "./") || strings.HasPrefix(pattern, "../"):
		return `begins with a "." element, and no path has one`
	case strings.HasSuffix(pattern, "/"):
		return "ends in a slash; to select what is in a directory, end it in /**"
	case !doublestar.ValidatePattern(pattern):
		return "is malformed: a bracket or brace is not closed, a class is empty, or it ends in a backslash"
	}
	return ""
}

// alternativesOf returns an upper bound on the number of patterns without braces that a pattern expands to, at most
// MaxAlternatives + 1. The time of a match is proportional to it. It counts braces and commas anywhere: n commas in k
// braces give the most alternatives if each brace has n/k of them.
func alternativesOf(pattern string) int {
	braces, commas, total := strings.Count(pattern, "{"), strings.Count(pattern, ","), 1
	for range braces {
		total = min(total*((commas+braces-1)/braces+1), MaxAlternatives+1)
	}
	return total
}

// Empty reports whether there are no patterns.
func (p Patterns) Empty() bool { return len(p.include)+len(p.exclude) == 0 }

// Digest identifies the patterns, for entity tags.
func (p Patterns) Digest() string {
	a := AddressOf([]byte(strings.Join(p.include, "\x00") + "\x00!" + strings.Join(p.exclude, "\x00!")))
	return hex.EncodeToString(a[:8])
}

// Match reports whether the patterns select a path.
func (p Patterns) Match(path string) bool {
	return (len(p.include) == 0 || anyMatches(p.include, path)) && !anyMatches(p.exclude, path)
}

func anyMatches(patterns []string, path string) bool {
	for _, pattern := range patterns {
		if doublestar.MatchUnvalidated(pattern, path) {
			return true
		}
	}
	return false
}

// selectEvery is the number of paths after which Select checks its context.
const selectEvery = 64

// Select returns the files and empty directories of a manifest that the patterns select. It does not add directories that
// become empty. Patterns with many stars take long with long paths, so Select returns the error of ctx when ctx is done.
func (p Patterns) Select(ctx context.Context, m *Manifest) (*Manifest, error) {
	if p.Empty() {
		return m, nil
	}
	part := &Manifest{}
	for i, f := range m.Files {
		if i%selectEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if p.Match(f.Path) {
			part.Files = append(part.Files, f)
		}
	}
	for i, path := range m.EmptyDirectories {
		if i%selectEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if p.Match(path) {
			part.EmptyDirectories = append(part.EmptyDirectories, path)
		}
	}
	return part, nil
}
