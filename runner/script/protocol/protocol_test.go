package protocol

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// decoded reads a line as any JSON library would.
func decoded(t *testing.T, line []byte) map[string]any {
	t.Helper()
	text, ok := strings.CutSuffix(string(line), "\n")
	testkit.MustHold(t, ok && !strings.Contains(text, "\n"), string(line), "is not one line")
	fields := map[string]any{}
	testkit.NoError(t, json.Unmarshal([]byte(text), &fields), string(line))
	return fields
}

func TestJob(t *testing.T) {
	const head = `{"id":"a","attempt":2,"max_attempts":3,"kind":`
	for _, c := range []struct {
		job           client.Job
		plain, base64 string
	}{
		{client.Job{Kind: client.Text, Payload: []byte("a\n\"ü\x00")}, `"text","payload":"a\n\"ü\u0000"}`, `"text","payload_b64":"YQoiw7wA"}`},
		{client.Job{Kind: client.Text}, `"text","payload":""}`, `"text","payload_b64":""}`},
		{client.Job{Kind: client.Text, Payload: []byte("\xff")}, `"text","payload_b64":"/w=="}`, `"text","payload_b64":"/w=="}`},
		{client.Job{Kind: client.JSON, Payload: []byte("{\"a\":\r\n[1]}")}, `"json","payload":{"a":` + "\r" + ` [1]}}`, `"json","payload_b64":"eyJhIjoNClsxXX0="}`},
		{client.Job{Kind: client.Bytes, Payload: []byte{0xff}}, `"bytes","payload_b64":"/w=="}`, `"bytes","payload_b64":"/w=="}`},
		{client.Job{}, `""}`, `""}`},
		{client.Job{Kind: client.WASI}, `"wasi"}`, `"wasi"}`},
		{client.Job{Meta: map[string]string{"b": "\"", "a": "ü\xff"}, Traceparent: "00-1"}, `"","traceparent":"00-1","meta":{"a":"ü` + "\ufffd" + `","b":"\""}}`, `"","traceparent":"00-1","meta_b64":"eyJhIjoiw7zvv70iLCJiIjoiXCIifQ=="}`},
	} {
		c.job.ID, c.job.RunAttempts, c.job.MaxAttempts = "a", 2, 3
		for e, want := range map[Encoding]string{Plain: c.plain, Base64: c.base64} {
			got := AppendJob([]byte("before"), &c.job, e)
			testkit.Equal(t, string(got), "before"+head+want+"\n", c.job)
			decoded(t, got[len("before"):])
		}
	}
}

func TestCheckJob(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`[{"a":`, n/2) + "1" + strings.Repeat("}]", n/2) }
	for payload, ok := range map[string]bool{
		`{"a":[1,"x"]}`: true, nested(MaxDepth): true, nested(MaxDepth + 2): false,
		`"` + strings.Repeat("[", 2*MaxDepth) + `"`: true, `"` + strings.Repeat(`\"[`, 2*MaxDepth) + `"`: true,
		strings.Repeat("[],", 0) + "[" + strings.Repeat("[],", MaxDepth) + "1]": true,
		"": false, "{": false, "1\n2": false, "\"\n\"": false, "[1],[2": false, strings.Repeat("[", MaxDepth): false,
	} {
		j := client.Job{Kind: client.JSON, Payload: []byte(payload)}
		err := CheckJob(&j)
		testkit.Equal(t, err == nil, ok, payload, err)
		j.Kind = client.Text
		testkit.Check(t, CheckJob(&j), "text", payload)
	}
}

func TestLoadAndBatch(t *testing.T) {
	l := Load{Number: 3, Source: "a\nü", Before: "b"}
	plain, err := l.Append(nil, Plain)
	testkit.Holds(t, err == nil &&
		reflect.DeepEqual(decoded(t, plain), map[string]any{"load": 3.0, "source": "a\nü", "before": "b"}), string(plain), err)
	encoded, err := l.Append(nil, Base64)
	testkit.Holds(t, err == nil && string(encoded) == `{"load":3,"source_b64":"YQrDvA==","before_b64":"Yg=="}`+"\n", string(encoded), err)
	batch := Batch{Jobs: 2, Handler: 3, Client: "a\"", Type: "t", OutputBytes: 9}.Append(nil)
	testkit.Equal(t, string(batch), `{"batch":2,"handler":3,"client":"a\"","type":"t","output_bytes":9}`+"\n")
}

func TestDecode(t *testing.T) {
	for line, want := range map[string]string{
		`{"job":0,"code":"ok","output":"a\ud800"}`:                  "text a\ufffd",
		`{"job":0,"code":"ok","output":"\u00fc\n"}`:                 "text ü\n",
		`{"job":0,"code":"ok","output":{"a":1}}`:                    `json {"a":1}`,
		`{"job":0,"code":"ok","output_b64":"/w=="}`:                 "bytes \xff",
		`{"job":0,"code":"failed","error_b64":"YQ==","delay_ms":5}`: "error a",
		`{"prints_b64":"YQ=="}`:                                     "prints a",
		`{"job":0,"code":"ok","output":{"a":1,"a":2}}`:              `json {"a":1,"a":2}`,
		`{"loaded":1}`:           "",
		`{"job":0,"unknown":1}`:  "",
		``:                       "refused",
		`{}`:                     "refused",
		`[]`:                     "refused",
		`null`:                   "refused",
		`{"job":1.5}`:            "refused",
		`{"job":"1"}`:            "refused",
		`{"job":0,"begun":true}`: "refused",
		`{"job":0,"output":1,"output_b64":"/w=="}`:                          "refused",
		`{"job":0,"output_b64":"*"}`:                                        "refused",
		`{"job":99999999999999999999}`:                                      "refused",
		`{"job":0} {"job":1}`:                                               "refused",
		`{"job":0,"code":"ok"`:                                              "refused",
		`{"job":0,"output":` + strings.Repeat("[", 20_000):                  "refused",
		`{"job":0,"delay_ms":-1}`:                                           "",
		`{"job":0,"prints":"` + strings.Repeat("x", 100_000) + `"}`:         "prints " + strings.Repeat("x", 100_000),
		`{"job":0,"code":"ok","output":"` + strings.Repeat("\\n", 9) + `"}`: "text " + strings.Repeat("\n", 9),
	} {
		m, err := Decode([]byte(line))
		got := ""
		switch {
		case err != nil:
			got = "refused"
			testkit.Holds(t, len(err.Error()) <= 2000, "the error has", len(err.Error()), "bytes")
		case m.OutputB64 != nil:
			got = "bytes " + string(m.OutputB64)
		case m.Error != "":
			got = "error " + m.Error
		case m.Prints != "":
			got = "prints " + m.Prints
		case m.Output != nil:
			if text, _, ok := m.Text(); ok {
				got = "text " + text
			} else {
				got = "json " + string(m.Output)
			}
		}
		testkit.Equal(t, got, want, line)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("y", 200_000)
	for name, r := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "by halves": iotest.HalfReader} {
		l := NewLines(r(strings.NewReader("a\n\n" + long + "\nb\n" + long + "z\nc\n" + strings.Repeat(long, 20) + "\nd\nhalf")))
		for _, want := range []string{"a", "", long, "b", "TOO LONG", "c", "TOO LONG", "d", "EOF"} {
			line, err := l.Next(len(long) + 1)
			got := string(line)
			switch {
			case errors.Is(err, ErrTooLong):
				got = "TOO LONG"
			case err == io.EOF:
				got = "EOF"
			case err != nil:
				t.Fatal(err)
			}
			testkit.MustEqual(t, got, want, name)
		}
		testkit.Holds(t, cap(l.long) <= keptBytes, name, "it keeps", cap(l.long), "bytes")
	}
}

// FuzzDecode: no line makes the decoder panic, and each line that it accepts is exactly one message.
func FuzzDecode(f *testing.F) {
	for _, line := range []string{`{"job":0,"code":"ok","output":"a"}`, `{"loaded":1,"error":"x"}`, `{"prints":"a"}`, `{"done":true}`, `{"begun":true}`, `{"job":1,"output_b64":"YQ==","delay_ms":5}`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := Decode(line)
		if err != nil {
			return
		}
		m.Text()
		testkit.Holds(t, m.Job == nil || !m.Done && !m.Begun && m.Loaded == nil, string(line), "is accepted as several messages")
	})
}

// FuzzJob: whatever fields a job has, its message is one line that contains the payload.
func FuzzJob(f *testing.F) {
	f.Add("id", "text", []byte("a\nb"), "meta")
	f.Add("id", "json", []byte("{\n\"a\":1}"), "")
	f.Fuzz(func(t *testing.T, id, kind string, payload []byte, meta string) {
		j := &client.Job{ID: id, Kind: client.Kind(kind), Payload: payload, Meta: map[string]string{meta: meta}}
		if CheckJob(j) != nil {
			return
		}
		for _, e := range []Encoding{Plain, Base64} {
			fields := decoded(t, AppendJob(nil, j, e))
			_, ok := fields["id"].(string)
			testkit.Holds(t, ok, "no id", fields)
		}
	})
}

// TestDecodeOK: decodeOK returns the same as the JSON library, or declines.
func TestDecodeOK(t *testing.T) {
	short := 0
	for _, number := range []string{"0", "7", "10", "99", "999999", "1000000", "99999999999999999999", "00", "01", "-1", "1.0", "1e1", "", " 1", "1 ", "x"} {
		line := []byte(okHead + number + okTail)
		job, ok := decodeOK(line)
		if !ok {
			continue
		}
		short++
		m, err := decode(line)
		testkit.Holds(t, err == nil && m.Job != nil && *m.Job == job && m.Code == "ok", string(line), job, "but", m, err)
		quick := testkit.Must(Decode(line))(t)
		testkit.Holds(t, reflect.DeepEqual(quick, m), string(line), quick, "and", m)
	}
	testkit.Equal(t, short, 5, "the short way was taken", "times")
	for _, line := range []string{`{"job":1,"code":"ok"`, `{"job":1,"code":"ok"} `, `{"job":1,"code":"ok","output":1}`, `{"jab":1,"code":"ok"}`, okHead, okTail} {
		_, ok := decodeOK([]byte(line))
		testkit.Holds(t, !ok, line, "is taken for an answer")
	}
}
