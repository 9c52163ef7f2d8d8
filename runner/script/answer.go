package script

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/script/protocol"
	"github.com/daybookq/daybook/runner/task"
)

// maxDelay bounds the delay of a retry. Without it, an absurd number from a script could overflow to a negative delay.
const maxDelay = 365 * 24 * time.Hour

// endOf returns the end of a run from the host's answer. outputBytes bounds the output.
func endOf(m *protocol.Message, p *prints, e protocol.Encoding, outputBytes int64) task.End {
	output, kind, err := outputOf(m, e)
	if e == protocol.Base64 { // the output is the text that the job printed
		if int64(len(output)) > outputBytes {
			p.finish()
			return tooLarge(fmt.Sprintf("more than %d bytes", outputBytes), outputBytes)
		}
		output = p.cutJobs(output)
		if len(output) == 0 {
			kind = client.None
		}
	}
	then, bad := p.finish()
	switch {
	case m.Code == "retry" && m.DelayMs != nil:
		return task.Retry(m.Error, min(time.Duration(max(0, min(*m.DelayMs, maxDelay.Milliseconds())))*time.Millisecond, maxDelay))
	case m.Code == "retry":
		return task.Retry(m.Error, -1)
	case m.Code == "error":
		return task.Error(m.Error)
	case m.Code != "ok" && m.Code != "failed":
		return task.Error(fmt.Sprintf("its host answered with the unknown code %.100q", m.Code))
	case bad != "":
		return task.Error(bad)
	case m.Code == "failed":
		end := task.Failed(m.Error)
		end.Then = then
		return end
	case err != nil:
		return task.Error(err.Error())
	case int64(len(output)) > outputBytes:
		return tooLarge(fmt.Sprintf("%d bytes", len(output)), outputBytes)
	}
	end := task.OK(output, kind)
	end.Then = then
	return end
}

// tooLarge fails a job whose output is too large, because a retry would return the same output.
func tooLarge(size string, outputBytes int64) task.End {
	return task.Failed(fmt.Sprintf("the output has %s; options.output_bytes allows %d", size, outputBytes))
}

// outputOf returns the output in an answer, and its kind.
func outputOf(m *protocol.Message, e protocol.Encoding) ([]byte, client.Kind, error) {
	if e == protocol.Base64 {
		if utf8.Valid(m.OutputB64) {
			return m.OutputB64, client.Text, nil
		}
		return m.OutputB64, client.Bytes, nil
	}
	if m.OutputB64 != nil {
		return m.OutputB64, client.Bytes, nil
	}
	if text, whole, ok := m.Text(); ok && !whole {
		return nil, client.None, errors.New("the output is a text with a lone surrogate, which UTF-8 does not have; return bytes, or a valid text")
	} else if ok {
		return []byte(text), client.Text, nil
	}
	switch {
	case m.Output == nil || m.Output.Kind() == 'n':
		return nil, client.None, nil
	case !jsontext.Value(m.Output).IsValid(): // a text has a lone surrogate, or an object a duplicate name
		return nil, client.None, fmt.Errorf("the output is not valid JSON: %.200s", m.Output)
	}
	return m.Output, client.JSON, nil
}
