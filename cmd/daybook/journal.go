package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cluster"
	"github.com/daybookq/daybook/cmd/daybook/internal/datadir"
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
docs/reference/format-journal.md describes them. The server must be stopped.

A node of a cluster has a log of entries instead, with commands in them. The commands are read up to the
commit index that the node last wrote down.`,
		Example: `  daybook journal verify --data /var/lib/daybook`,
	}
	return terminal.Group(cmd, newJournalDump(), newJournalVerify(), newJournalGiveUp())
}

// offline finds a data directory and locks it.
func offline(data string) (d *datadir.Directory, release func() error, err error) {
	if d, err = datadir.Find(data); err != nil {
		return nil, nil, err
	}
	release, err = d.Lock()
	return d, release, err
}

func newJournalDump() *cobra.Command {
	var data string
	var from, to uint64
	var asJSON, bodies bool
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Print the records",
		Long: `Print the records as they are in the journal, or with --json as one object per line. Use --bodies=false
to leave out the bodies, which contain the payloads. The first damage ends the output with an error.

The commands of a node are printed as a single server writes them. With --json or --bodies=false, they also
have the index and the term of their entry. A mark is in the place of a command that the leader refused.`,
		Example: `  daybook journal dump --data /var/lib/daybook --from 812 --to 812
  daybook journal dump --json --bodies=false | jq 'select(.verb == "claim")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			d, release, err := offline(data)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, release()) }()
			p := recordPrinter{out: cmd.OutOrStdout(), asJSON: asJSON, bodies: bodies, node: d.Node}
			for r, err := range d.Commands(from) {
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
	node   *cluster.Stopped // nil: a single server
	text   []byte
}

func (p *recordPrinter) print(r *journal.Record) error {
	if p.asJSON {
		return p.printJSON(r)
	}
	if p.bodies {
		p.text = append(p.text[:0], journal.AppendRecord(nil, r)[1:]...) // without the newline before it
	} else {
		p.text = fmt.Appendf(p.text[:0], "#:%s seq=%d at=%d synced=%d bytes=%d ", r.Verb, r.Seq, r.At, r.Synced, len(r.Body))
		if p.node != nil {
			index, term := p.node.Entry()
			p.text = fmt.Appendf(p.text, "index=%d term=%d ", index, term)
		}
		p.text = append(append(p.text, r.Fields...), '\n')
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
		Index   uint64  `json:"index,omitzero"`
		Term    uint64  `json:"term,omitzero"`
		Fields  string  `json:"fields"`
		Body    *string `json:"body,omitempty"`
		BodyB64 *string `json:"body_b64,omitempty"`
	}{Verb: r.Verb, Seq: r.Seq, At: r.At, Synced: r.Synced, Bytes: len(r.Body), Fields: string(r.Fields)}
	if p.node != nil {
		d.Index, d.Term = p.node.Entry()
	}
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
do. Nothing is changed.

For a node of a cluster, also check the indexes and terms of the entries, and that no committed entry is
missing or was replaced. Entries after the commit index are counted.`,
		Example: `  daybook journal verify --data /var/lib/daybook`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			d, release, err := offline(data)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, release()) }()
			report, err := d.Verify()
			if err != nil {
				return err
			}
			if asJSON {
				err = printVerifiedJSON(cmd.OutOrStdout(), &report, d.Node)
			} else {
				err = printVerified(cmd.OutOrStdout(), &report, d.Node)
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
			d, release, err := offline(data)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, release()) }()
			if err := d.SingleOnly("the other nodes count on the entries that it has acknowledged, so none may be removed. Remove the node from the cluster, empty the directory, and let it join under another name"); err != nil {
				return err
			}
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

func printVerifiedJSON(w io.Writer, r *journal.Report, node *cluster.Stopped) error {
	d := map[string]any{
		"uuid": r.UUID, "volumes": len(r.Volumes), "first": r.First, "last": r.Last, "last_at": r.LastAt, "synced": r.Synced,
		"records": r.Records, "bytes": r.Bytes, "verbs": r.Verbs, "case": r.Case, "verdict": fmt.Sprint(r.Verdict), "damage": nil,
	}
	if r.Damage != nil {
		d["damage"] = map[string]any{
			"file": r.Damage.File, "offset": r.Damage.Offset, "seq": r.Damage.Seq, "reason": r.Damage.Reason, "next": r.Damage.Next,
		}
	}
	if node != nil {
		l := &node.Log
		d["node"] = map[string]any{
			"node": node.Identity.Node, "cluster": node.Cluster, "uuid": node.UUID, "term": l.Term, "commit": l.Commit, "base": l.Base, "base_term": l.BaseTerm, "first": l.First, "last": l.Last,
			"first_seq": l.FirstSeq, "last_seq": l.LastSeq, "last_at": l.LastAt, "verbs": l.Verbs,
		}
	}
	return json.NewEncoder(w).Encode(d)
}

// printVerified prints the report about a log. node is nil for the journal of a single server.
func printVerified(w io.Writer, r *journal.Report, node *cluster.Stopped) error {
	return terminal.Table(w, func(row func(...any)) {
		if node != nil {
			row("node", fmt.Sprintf("%s of cluster %s", node.Identity.Node, node.Cluster))
			row("journal", node.UUID)
		} else {
			row("journal", r.UUID)
		}
		row("volumes", len(r.Volumes))
		row("bytes", terminal.SizeText(r.Bytes))
		row("records", r.Records)
		if r.Records > 0 {
			row("seqs", fmt.Sprintf("%d … %d", r.First, r.Last))
			row("last", terminal.Moment(r.LastAt))
		}
		rowVerbs(row, r.Verbs)
		if node != nil {
			rowEntries(row, &node.Log)
		}
		row("tail", r.Case)
		row("a start would", r.Verdict)
	})
}

func rowVerbs(row func(...any), verbs map[string]uint64) {
	for _, verb := range slices.Sorted(maps.Keys(verbs)) {
		row("  "+verb, verbs[verb])
	}
}

// rowEntries prints the report about the entries of a node.
func rowEntries(row func(...any), l *cluster.StoppedLog) {
	row("term", l.Term)
	if l.Base > 0 {
		row("base", fmt.Sprintf("entry %d of term %d", l.Base, l.BaseTerm))
	}
	if l.Last < l.First {
		row("entries", "none")
	} else {
		row("entries", fmt.Sprintf("%d … %d", l.First, l.Last))
	}
	if l.Last > l.Commit {
		row("committed", fmt.Sprintf("up to %d; entries after it: %d", l.Commit, l.Last-l.Commit))
	} else {
		row("committed", fmt.Sprintf("up to %d", l.Commit))
	}
	if l.FirstSeq > 0 {
		row("commands", fmt.Sprintf("%d … %d", l.FirstSeq, l.LastSeq))
		row("last command", terminal.Moment(l.LastAt))
	}
	rowVerbs(row, l.Verbs)
}
