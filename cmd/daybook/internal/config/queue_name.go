package config

import (
	"strings"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// QueueName is the name of a queue on a command line: CLIENT/TYPE.
type QueueName struct{ Client, Type string }

// ParseQueue reads the name of a queue.
func ParseQueue(text string) (q QueueName, err error) {
	var ok bool
	if q.Client, q.Type, ok = strings.Cut(text, "/"); !ok {
		return q, terminal.Usagef("%q is not a queue; name it as CLIENT/TYPE, like acme/resize", text)
	}
	if err = job.CheckName("CLIENT", q.Client); err == nil {
		err = job.CheckName("TYPE", q.Type)
	}
	if err != nil {
		return q, terminal.Usage(err)
	}
	return q, nil
}

// String returns CLIENT/TYPE.
func (q QueueName) String() string { return q.Client + "/" + q.Type }
