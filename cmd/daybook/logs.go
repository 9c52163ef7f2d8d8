package main

import (
	"errors"
	"io"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
)

func newLogs() *cobra.Command {
	var server serverAddress
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Show what a job has printed",
		Long: `Show what a job has printed. While the job runs, this is the end of its log, up to 256 KiB. With --follow,
the command goes on until the job ends; it also waits for a job that has not begun. Afterwards it is the
whole log, if the runner has stored one.`,
		Example: `  daybook logs -f 0185a1b2-c3d4-7000-8000-00000c800000`,
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: once(jobIDs(statusesStarted...)),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job ends")
	serverFlag(cmd, &server)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkIDs(args[0]); err != nil {
			return err
		}
		base, err := reach(cmd, &server)
		if err != nil {
			return err
		}
		log, err := client.New(base, client.Options{RetryFor: 5 * time.Second}).JobLog(cmd.Context(), args[0], follow)
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if isTerminal(out) {
			out = &plainText{to: out}
		}
		_, err = io.Copy(out, log)
		return errors.Join(err, log.Close())
	}
	return cmd
}

// plainText replaces control characters and bytes that are not UTF-8, with which a job could change the terminal.
type plainText struct {
	to   io.Writer
	part []byte // the beginning of a character that the next Write continues
}

func (w *plainText) Write(p []byte) (int, error) {
	rest := append(w.part, p...)
	text := make([]byte, 0, len(rest))
	for len(rest) > 0 && (utf8.FullRune(rest) || len(rest) >= utf8.UTFMax) {
		c, size := utf8.DecodeRune(rest)
		if c == utf8.RuneError && size == 1 || unicode.IsControl(c) && c != '\n' && c != '\t' {
			c = '?'
		}
		text, rest = utf8.AppendRune(text, c), rest[size:]
	}
	w.part = append([]byte(nil), rest...)
	if _, err := w.to.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}
