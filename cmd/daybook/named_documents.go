package main

import (
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// changeFlags adds the flags of a command that changes a handler or a fileset. The client of the command sends --by.
func changeFlags(cmd *cobra.Command, version *int) {
	cmd.Flags().IntVar(version, "if-version", 0, "change it only if this is its newest version; 0: only if there is none")
	cmd.Flags().String("by", "", "who changes a handler or fileset, for its history (default: your user name and the name of this machine)")
}

// onlyIf returns what the flags require of the stored version.
func onlyIf(cmd *cobra.Command, version int) []client.IfVersion {
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
	return shortened(by)
}

// shortened returns the part of a name that histories keep.
func shortened(by string) string { return by[:min(len(by), job.MaxByBytes)] }

// change is a line of a history.
type change struct {
	number        int
	deleted, gone bool
	bytes         int64
	by            string
	at            int64
	text          []byte // the server's document
}

// history writes the versions of a handler or fileset.
func history(r *remote, list []change) error {
	if r.asJSON {
		for i := range list {
			if err := writeDocument(r.out, list[i].text); err != nil {
				return err
			}
		}
		return nil
	}
	return terminal.Table(r.out, func(row func(...any)) {
		row("VERSION", "CHANGE", "SIZE", "BY", "AT")
		for _, v := range list {
			verb, size, by := "stored", terminal.SizeText(v.bytes), v.by
			switch {
			case v.deleted:
				verb, size = "deleted", "-"
			case v.gone:
				verb = "stored, gone"
			}
			if by == "" {
				by = "-"
			}
			row(v.number, verb, size, by, terminal.Moment(v.at))
		}
	})
}
