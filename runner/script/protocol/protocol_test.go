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
)

// decoded reads a line as any JSON library would.
func decoded(t *testing.T, line []byte) map[string]any {
	t.Helper()
	text, ok := strings.CutSuffix(string(line), "\n")
	if !ok || strings.Contains(text, "\n") {
		t.Fatalf("%q is not one line", line)
	}
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
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
			if string(got) != "before"+head+want+"\n" {
				t.Errorf("%+v: %s", c.job, got)
			}
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
		if err := CheckJob(&j); (err == nil) != ok {
			t.Errorf("%.50s: %v", payload, err)
		}
		j.Kind = client.Text
		if err := CheckJob(&j); err != nil {
			t.Errorf("text %.50s: %v", payload, err)
		}
	}
}

func TestLoadAndBatch(t *testing.T) {
	l := Load{Number: 3, Source: "a\nü", Before: "b"}
	plain, err := l.Append(nil, Plain)
	if err != nil || !reflect.DeepEqual(decoded(t, plain), map[string]any{"load": 3.0, "source": "a\nü", "before": "b"}) {
		t.Errorf("%s, %v", plain, err)
	}
	encoded, err := l.Append(nil, Base64)
	if err != nil || string(encoded) != `{"load":3,"source_b64":"YQrDvA==","before_b64":"Yg=="}`+"\n" {
		t.Errorf("%s, %v", encoded, err)
	}
	batch := Batch{Jobs: 2, Handler: 3, Client: "a\"", Type: "t", OutputBytes: 9}.Append(nil)
	if string(batch) != `{"batch":2,"handler":3,"client":"a\"","type":"t","output_bytes":9}`+"\n" {
		t.Errorf("%s", batch)
	}
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
			if len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
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
		if got != want {
			t.Errorf("%.100s: %.100q, not %.100q", line, got, want)
		}
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
			if got != want {
				t.Fatalf("%s: %.30q, not %.30q", name, got, want)
			}
		}
		if cap(l.long) > keptBytes {
			t.Errorf("%s: it keeps %d bytes", name, cap(l.long))
		}
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
		if m.Job != nil && (m.Done || m.Begun || m.Loaded != nil) {
			t.Errorf("%q is accepted as several messages", line)
		}
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
			if _, ok := fields["id"].(string); !ok {
				t.Errorf("no id: %v", fields)
			}
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
		if err != nil || m.Job == nil || *m.Job != job || m.Code != "ok" {
			t.Errorf("%s: %d, but %+v, %v", line, job, m, err)
		}
		if quick, err := Decode(line); err != nil || !reflect.DeepEqual(quick, m) {
			t.Errorf("%s: %+v and %+v, %v", line, quick, m, err)
		}
	}
	if short != 5 {
		t.Errorf("the short way was taken %d times", short)
	}
	for _, line := range []string{`{"job":1,"code":"ok"`, `{"job":1,"code":"ok"} `, `{"job":1,"code":"ok","output":1}`, `{"jab":1,"code":"ok"}`, okHead, okTail} {
		if _, ok := decodeOK([]byte(line)); ok {
			t.Errorf("%s is taken for an answer", line)
		}
	}
}
