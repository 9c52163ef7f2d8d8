package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// resp is a connection that speaks Redis's protocol as redis-benchmark does: it writes commands together and only reads
// their replies, which costs less processor time than any client library.
type resp struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte // commands that were not sent yet
	// text and ends are the strings of the last reply, one after the other.
	text []byte
	ends []int
}

func dialResp(ctx context.Context, address string) (*resp, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &resp{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// add appends a command to the commands that send will send.
func (r *resp) add(args ...string) {
	r.array(len(args))
	for _, a := range args {
		r.bulk(a)
	}
}

func (r *resp) array(n int) {
	r.out = append(r.out, '*')
	r.out = strconv.AppendInt(r.out, int64(n), 10)
	r.out = append(r.out, '\r', '\n')
}

func (r *resp) bulk(s string) {
	r.out = append(r.out, '$')
	r.out = strconv.AppendInt(r.out, int64(len(s)), 10)
	r.out = append(r.out, '\r', '\n')
	r.out = append(r.out, s...)
	r.out = append(r.out, '\r', '\n')
}

// send writes the commands in one piece. ctx's deadline applies to the commands and their replies.
func (r *resp) send(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	if err := r.conn.SetDeadline(deadline); err != nil {
		return err
	}
	_, err := r.conn.Write(r.out)
	r.out = r.out[:0]
	return err
}

// reply reads the reply to one command, and keeps its strings.
func (r *resp) reply() error {
	r.text, r.ends = r.text[:0], r.ends[:0]
	return r.value()
}

// replies reads the replies to n commands. Only the strings of the last one remain.
func (r *resp) replies(n int) error {
	for range n {
		if err := r.reply(); err != nil {
			return err
		}
	}
	return nil
}

func (r *resp) value() error {
	line, err := r.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	line = bytes.TrimSuffix(line, []byte("\r\n"))
	if len(line) == 0 {
		return errLostJobs
	}
	switch rest := string(line[1:]); line[0] {
	case '+', ':':
		r.text = append(r.text, rest...)
		r.ends = append(r.ends, len(r.text))
		return nil
	case '-':
		return errors.New(rest)
	case '$':
		return r.readBulk(rest)
	case '*':
		n, err := strconv.Atoi(rest)
		for range n {
			if err == nil {
				err = r.value()
			}
		}
		return err
	}
	return fmt.Errorf("%w: %q", errLostJobs, line)
}

func (r *resp) readBulk(length string) error {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return err
	}
	start := len(r.text)
	r.text = append(r.text, make([]byte, n)...)
	for read := start; read < len(r.text); {
		k, err := r.in.Read(r.text[read:])
		if err != nil {
			return err
		}
		read += k
	}
	r.ends = append(r.ends, len(r.text))
	_, err = r.in.Discard(2)
	return err
}

// strings returns how many strings the last reply has.
func (r *resp) strings() int { return len(r.ends) }

// at returns string i of the last reply. It is valid until the next reply is read.
func (r *resp) at(i int) []byte {
	start := 0
	if i > 0 {
		start = r.ends[i-1]
	}
	return r.text[start:r.ends[i]]
}

func (r *resp) close() error {
	_ = r.conn.SetDeadline(time.Now())
	return r.conn.Close()
}
