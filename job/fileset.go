package job

import "fmt"

// filesetRules are the rules of filesets. The document of a fileset is its manifest, which is a blob. The sender of a put
// must have stored the manifest, and the blobs that it names, before.
var filesetRules = DocumentRules{
	Name: "fileset", MaxNames: MaxFilesets, NotFound: FilesetNotFound, TooMany: TooManyFilesets,
	Check: func(p *PutDocument) error {
		_, _, err := ParseFilesetSummary(p.Summary)
		return err
	},
}

// FilesetSummary returns the summary of a fileset: the number of its files, and of all their bytes.
func FilesetSummary(files int, bytes int64) string { return fmt.Sprintf("%d/%d", files, bytes) }

// ParseFilesetSummary is the inverse of FilesetSummary.
func ParseFilesetSummary(text string) (files int, bytes int64, err error) {
	if _, err := fmt.Sscanf(text, "%d/%d", &files, &bytes); err != nil || files < 0 || bytes < 0 || FilesetSummary(files, bytes) != text {
		return 0, 0, fmt.Errorf("summary %q is not the number of files/bytes of a fileset", text)
	}
	return files, bytes, nil
}
