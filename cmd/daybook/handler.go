package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/cmd/daybook/internal/work"
	"github.com/daybookq/daybook/internal/manifest"
	"github.com/daybookq/daybook/job/handler"
)

func newHandler() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "handler",
		Short: "Store what runs the jobs of a type, and read it",
		Long: `Store and read handlers. A handler says how runners run the jobs of a type: by a script, a request to a URL, a
program that the runner names, a guest of WASI, or a container. "daybook work --accept KIND" runs the stored handlers
of a kind. Runners use a new version within seconds. The server keeps the newest 20 versions.`,
		Example: `  daybook handler put resize resize.py
  daybook handler get resize`,
	}
	return terminal.Group(cmd, newHandlerPut(), newHandlerGet(), newHandlerList(), newHandlerHistory(), newHandlerRemove())
}

// overHandlers makes a command about the handler of a type, or about all handlers.
func overHandlers(h *remote.Owned, cmd *cobra.Command, run func(cmd *cobra.Command, args []string) error) {
	h.Over(cmd, "the client whose jobs it runs (default: all clients that have no handler of the type themselves)", "TYPE", run)
	config.CompleteFlag(cmd, "client", remote.ClientNames)
}

func newHandlerPut() *cobra.Command {
	var h remote.Owned
	var lang string
	var noCheck bool
	var document handler.Document
	var version int
	cmd := &cobra.Command{
		Use:   "put TYPE FILE",
		Short: "Store a version of a handler",
		Long: `Store a version of the handler of a type. The name of the file says what it is:

  .js, .py, .php, .sh   a script, in the language of --lang if that is given
  .toml                 the manifest of a WASI guest
  .json                 the document of a handler, as in PUT /handlers/{type}

- is a document on standard input, or with --lang a script. If the newest version is the same, nothing is stored.

A script defines handle, which gets the payload and the job, and returns the output. In Python it must have both parameters.

  node    function handle(payload, job) { return payload.toUpperCase() }
  python  def handle(payload, job): return payload.upper()
  php     function handle($payload, $job) { return strtoupper($payload); }
  sh      handle() { printf %s "$1" | tr a-z A-Z; }

job has id, client, type, attempt, max_attempts, meta and payload. If handle throws or raises Fail('why'), the job has
failed for good; after any other exception it runs again while it has attempts left. What it prints goes into the log of
the runner.

If this machine has an interpreter of the language, the script is loaded here first, in the sandbox of a runner and without a
job. One that cannot be loaded, or takes longer than 10 seconds, is not stored, unless --no-check is given.`,
		Example: `  daybook handler put resize resize.py
  echo '{"kind": "http", "url": "http://127.0.0.1:8080/resize"}' | daybook handler put resize -`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return config.Once(remote.TypeNames)(cmd, args, text)
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	h.Check = func(cmd *cobra.Command, args []string) (err error) {
		if document, err = readHandler(cmd, args[1], lang); err != nil || noCheck {
			return err
		}
		if err := work.TryHandler(cmd.Context(), &document); err != nil {
			return terminal.Usage(err)
		}
		return nil
	}
	overHandlers(&h, cmd, func(cmd *cobra.Command, args []string) error {
		stored, err := h.Client.PutHandler(cmd.Context(), h.Owner, args[0], document, remote.OnlyIf(cmd, version)...)
		if err != nil {
			return err
		}
		return h.Show(stored.Text, "%s version %d\n", stored.Type, stored.Version)
	})
	cmd.Flags().StringVar(&lang, "lang", "", "the language of a script: node, python, php, sh")
	config.CompleteFlag(cmd, "lang", func(*cobra.Command, string) []string { return handler.Langs })
	cmd.Flags().BoolVar(&noCheck, "no-check", false, "store a script without loading it here, for example because only runners have its modules")
	remote.StoreFlags(cmd, &version)
	remote.JSONFlag(cmd, &h.AsJSON)
	return cmd
}

// langOf are the languages of scripts by the extensions of their files.
var langOf = map[string]string{".js": handler.Node, ".mjs": handler.Node, ".py": handler.Python, ".php": handler.PHP, ".sh": handler.Shell}

// maxHandlerFile is longer than any handler that a server accepts.
const maxHandlerFile int64 = 4 << 20

// readHandler reads the handler in a file.
func readHandler(cmd *cobra.Command, name, lang string) (document handler.Document, err error) {
	in := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return document, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxHandlerFile+1))
	if err != nil {
		return document, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(text)) > maxHandlerFile {
		return document, terminal.Usagef("%s has more than %s", name, terminal.SizeText(maxHandlerFile))
	}
	end := filepath.Ext(name)
	if lang == "" {
		lang = langOf[end]
	}
	switch {
	case lang != "":
		return handler.Document{Kind: handler.Script, Lang: lang, Source: string(text)}, nil
	case end == ".toml":
		document, err = manifest.Parse(text)
	case end == ".json" || name == "-":
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields() // a misspelt field would be silently ignored
		if err = d.Decode(&document); err == nil && d.More() {
			err = errors.New("there is more than one JSON value")
		}
	default:
		err = errors.New("is it a script? name its language with --lang")
	}
	if err != nil {
		err = terminal.Usagef("%s: %w", name, err)
	}
	return document, err
}

func newHandlerGet() *cobra.Command {
	var h remote.Owned
	var version int
	cmd := &cobra.Command{
		Use:   "get TYPE",
		Short: "Show a version of a handler",
		Long: `Show the newest version of the handler of a type, or the one of --version: the source of a script, or the document of
another kind. With --json, the document and what the server knows of it.`,
		Example:           "  daybook handler get resize",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: config.Once(remote.HandlerTypes),
	}
	overHandlers(&h, cmd, func(cmd *cobra.Command, args []string) error {
		stored, err := h.Client.Handler(cmd.Context(), h.Owner, args[0], version)
		switch {
		case err != nil:
			return err
		case h.AsJSON:
			return remote.WriteDocument(h.Out, stored.Text)
		case stored.Document.Kind == handler.Script:
			_, err = io.WriteString(terminal.Plain(h.Out), stored.Document.Source)
			return err
		}
		return json.NewEncoder(h.Out).Encode(stored.Document)
	})
	cmd.Flags().IntVar(&version, "version", 0, "which version (default: the newest)")
	remote.JSONFlag(cmd, &h.AsJSON)
	return cmd
}

func newHandlerList() *cobra.Command {
	var h remote.Command
	cmd := remote.Connected(&h, &cobra.Command{
		Use:     "ls",
		Short:   "List the handlers",
		Long:    "List the handlers of all clients, each in its newest version.",
		Example: `  daybook handler ls`,
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, _ []string) error {
		list, err := remote.Collect(h.Client.Handlers(cmd.Context()))
		if err != nil {
			return err
		}
		text := func(found client.StoredHandler) []byte { return found.Text }
		return remote.PrintList(&h, list, text, "there are no stored handlers", func(row func(...any)) {
			row("CLIENT", "TYPE", "KIND", "VERSION", "SIZE", "STORED")
			for _, found := range list {
				row(terminal.OrDash(found.Client), found.Type, found.Kind, found.Version, terminal.SizeText(found.Bytes), terminal.Moment(found.CreatedAt))
			}
		})
	})
	remote.LinesFlag(cmd, &h.AsJSON, "handler")
	return cmd
}

func newHandlerHistory() *cobra.Command {
	var h remote.Owned
	cmd := &cobra.Command{
		Use:   "history TYPE",
		Short: "Show the last 20 changes of a handler",
		Long: `Show the last 20 changes of the handler of a type, the newest first, also if it was removed. "daybook handler get
--version" shows what was stored then, unless the handler was removed later: such a version is gone.`,
		Example:           "  daybook handler history resize",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: config.Once(remote.HandlerTypes),
	}
	overHandlers(&h, cmd, func(cmd *cobra.Command, args []string) error {
		all, err := h.Client.HandlerHistory(cmd.Context(), h.Owner, args[0])
		if err != nil {
			return err
		}
		list := make([]remote.Change, len(all))
		for i, v := range all {
			list[i] = remote.Change{v.Version, v.Deleted, v.Gone, v.Bytes, v.By, v.CreatedAt, v.Text}
		}
		return h.PrintHistory(list)
	})
	remote.LinesFlag(cmd, &h.AsJSON, "version")
	return cmd
}

func newHandlerRemove() *cobra.Command {
	var h remote.Owned
	var version int
	cmd := &cobra.Command{
		Use:               "rm TYPE",
		Short:             "Remove a handler",
		Long:              "Remove the handler of a type with the documents of all versions. Its history stays. Jobs of the type wait until a runner has another handler for it.",
		Example:           "  daybook handler rm resize",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: config.Once(remote.HandlerTypes),
	}
	overHandlers(&h, cmd, func(cmd *cobra.Command, args []string) error {
		err := h.Client.DeleteHandler(cmd.Context(), h.Owner, args[0], remote.OnlyIf(cmd, version)...)
		if err == nil && h.AsJSON {
			err = json.NewEncoder(h.Out).Encode(removal{Operation: "remove", Client: h.Owner, Type: args[0]})
		}
		return err
	})
	remote.RemoveFlags(cmd, &version)
	remote.JSONFlag(cmd, &h.AsJSON)
	return cmd
}

// removal is the JSON output for a handler or a fileset that was removed. Client is "" if it was for all clients.
type removal struct {
	Operation string `json:"operation"`
	Client    string `json:"client"`
	Type      string `json:"type,omitzero"`
	Name      string `json:"name,omitzero"`
}
