package fileset

const (
	// MaxFiles bounds the files and empty directories of a fileset. A manifest of this length is read into memory as a
	// whole, and takes about 30 MB there.
	MaxFiles = 100_000
	// MaxDirectories bounds the directories that the paths imply. Without it, a short manifest with deep paths could make
	// a reader create millions of directories.
	MaxDirectories = 100_000
	// MaxPathBytes bounds a path. Linux allows 4096 bytes, some of which the target directory of a fileset needs.
	MaxPathBytes = 1024
	// MaxNameBytes bounds each element of a path, as the file systems of Linux do.
	MaxNameBytes = 255
	// MaxManifestBytes bounds the text of a manifest. MaxFiles files can have paths of 200 bytes on average.
	MaxManifestBytes = 32 << 20
	// MaxFileBytes bounds a file. It is the default limit of a server for a blob.
	MaxFileBytes = 64 << 30

	// MaxPatterns and MaxPatternBytes bound a list of patterns.
	MaxPatterns     = 32
	MaxPatternBytes = 1024
	// MaxAlternatives bounds the alternatives in braces of a list of patterns. {a,b}{c,d} has four. Each alternative is
	// matched with each path.
	MaxAlternatives = 128
)
