package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/datadir"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

func newKey() *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "key",
		Short: "Create keys, and rotate, list and revoke them",
		Long: `Create keys, and rotate, list and revoke them. Without any key, everybody who can connect to the server may do
everything. From the first key on, every request needs one, and these commands need one with the role admin.

A command finds its key in the file of --key-file, in the variable DAYBOOK_KEY, or in the file of the context, in this
order.

With --data, the commands work on the data directory of a stopped server, and need no key: to create a key before the
server listens for the first time, or when no admin is left.`,
		Example: `  daybook key create boss --role admin >boss.key
  daybook key create acme-producer --role producer --key-file boss.key
  daybook key create boss --role admin --data /var/lib/daybook >boss.key`,
	}, newKeyCreate(), newKeyList(), newKeyGet(), newKeyRotate(), newKeyRevoke(), newKeyImport(), newKeyWhoami(), newKeyEncryption())
}

// keyCommand makes a command about the keys of a running server, or with --data of a stopped one.
func keyCommand(r *remote.Command, cmd *cobra.Command, run func(cmd *cobra.Command, args []string) error) {
	var data string
	remote.Over(r, cmd, func(cmd *cobra.Command, args []string) error {
		if data == "" {
			if err := r.Connect(cmd); err != nil {
				return err
			}
			return run(cmd, args)
		}
		for _, other := range []string{"server", "context", "key-file"} {
			if config.OnCommandLine(cmd.Flags().Lookup(other)) {
				return terminal.Usagef("--data works on the files of a stopped server, and --%s belongs to a running one; give only one of them", other)
			}
		}
		if err := checkServerSystem(cmd); err != nil {
			return err
		}
		d, err := datadir.Find(data)
		if err != nil {
			return err
		}
		return d.Connect(cmd.Context(), func(c *client.Client) error {
			r.Client = c
			return run(cmd, args)
		})
	})
	cmd.Flags().StringVar(&data, "data", "", "data directory of a stopped server, which the command works on (default: it asks the running server)")
	cobra.CheckErr(cmd.MarkFlagDirname("data"))
}

// madeKey prints the text of a key that the server has made: the only time that anybody sees it.
func madeKey(r *remote.Command, k client.Key, err error) error {
	if err != nil {
		return err
	}
	return r.ShowValue(k, "%s\n", k.Text)
}

// keyFlags are the flags of a new key.
type keyFlags struct {
	client.KeyLimits
	rates   []string
	expires time.Duration
}

func (f *keyFlags) define(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.Roles, "role", nil, "what the key permits: admin, operator, producer, worker, reader, backup or metrics; can be given several times")
	cmd.Flags().StringArrayVar(&f.Clients, "client", nil, "a client whose jobs the key is for; can be given several times (default: all)")
	cmd.Flags().StringArrayVar(&f.Types, "type", nil, "a type of jobs that the key is for; can be given several times (default: all)")
	cmd.Flags().StringVar(&f.RunnerPrefix, "runner-prefix", "", "with what the ids of its runners begin (default: with --client or --type, its name and a colon)")
	cmd.Flags().BoolVar(&f.HidePayloads, "hide-payloads", false, "show no payloads, outputs and errors; only with the single role reader")
	cmd.Flags().StringArrayVar(&f.Redact, "redact", nil, "name of a field of JSON payloads and outputs whose value is not shown; only with the single role reader; can be given several times")
	cmd.Flags().StringArrayVar(&f.rates, "rate", nil, "how fast the key may be used, as NAME=NUMBER: creates, claims, reads and bytes a second, streams and parked_claims at the same time; can be given several times (default: without a bound)")
	cmd.Flags().DurationVar(&f.expires, "expires", 0, "how long the key is good (default: until it is revoked)")
}

func (f *keyFlags) request(name string) (k client.KeyRequest, err error) {
	if len(f.Roles) == 0 {
		return k, terminal.Usagef("--role is missing")
	}
	if f.expires < 0 {
		return k, terminal.Usagef("--expires must not be negative")
	}
	k = client.KeyRequest{Name: name, KeyLimits: f.KeyLimits}
	if k.Rates, err = ratesOf(f.rates); err != nil {
		return k, err
	}
	if f.expires > 0 {
		k.ExpiresAt = time.Now().Add(f.expires).UnixMilli()
	}
	return k, nil
}

// ratesOf reads rates in the form NAME=NUMBER.
func ratesOf(texts []string) (*client.Rates, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	var rates job.Rates
	for _, text := range texts {
		name, number, _ := strings.Cut(text, "=")
		rate := rates.Named(name)
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case rate == nil:
			return nil, terminal.Usagef("--rate %s: %q is none of %s", text, name, strings.Join(job.RateNames[:], ", "))
		case *rate != 0:
			return nil, terminal.Usagef("--rate %s: %s is given twice", text, name)
		case err != nil || n < 1:
			return nil, terminal.Usagef("--rate %s: write it as %s=NUMBER, with a whole number from 1", text, name)
		}
		*rate = n
	}
	if err := rates.Check(); err != nil {
		return nil, terminal.Usagef("--rate: %w", err)
	}
	return (*client.Rates)(&rates), nil
}

func newKeyCreate() *cobra.Command {
	var r remote.Command
	var f keyFlags
	cmd := &cobra.Command{
		Use: "create NAME", ValidArgsFunction: cobra.NoFileCompletions,
		Short: "Create a key, and print its text",
		Long: `Create a key, and print its text, which the server does not store and nobody can read again. The first key must have
the role admin.`,
		Example: `  daybook key create boss --role admin >boss.key
  daybook key create acme-worker --role worker --client acme --expires 2160h
  daybook key create acme-producer --role producer --rate creates=1000 --rate reads=50`,
		Args: cobra.ExactArgs(1),
	}
	keyCommand(&r, cmd, func(cmd *cobra.Command, args []string) error {
		request, err := f.request(args[0])
		if err != nil {
			return err
		}
		k, err := r.Client.CreateKey(cmd.Context(), request)
		return madeKey(&r, k, err)
	})
	f.define(cmd)
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func newKeyImport() *cobra.Command {
	var r remote.Command
	var f keyFlags
	cmd := &cobra.Command{
		Use: "import NAME", ValidArgsFunction: cobra.NoFileCompletions,
		Short: "Create a key with a text from standard input",
		Long: `Create a key with a text that was made elsewhere, and is read from standard input. The server gets only its SHA-256. The
text has the form dbk_NAME_SECRET, see "Access" in docs/reference/api.md.`,
		Example: `  daybook key import acme-worker --role worker <worker.key`,
		Args:    cobra.ExactArgs(1),
	}
	keyCommand(&r, cmd, func(cmd *cobra.Command, args []string) error {
		request, err := f.request(args[0])
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 4<<10))
		if err != nil {
			return err
		}
		name, sum, err := job.ParseKeyText(strings.TrimSpace(string(text)))
		if err == nil && name != args[0] {
			err = fmt.Errorf("this is the key %s", name)
		}
		if err != nil {
			return terminal.Usagef("standard input: %w", err)
		}
		request.SHA256 = sum.String()
		k, err := r.Client.CreateKey(cmd.Context(), request)
		if err != nil {
			return err
		}
		return showKey(&r, k)
	})
	f.define(cmd)
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func newKeyRotate() *cobra.Command {
	var r remote.Command
	var overlap time.Duration
	cmd := &cobra.Command{
		Use: "rotate NAME", ValidArgsFunction: config.Once(remote.KeyNames),
		Short: "Give a key another secret, and print its new text",
		Long: `Give a key another secret, and print its new text. The text before it is good for --overlap more, so that programs can be
changed one after the other.`,
		Example: `  daybook key rotate acme-worker --overlap 24h >worker.key`,
		Args:    cobra.ExactArgs(1),
	}
	keyCommand(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if overlap < 0 {
			return terminal.Usagef("--overlap must not be negative")
		}
		k, err := r.Client.RotateKey(cmd.Context(), args[0], overlap)
		return madeKey(&r, k, err)
	})
	cmd.Flags().DurationVar(&overlap, "overlap", 0, "how long the text before it is good, at most 720h")
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func newKeyList() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the keys",
		Long:    `List the keys by name, without their texts.`,
		Example: `  daybook key list`,
		Args:    cobra.NoArgs,
	}
	keyCommand(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		for k, err := range r.Client.Keys(cmd.Context()) {
			if err == nil {
				err = showKey(&r, k)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func newKeyGet() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use: "get NAME", ValidArgsFunction: config.Once(remote.KeyNames), Short: "Show a key", Long: `Show the roles and the expiry of a key.`, Example: `  daybook key get acme-worker`, Args: cobra.ExactArgs(1),
	}
	keyCommand(&r, cmd, func(cmd *cobra.Command, args []string) error {
		k, err := r.Client.Key(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return showKey(&r, k)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func newKeyRevoke() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use: "revoke NAME", ValidArgsFunction: config.Once(remote.KeyNames),
		Aliases: []string{"rm"},
		Short:   "Revoke a key",
		Long: `Revoke a key. The server refuses requests with it from then on, and ends its streams within a second. If no admin is left,
every request is refused.`,
		Example: `  daybook key revoke acme-worker`,
		Args:    cobra.ExactArgs(1),
	}
	keyCommand(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if err := r.Client.RevokeKey(cmd.Context(), args[0]); err != nil {
			return err
		}
		return r.ShowValue(map[string]any{"name": args[0], "revoked": true}, "revoked %s\n", args[0])
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func newKeyWhoami() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use: "whoami", Short: "Show the key that commands use", Long: `Show the name and the roles of the key that commands use.`, Example: `  daybook key whoami`, Args: cobra.NoArgs,
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		k, err := r.Client.Whoami(cmd.Context())
		if err != nil {
			return err
		}
		if k.Name == "" {
			return r.ShowValue(k, "the server has no keys; everybody may do everything\n")
		}
		return showKey(&r, k)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

// showKey prints a key in one line.
func showKey(r *remote.Command, k client.Key) error {
	until := ""
	if k.ExpiresAt != nil {
		until = " until " + time.UnixMilli(*k.ExpiresAt).UTC().Format(time.RFC3339)
	}
	used := ""
	if k.LastUsedAt != nil {
		used = ", last used in the hour from " + time.UnixMilli(*k.LastUsedAt).UTC().Format(time.RFC3339)
	}
	return r.ShowValue(k, "%s: %s%s%s%s\n", k.Name, strings.Join(k.Roles, ", "), limitsText(&k.KeyLimits), until, used)
}

// limitsText describes what a key is for, unless it is for everything.
func limitsText(l *client.KeyLimits) (text string) {
	for _, list := range []struct {
		before string
		names  []string
	}{{"for clients", l.Clients}, {"for types", l.Types}, {"redacts", l.Redact}} {
		if len(list.names) > 0 {
			text += " " + list.before + " " + strings.Join(list.names, ", ")
		}
	}
	if l.RunnerPrefix != "" {
		text += " runners " + l.RunnerPrefix + "*"
	}
	if l.Rates != nil {
		rates := job.Rates(*l.Rates)
		for _, name := range job.RateNames {
			if n := *rates.Named(name); n > 0 {
				text += fmt.Sprintf(" %s=%d", name, n)
			}
		}
	}
	if l.HidePayloads {
		text += " hides payloads"
	}
	return text
}
