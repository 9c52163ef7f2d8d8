package container

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/distribution/reference"
)

// Images is the list of images that jobs may run. A nil list allows none.
type Images struct {
	patterns []string
}

// maxPatterns bounds the list, because each job's image is compared with the whole list.
const maxPatterns = 1000

var errImage = errors.New("the image is not allowed")

// ParseImages parses patterns of full references: a registry, a path, and a tag or a digest. A * matches any text without
// a slash, and a ? matches any character but a slash. These examples allow all tags of busybox, one image of a registry,
// and one digest:
//
//	docker.io/library/busybox:*
//	registry.example.com/team/resize:2.1
//	registry.example.com/team/resize@sha256:4f…
//
// A pattern with a tag matches no digest, and a pattern with a digest matches no tag.
func ParseImages(patterns []string) (*Images, error) {
	if len(patterns) > maxPatterns {
		return nil, fmt.Errorf("the list of images has %d patterns; the maximum is %d", len(patterns), maxPatterns)
	}
	for _, p := range patterns {
		registry, rest, _ := strings.Cut(p, "/")
		_, version, _ := strings.Cut(rest, ":") // the tag or digest
		switch {
		case !strings.ContainsAny(registry, ".:") && registry != "localhost" || rest == "":
			return nil, fmt.Errorf("the image %q must begin with a registry, as in docker.io/library/busybox:*", p)
		case strings.ContainsAny(registry, "*?[\\"):
			return nil, fmt.Errorf("the image %q must not have a pattern in place of its registry", p)
		case strings.ContainsAny(p, "[]\\"):
			return nil, fmt.Errorf("the image %q must have no other patterns than * and ?", p)
		case version == "":
			return nil, fmt.Errorf("the image %q must end with a tag or a digest, as in :1.2, :* or @sha256:*", p)
		}
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("the image %q: %w", p, err)
		}
	}
	return &Images{patterns}, nil
}

// None reports whether the list allows no image.
func (i *Images) None() bool { return i == nil || len(i.patterns) == 0 }

// resolve returns the full reference of the image that a job names, or an error if it is not allowed. A name without a
// tag or a digest gets the tag latest. If there is a digest, the tag is ignored.
func (i *Images) resolve(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("%w: %q is no name of an image: %w", errImage, shortened(image), err)
	}
	if digested, ok := named.(reference.Digested); ok {
		if named, err = reference.WithDigest(reference.TrimNamed(named), digested.Digest()); err != nil {
			return "", fmt.Errorf("%w: %q: %w", errImage, shortened(image), err)
		}
	}
	full := reference.TagNameOnly(named).String()
	if i != nil {
		for _, p := range i.patterns {
			if allows(p, full) {
				return full, nil
			}
		}
	}
	return "", fmt.Errorf("%w: %s is not in the list of images of this runner (--images)", errImage, shortened(full))
}

// allows reports whether a pattern matches a full reference. It compares name, separator and version separately, so that
// a * in place of a tag does not match a digest.
func allows(pattern, full string) bool {
	name, sep, version := divided(full)
	ofName, ofSep, ofVersion := divided(pattern)
	one, err := path.Match(ofName, name)
	two, otherErr := path.Match(ofVersion, version)
	return one && two && sep == ofSep && err == nil && otherErr == nil
}

// divided splits a reference or pattern into its name, the separator (: or @), and the tag or digest.
func divided(ref string) (name, sep, version string) {
	if name, version, found := strings.Cut(ref, "@"); found {
		return name, "@", version
	}
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		return ref[:i], ":", ref[i+1:]
	}
	return ref, "", ""
}

// shortened bounds the length of a text for an error.
func shortened(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
