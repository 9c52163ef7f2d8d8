package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

func newMan() *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long: `Write a manual page for each command into a directory: daybook.1, daybook-add.1, and so on; and pages about exit codes,
environment variables and configuration files: daybook-exit-codes.1, for example. The time in the pages
is that of the variable SOURCE_DATE_EPOCH, if it is set. With --markdown the pages are Markdown: daybook.md,
daybook-add.md, and so on, without the pages about other subjects.`,
		Example: "  daybook man /usr/local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			if markdown {
				return markdownPages(root, args[0])
			}
			header := doc.GenManHeader{Section: "1", Source: "daybook " + version, Manual: "Daybook"}
			if os.Getenv("SOURCE_DATE_EPOCH") == "" {
				today := time.Now()
				header.Date = &today
			}
			manText(root)
			err := doc.GenManTree(root, &header, args[0])
			for _, topic := range root.Commands() {
				if err == nil && topic.IsAdditionalHelpTopicCommand() { // GenManTree skips these
					err = manTopic(topic, header, filepath.Join(args[0], "daybook-"+topic.Name()+".1"))
				}
			}
			if err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write Markdown, as the site has it")
	return cmd
}

// markdownPages writes the page of a command and of each of its subcommands.
func markdownPages(cmd *cobra.Command, dir string) error {
	cmd.DisableAutoGenTag = true
	for _, sub := range cmd.Commands() {
		if sub.IsAdditionalHelpTopicCommand() || !sub.IsAvailableCommand() {
			continue
		}
		if err := markdownPages(sub, dir); err != nil {
			return err
		}
	}
	var page bytes.Buffer
	if err := doc.GenMarkdownCustom(cmd, &page, func(link string) string { return strings.ReplaceAll(link, "_", "-") }); err != nil {
		return fmt.Errorf("write Markdown: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".md"), page.Bytes(), 0o644)
}

// manTopic writes the page of a help topic.
func manTopic(topic *cobra.Command, header doc.GenManHeader, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(doc.GenMan(topic, &header, f), f.Close())
}

// manText changes the texts of a command and its subcommands to Markdown, so that the manual page looks like the help:
// tables keep their lines, and flags are listed as in the help.
func manText(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		manText(c)
	}
	text := cmp.Or(cmd.Long, cmd.Short)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "    " + line // code, whose lines stay as they are
			if i > 0 && lines[i-1] != "" && !strings.HasPrefix(strings.TrimPrefix(lines[i-1], "\n"), "  ") {
				lines[i] = "\n" + lines[i] // without an empty line, it would be part of the paragraph
			}
		}
	}
	text = strings.Join(lines, "\n")
	cmd.InitDefaultHelpFlag()
	text += manFlags("OPTIONS", cmd.LocalFlags()) + manFlags("OPTIONS INHERITED FROM PARENT COMMANDS", cmd.InheritedFlags())
	cmd.Long = text
	hide := func(f *pflag.Flag) { f.Hidden = true } // otherwise cobra lists them too, with quotes and 0 as the default
	cmd.LocalFlags().VisitAll(hide)
}

// manFlags returns a section with flags. A line of FlagUsages has a flag with its value and, after some spaces, its
// description.
func manFlags(title string, flags *pflag.FlagSet) string {
	if !flags.HasAvailableFlags() {
		return ""
	}
	b := "\n\n# " + title + "\n"
	for line := range strings.Lines(flags.FlagUsages()) {
		flag, use, _ := strings.Cut(strings.TrimSpace(line), "   ")
		b += "**" + flag + "**\n\t" + strings.TrimSpace(use) + "\n\n"
	}
	return b
}
