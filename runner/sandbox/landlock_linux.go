package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The runner creates landlock rulesets, with the kernel's calls. A ruleset is a descriptor, and the helper only applies
// it. A library in the helper would do it all, but initializing the library would cost more than the rest of the
// helper's start.

// Accesses to files that landlock distinguishes.
const (
	readFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	readDir  = unix.LANDLOCK_ACCESS_FS_READ_DIR
	// useFile has all accesses that a rule for a file, rather than a directory, may contain.
	useFile = readFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// fileAccess returns all accesses to files that a landlock version knows.
func fileAccess(abi int) uint64 {
	access := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1) // up to MAKE_SYM
	for _, later := range []struct {
		abi    int
		access uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}} {
		if abi >= later.abi {
			access |= later.access
		}
	}
	return access
}

// The default of Access.
var (
	systemPaths = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/proc", "/sys", "/run/systemd/resolve"}
	// etcPatterns are the files in /etc that ordinary programs read. The remaining files there are for some users only,
	// or contain settings of services, perhaps with passwords.
	etcPatterns = []string{
		"passwd", "group", "hosts", "host.conf", "hostname", "resolv.conf", "nsswitch.conf", "gai.conf", "services", "protocols", "networks", "machine-id",
		"localtime", "timezone", "locale*", "default/locale", "ld.so.*", "alternatives", "ssl/certs", "ssl/openssl.cnf", "pki", "ca-certificates*",
		"mime.types", "magic*", "fonts", "php", "python3*", "perl", "java-*", "ImageMagick-*", "bash.bashrc", "profile", "inputrc", "terminfo", "os-release",
		"debian_version", "lsb-release",
	}
	sharedPaths = []string{"/tmp", "/var/tmp", "/dev/shm"}
	// With Command.Bare, only barePaths and bareDevices are left of the default. A program may need its loader and
	// libraries.
	barePaths   = []string{"/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/nix/store", "/gnu/store", "/proc"}
	bareDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
	devices     = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}
)

// etcPaths returns the files and directories that match etcPatterns.
var etcPaths = sync.OnceValue(func() (paths []string) {
	for _, pattern := range etcPatterns {
		found, err := filepath.Glob("/etc/" + pattern)
		if err != nil {
			panic(fmt.Sprintf("sandbox: pattern %q: %v", pattern, err))
		}
		paths = append(paths, found...)
	}
	return paths
})

// shares reports whether a directory is in one that all processes may write. The runner's TMPDIR counts, because
// processes get it as theirs.
func (t *tree) shares(dir string) bool {
	if t.landlock == 0 {
		return false
	}
	return slices.ContainsFunc(append(slices.Clone(sharedPaths), os.TempDir()), func(shared string) bool { return within(dir, shared) })
}

// reads reports whether a command's process may read below a directory.
func (t *tree) reads(c *Command, dir string) bool {
	if t.landlock == 0 {
		return true
	}
	open := slices.Concat(systemPaths, etcPaths(), sharedPaths, c.Access.ReadOnly, c.Access.ReadWrite)
	for _, path := range []string{c.Dir, variable(c.Env, "TMPDIR")} {
		if path != "" {
			open = append(open, path)
		}
	}
	return slices.ContainsFunc(open, func(path string) bool { return within(dir, path) })
}

// within reports whether a path is a directory or below it, after resolving symbolic links.
func within(path, dir string) bool {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	below, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(below)
}

// landlockABI returns the landlock version, or 0 if the kernel lacks landlock or it is switched off.
func landlockABI() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// ruleset is a landlock ruleset.
type ruleset struct {
	*os.File
	handled uint64 // accesses to files; the kernel refuses those without a rule
}

// newRuleset returns a command's ruleset.
func newRuleset(abi int, c *Command, path string) (*ruleset, error) {
	handled := unix.LandlockRulesetAttr{Handled_access_fs: fileAccess(abi)}
	size := unsafe.Offsetof(handled.Handled_access_net) // an old kernel accepts only the beginning of the structure
	if abi >= 6 {
		handled.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(handled.Quiet_access_fs)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	r := &ruleset{os.NewFile(fd, "landlock ruleset"), handled.Handled_access_fs}
	if err := r.fill(c, path); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// fill adds a command's rules.
func (r *ruleset) fill(c *Command, path string) error {
	system, etc, shared, devices, dev := systemPaths, etcPaths(), sharedPaths, devices, []string{"/dev"}
	if dir := variable(c.Env, "TMPDIR"); filepath.IsAbs(dir) {
		shared = append(slices.Clone(shared), dir)
	}
	if c.Bare {
		system, etc, shared, devices, dev = barePaths, nil, nil, bareDevices, nil
	}
	for _, paths := range []struct {
		paths  []string
		access uint64
		must   bool
	}{
		{system, readFile | readDir, false},
		{etc, readFile | readDir, false},
		{shared, r.handled, false},
		{devices, useFile | readDir, false},
		{dev, readDir, false},
		{[]string{path}, readFile, true},
		{[]string{c.Dir}, readFile | readDir, c.Dir != ""},
		{c.Access.ReadOnly, readFile | readDir, true},
		{c.Access.ReadWrite, r.handled, true},
	} {
		for _, path := range paths.paths {
			if path == "" {
				continue
			}
			if paths.must && path != c.Dir && !filepath.IsAbs(path) {
				return fmt.Errorf("access to %q: the path must be absolute", path)
			}
			if err := r.allow(path, paths.access&r.handled); err != nil && paths.must {
				return fmt.Errorf("access to %s: %w", path, err)
			}
		}
	}
	return nil
}

// allow adds a rule that allows accesses to a file, or to all files below a directory.
func (r *ruleset) allow(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= useFile
	}
	// The kernel's structure has 12 bytes. This one begins with the same.
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, r.Fd(), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
