package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// accessFlags define which key the server makes for its first admin.
type accessFlags struct {
	adminKeyFile string
}

func (f *accessFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.adminKeyFile, "admin-key-file", "", "file with a key that has the role admin; the server makes both if there is no such file, and stores the file's key if it does not know it. Requests need a key from the start on (default: the server makes no key)")
}

// check refuses a file that other users can read, or that has no key. A missing file is none of these: the server makes it.
func (f *accessFlags) check() error {
	if f.adminKeyFile == "" {
		return nil
	}
	_, _, err := f.readAdminKey()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readAdminKey returns the name and the sum of the key in the file. The error is fs.ErrNotExist if there is no file. No error has a
// part of the text.
func (f *accessFlags) readAdminKey() (name string, sum job.KeySum, err error) {
	wrong := func(err error) (string, job.KeySum, error) {
		return "", sum, terminal.Usagef("--admin-key-file %s: %w", f.adminKeyFile, err)
	}
	info, err := os.Stat(f.adminKeyFile)
	if err != nil {
		return wrong(cause(err))
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 { // Windows has no such modes
		return wrong(fmt.Errorf("other users of this machine can read the key (mode %04o); run: chmod 600 %s", mode, f.adminKeyFile))
	}
	text, err := config.ReadKeyFile(f.adminKeyFile)
	if err != nil {
		return wrong(cause(err))
	}
	if name, sum, err = job.ParseKeyText(strings.TrimSpace(text)); err != nil {
		return wrong(fmt.Errorf("%w; if nobody needs this file, delete it, and the server makes another one", err))
	}
	return name, sum, nil
}

// cause returns an error without the path, which the text around it has.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// makeAdminKey writes a new key into the file, unless there is one by now. The file is durable before anybody stores the key, so a
// crash leaves no key without its text: the next start stores it.
func (f *accessFlags) makeAdminKey(name string) (err error) {
	var random [job.SecretBytes]byte
	_, _ = rand.Read(random[:])                                                                       // never fails
	fresh, err := os.CreateTemp(filepath.Dir(f.adminKeyFile), filepath.Base(f.adminKeyFile)+".*.new") // with mode 0600
	if err == nil {
		defer os.Remove(fresh.Name())
		_, err = fresh.WriteString(job.KeyText(name, random) + "\n")
		if err == nil {
			err = fresh.Sync()
		}
		err = errors.Join(err, fresh.Close())
	}
	if err == nil {
		err = os.Link(fresh.Name(), f.adminKeyFile) // unlike a rename, it replaces no file
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = journal.SyncPath(filepath.Dir(f.adminKeyFile))
	}
	if err != nil {
		err = fmt.Errorf("--admin-key-file: make the file: %w", err)
	}
	return err
}

// checkHasKey returns an error if other machines could connect and the server has no key. A store without a key may have the first
// one in its journal, so checkHasKey waits until the engine has replayed it. It returns nil when ctx ends.
func (s *serverRun) checkHasKey(ctx context.Context, engine *runningEngine) error {
	if !s.exposed(s.address) || s.adminKeyFile != "" || s.oidcFile != "" || engine.Queries().KeysRequired() || !untilReady(ctx, engine) || engine.Queries().KeysRequired() {
		return nil
	}
	create := ", or stop the server and create a key with: daybook key create NAME --role admin --data " + s.data
	if s.cluster != nil {
		create = ""
	}
	return terminal.Usagef("--listen %s is not a loopback address, and the server has no key, so nobody could use it; next step: give --admin-key-file FILE%s", s.Flags.listen, create)
}

// startAccess makes the server require keys as far as the settings say. Once the engine is ready, it stores the key of
// --admin-key-file. Until then /readyz says why the server is not ready. If the key cannot be stored, startAccess calls quit, and end
// returns why. end may be called more than once.
func (s *serverRun) startAccess(ctx context.Context, engine *runningEngine, quit func()) (end func() error) {
	s.options.RequireKeys = s.adminKeyFile != "" || s.exposed(s.address)
	if s.adminKeyFile == "" {
		return func() error { return nil }
	}
	var missing atomic.Pointer[error]
	hold := func(err error) { missing.Store(&err) }
	hold(errors.New("the server does not know yet whether it has the key of --admin-key-file"))
	s.options.Unready = func() error { return *missing.Load() }

	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	var failed error // of the goroutine
	running.Go(func() {
		if !untilReady(ctx, engine) {
			return
		}
		if failed = s.storeAdminKey(ctx, engine, hold); failed != nil {
			s.log.Error().Err(failed).Msg("the server stops")
			quit()
		}
		hold(nil)
	})
	return func() error {
		stop()
		running.Wait()
		return failed
	}
}

// storeAdminKey makes the file of --admin-key-file if it does not exist, and stores its key if the store does not know it. It tries
// again while commands cannot be stored, and calls hold with the reason. An error means that the file cannot be used.
func (s *serverRun) storeAdminKey(ctx context.Context, engine *runningEngine, hold func(error)) error {
	for ctx.Err() == nil {
		name, sum, err := s.readAdminKey()
		if errors.Is(err, fs.ErrNotExist) {
			if name, err = s.freeName(engine); err == nil {
				if err := s.makeAdminKey(name); err != nil {
					return err
				}
				s.log.Info().Str("file", s.adminKeyFile).Str("key", name).Msg("made a key with the role admin")
				continue
			}
		} else if err != nil {
			return err
		} else if err = s.adoptAdminKey(ctx, engine, name, sum); err == nil {
			return nil
		}
		if errors.Is(err, job.VersionDiffers) {
			continue // somebody has just changed the key
		}
		err = fmt.Errorf("the key of --admin-key-file cannot be stored: %w", err)
		s.log.Warn().Err(err).Msg("trying again")
		hold(err)
		_ = pause(ctx, restartAfter)
	}
	return nil
}

// freeName returns a name that no key has, and none ever had, so that the key of the file is not taken for a revoked one. The nodes
// of a cluster make their keys under different names.
func (s *serverRun) freeName(engine *runningEngine) (string, error) {
	base := "admin"
	if s.node != "" {
		base = ("admin-" + s.node)[:min(len("admin-"+s.node), job.MaxNameBytes-len("-999"))]
	}
	for i := 1; ; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		if _, err := engine.Queries().DocumentHistory(job.KeyDocument, "", name); errors.Is(err, job.KeyNotFound) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}

// adoptAdminKey stores the key of the file, unless the store knows it. A key that was revoked or rotated away is not stored again:
// somebody has done that on purpose.
func (s *serverRun) adoptAdminKey(ctx context.Context, engine *runningEngine, name string, sum job.KeySum) error {
	log := s.log.With().Str("file", s.adminKeyFile).Str("key", name).Logger()
	const instead = "; next step: delete the file and start the server again, which then makes another key, or put the text of a good key into the file"
	q := engine.Queries()
	key := job.Key{Actor: job.Actor{Name: name}, Roles: job.RolesOf(job.RoleAdmin), Generation: 1, Sum: sum}
	condition := job.IfNone
	versions, err := q.DocumentHistory(job.KeyDocument, "", name)
	if errors.Is(err, job.KeyNotFound) {
		err = nil
	}
	// Only with the texts of all versions is it sure that nobody has rotated or revoked the key of the file.
	unknown := len(versions) > 0 && versions[len(versions)-1].Version > 1
	for i, v := range versions {
		switch {
		case v.Deleted && i == 0:
			log.Error().Msg("the key of --admin-key-file is not stored: the key of this name was revoked" + instead)
			return nil
		case v.Deleted || v.Gone:
			unknown = true
			continue
		}
		_, text, err := q.Document(job.KeyDocument, "", name, v.Version)
		if err != nil {
			return err
		}
		stored, err := job.DecodeKey(name, text)
		if err != nil {
			return err
		}
		now := engine.Now()
		switch {
		case i == 0 && stored.Matches(&sum, now):
			if !stored.Roles.Has(key.Roles) || stored.Expired(now) {
				log.Error().Msg("the key of --admin-key-file has expired or lacks the role admin" + instead)
			}
			return nil
		case stored.Sum == sum:
			log.Error().Msg("the key of --admin-key-file is not stored: it was rotated" + instead)
			return nil
		case i == 0:
			key.Generation = stored.Generation + 1
			condition = job.IfVersion(v.Version)
		}
	}
	if unknown {
		log.Error().Msg("the key of --admin-key-file is not stored: the server does not have all earlier versions of the key of this name, so the file may have one that was rotated or revoked" + instead)
		return nil
	}
	if err == nil {
		_, _, err = engine.PutDocument(ctx, job.PutDocument{Kind: job.KeyDocument, Name: name, Summary: job.RoleAdmin.String(), Document: key.Document(), If: condition})
	}
	if err == nil {
		log.Info().Msg("stored the key of --admin-key-file, which has the role admin")
	}
	return err
}
