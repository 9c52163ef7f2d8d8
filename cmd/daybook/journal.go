package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/journal"
)

func newJournal() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Read or repair the journal of a stopped server",
		Long: `Read or repair the journal, which has every command that changed state, in order. Its records are text;
docs/reference/format-journal.md describes them. The server must be stopped.`,
		Example: `  daybook journal verify --data /var/lib/daybook`,
	}
	return terminal.Group(cmd, newJournalDump(), newJournalVerify(), newJournalGiveUp())
}

// offline locks the data directory, so that no server writes the journal during the command. A half-written group would
// look like damage.
func offline(data string) (release func() error, err error) {
	if err := mustExist(data); err != nil {
		return nil, err
	}
	lock, err := ingest.Lock(data)
	if err != nil {
		return nil, err
	}
	return lock.Close, nil
}

func newJournalDump() *cobra.Command {
	var data string
	var from, to uint64
	var asJSON, bodies bool
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Print the records",
		Long: `Print the records as they are in the journal, or with --json as one object per line. Use --bodies=false
to leave out the bodies, which contain the payloads. The first damage ends the output with an error.`,
		Example: `  daybook journal dump --data /var/lib/daybook --from 812 --to 812
  daybook journal dump --json --bodies=false | jq 'select(.verb == "claim")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			release, err := offline(data)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, release()) }()
			p := recordPrinter{out: cmd.OutOrStdout(), asJSON: asJSON, bodies: bodies}
			for r, err := range journal.Scan(ingest.JournalDir(data), from) {
				if err != nil {
					return err
				}
				if to > 0 && r.Seq > to {
					return nil
				}
				if err := p.print(&r); err != nil {
					return err
				}
			}
			return nil
		},
	}
	dataFlag(cmd, &data)
	cmd.Flags().Uint64Var(&from, "from", 1, "first seq")
	cmd.Flags().Uint64Var(&to, "to", 0, "last seq; 0 means all")
	cmd.Flags().BoolVar(&bodies, "bodies", true, "print the bodies")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one record per line")
	return cmd
}

// recordPrinter prints the records of a journal. Without bodies, it prints only their headers.
type recordPrinter struct {
	out    io.Writer
	asJSON bool
	bodies bool
	text   []byte
}

func (p *recordPrinter) print(r *journal.Record) error {
	if p.asJSON {
		return p.printJSON(r)
	}
	if p.bodies {
		p.text = append(p.text[:0], journal.AppendRecord(nil, r)[1:]...) // without the newline before it
	} else {
		p.text = fmt.Appendf(p.text[:0], "#:%s seq=%d at=%d synced=%d bytes=%d %s\n", r.Verb, r.Seq, r.At, r.Synced, len(r.Body), r.Fields)
	}
	_, err := p.out.Write(p.text)
	return err
}

func (p *recordPrinter) printJSON(r *journal.Record) error {
	d := struct {
		Verb    string  `json:"verb"`
		Seq     uint64  `json:"seq"`
		At      int64   `json:"at"`
		Synced  uint64  `json:"synced"`
		Bytes   int     `json:"bytes"`
		Fields  string  `json:"fields"`
		Body    *string `json:"body,omitempty"`
		BodyB64 *string `json:"body_b64,omitempty"`
	}{r.Verb, r.Seq, r.At, r.Synced, len(r.Body), string(r.Fields), nil, nil}
	if p.bodies {
		text := string(r.Body)
		if utf8.ValidString(text) {
			d.Body = &text
		} else {
			text = base64.StdEncoding.EncodeToString(r.Body)
			d.BodyB64 = &text
		}
	}
	out := json.NewEncoder(p.out)
	out.SetEscapeHTML(false)
	return out.Encode(d)
}

func newJournalVerify() *cobra.Command {
	var data string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read every record and check it",
		Long: `Read the whole journal, and check every checksum and the order of the records. Print what a start would
do. Nothing is changed.`,
		Example: `  daybook journal verify --data /var/lib/daybook`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			release, err := offline(data)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, release()) }()
			report, err := journal.Verify(ingest.JournalDir(data))
			if err != nil {
				return err
			}
			if asJSON {
				err = printVerifiedJSON(cmd.OutOrStdout(), &report)
			} else {
				err = printVerified(cmd.OutOrStdout(), &report)
			}
			if err == nil && report.Damage != nil {
				return report.Damage
			}
			return err
		},
	}
	dataFlag(cmd, &data)
	remote.JSONFlag(cmd, &asJSON)
	return cmd
}

func newJournalGiveUp() *cobra.Command {
	var data string
	var last uint64
	cmd := &cobra.Command{
		Use:   "give-up",
		Short: "Remove everything after a record, as the last resort",
		Long: `Remove everything after the record --last from the journal. This is the only command that loses
acknowledged jobs. Use it only if the server refuses to start because of damage, and neither the damaged
file nor a backup can be restored. ` + "`daybook journal verify`" + ` prints the last intact record.

The removed part is moved to a directory whose name is printed. Afterwards the store may be ahead of the
journal; rebuild it with ` + "`daybook rebuild`" + `.`,
		Example: `  daybook journal verify && daybook journal give-up --last 811 && daybook rebuild`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if last == 0 {
				return terminal.Usage(errors.New("--last is missing: the seq of the last record to keep"))
			}
			release, err := offline(data)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, release()) }()
			kept, err := journal.GiveUp(ingest.JournalDir(data), last)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the journal ends with record %d; everything after it is kept in %s\n", last, kept)
			return err
		},
	}
	dataFlag(cmd, &data)
	cmd.Flags().Uint64Var(&last, "last", 0, "seq of the last record to keep")
	return cmd
}

func printVerifiedJSON(w io.Writer, r *journal.Report) error {
	d := map[string]any{
		"uuid": r.UUID, "volumes": len(r.Volumes), "first": r.First, "last": r.Last, "last_at": r.LastAt, "synced": r.Synced,
		"records": r.Records, "bytes": r.Bytes, "verbs": r.Verbs, "case": r.Case, "verdict": fmt.Sprint(r.Verdict), "damage": nil,
	}
	if r.Damage != nil {
		d["damage"] = map[string]any{
			"file": r.Damage.File, "offset": r.Damage.Offset, "seq": r.Damage.Seq, "reason": r.Damage.Reason, "next": r.Damage.Next,
		}
	}
	return json.NewEncoder(w).Encode(d)
}

func printVerified(w io.Writer, r *journal.Report) error {
	return terminal.Table(w, func(row func(...any)) {
		row("journal", r.UUID)
		row("volumes", len(r.Volumes))
		row("bytes", terminal.SizeText(r.Bytes))
		row("records", r.Records)
		if r.Records > 0 {
			row("seqs", fmt.Sprintf("%d … %d", r.First, r.Last))
			row("last", terminal.Moment(r.LastAt))
		}
		verbs := make([]string, 0, len(r.Verbs))
		for verb := range r.Verbs {
			verbs = append(verbs, verb)
		}
		slices.Sort(verbs)
		for _, verb := range verbs {
			row("  "+verb, r.Verbs[verb])
		}
		row("tail", r.Case)
		row("a start would", r.Verdict)
	})
}
