package remote

import (
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// ChangeFlags adds the flags of a command that changes a handler or a fileset. The client of the command sends --by.
func ChangeFlags(cmd *cobra.Command, version *int) {
	cmd.Flags().IntVar(version, "if-version", 0, "change it only if this is its newest version; 0: only if there is none")
	cmd.Flags().String("by", "", "who changes a handler or fileset, for its history (default: your user name and the name of this machine)")
}

// OnlyIf returns what the flags require of the stored version.
func OnlyIf(cmd *cobra.Command, version int) []client.IfVersion {
	if !cmd.Flags().Changed("if-version") {
		return nil
	}
	return []client.IfVersion{client.IfVersion(version)}
}

// changer returns who runs a command, for the histories of what the command changes.
func changer(cmd *cobra.Command) (by string) {
	flag := cmd.Flags().Lookup("by")
	if flag == nil {
		return ""
	}
	if by = flag.Value.String(); by == "" {
		if me, err := user.Current(); err == nil {
			by = me.Username
		}
		if host, err := os.Hostname(); err == nil {
			by += "@" + host
		}
	}
	return ShortenedBy(by)
}

// ShortenedBy returns the part of a name that histories keep.
func ShortenedBy(by string) string { return by[:min(len(by), job.MaxByBytes)] }

// Change is a line of a history.
type Change struct {
	Number        int
	Deleted, Gone bool
	Bytes         int64
	By            string
	At            int64
	Text          []byte // the server's document
}

// PrintHistory writes the versions of a handler or fileset.
func (r *Command) PrintHistory(list []Change) error {
	if r.AsJSON {
		for i := range list {
			if err := WriteDocument(r.Out, list[i].Text); err != nil {
				return err
			}
		}
		return nil
	}
	return terminal.Table(r.Out, func(row func(...any)) {
		row("VERSION", "CHANGE", "SIZE", "BY", "AT")
		for _, v := range list {
			verb, size, by := "stored", terminal.SizeText(v.Bytes), v.By
			switch {
			case v.Deleted:
				verb, size = "deleted", "-"
			case v.Gone:
				verb = "stored, gone"
			}
			if by == "" {
				by = "-"
			}
			row(v.Number, verb, size, by, terminal.Moment(v.At))
		}
	})
}
