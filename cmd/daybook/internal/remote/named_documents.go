package remote

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// StoreFlags adds the flags of a command that stores a handler or a fileset. The client of the command sends --by.
func StoreFlags(cmd *cobra.Command, version *int) {
	changeFlags(cmd, &versionFlag{version, 0}, "store it only if this is its newest version; 0: only if there is none")
}

// RemoveFlags adds the flags of a command that removes a handler or a fileset.
func RemoveFlags(cmd *cobra.Command, version *int) {
	changeFlags(cmd, &versionFlag{version, 1}, "remove it only if this is its newest version")
}

func changeFlags(cmd *cobra.Command, version *versionFlag, help string) {
	cmd.Flags().Var(version, "if-version", help)
	cmd.Flags().Var(new(byFlag), "by", "who changes a handler or fileset, for its history (default: your user name and the name of this machine)")
}

// versionFlag is the number of a version, or 0 for none where least is 0.
type versionFlag struct {
	to    *int
	least int
}

func (f *versionFlag) Set(text string) (err error) {
	if *f.to, err = strconv.Atoi(text); err != nil || *f.to < f.least {
		return fmt.Errorf("it must be a number from %d on", f.least)
	}
	return nil
}

func (f *versionFlag) String() string { return "" }
func (f *versionFlag) Type() string   { return "int" }

// byFlag is who makes a change.
type byFlag string

func (f *byFlag) Set(text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return errors.New("it must not have control characters")
	}
	*f = byFlag(text)
	return job.CheckText("it", text, 0, job.MaxByBytes)
}

func (f *byFlag) String() string { return string(*f) }
func (f *byFlag) Type() string   { return "string" }

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

// ShortenedBy returns the part of a name that histories keep, in whole characters.
func ShortenedBy(by string) string { return strings.ToValidUTF8(by[:min(len(by), job.MaxByBytes)], "") }

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
