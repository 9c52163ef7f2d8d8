package mdns

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

const id = "0197f1c0-1111-7000-8000-000000000001"

func testZone() *zone {
	z := &zone{server: Server{ID: id, Port: 1717, Path: "/", Version: "1.2.3", Addr: netip.IPv6Unspecified()}}
	z.asked, z.known = time.Now().Add(time.Hour), []net.IP{net.ParseIP("10.0.0.1").To4(), net.ParseIP("fd00::1")}
	return z
}

func TestRecords(t *testing.T) {
	z := testZone()
	host := id + ".local."
	for _, service := range services {
		instance := id + "." + service + ".local."
		for _, test := range []struct {
			name string
			kind uint16
			want string
		}{
			{service + ".local.", dns.TypePTR, "PTR SRV A AAAA TXT"},
			{strings.ToUpper(service) + ".LOCAL.", dns.TypePTR, "PTR SRV A AAAA TXT"},
			{instance, dns.TypeSRV, "SRV A AAAA"},
			{instance, dns.TypeTXT, "TXT"},
			{host, dns.TypeA, "A"},
			{host, dns.TypeAAAA, "AAAA"},
			{"_services._dns-sd._udp.local.", dns.TypePTR, "PTR PTR PTR"},
			{"_other._tcp.local.", dns.TypePTR, ""},
			{service + ".example.", dns.TypePTR, ""},
		} {
			var kinds []string
			for _, r := range z.Records(dns.Question{Name: test.name, Qtype: test.kind, Qclass: dns.ClassINET}) {
				kinds = append(kinds, dns.TypeToString[r.Header().Rrtype])
				switch r := r.(type) {
				case *dns.SRV:
					if r.Port != 1717 || r.Target != host {
						t.Errorf("%v", r)
					}
				case *dns.TXT:
					if fmt.Sprint(r.Txt) != "[http_port=1717 path=/ version=1.2.3]" {
						t.Errorf("%v", r)
					}
				}
			}
			if got := strings.Join(kinds, " "); got != test.want {
				t.Errorf("%s %s: %s, want %s", test.name, dns.TypeToString[test.kind], got, test.want)
			}
		}
	}
	z.server.TLS = true
	for _, r := range z.Records(dns.Question{Name: id + "." + Service + ".local.", Qtype: dns.TypeTXT, Qclass: dns.ClassINET}) {
		if text, ok := r.(*dns.TXT); !ok || fmt.Sprint(text.Txt) != "[http_port=1717 path=/ version=1.2.3 tls=1]" {
			t.Errorf("with TLS: %v", r)
		}
	}
	z.known = nil
	if r := z.Records(dns.Question{Name: Service + ".local.", Qtype: dns.TypePTR}); r != nil {
		t.Errorf("an interface without an address answers %v", r)
	}
}

func TestReachable(t *testing.T) {
	var all []netip.Addr
	for _, a := range []string{"10.0.0.1", "10.0.0.2", "fe80::1", "fd00::1"} {
		all = append(all, netip.MustParseAddr(a))
	}
	for listener, want := range map[string]string{
		"0.0.0.0": "[10.0.0.1 10.0.0.2]", "::": "[fe80::1 10.0.0.1 10.0.0.2 fd00::1]", "10.0.0.2": "[10.0.0.2]", "::ffff:10.0.0.2": "[10.0.0.2]",
		"fe80::1%eth0": "[fe80::1]", "10.9.9.9": "[]",
	} {
		if got := fmt.Sprint(reachable(all, netip.MustParseAddr(listener))); got != want {
			t.Errorf("%s: %s, want %s", listener, got, want)
		}
	}
}

// TestTake: malformed answers and malformed parts of answers are ignored. All addresses in all answers are listed.
func TestTake(t *testing.T) {
	const name, host = id + "._daybook._tcp.local.", id + ".local."
	ptr := "_daybook._tcp.local. 120 IN PTR " + name
	srv := name + " 120 IN SRV 10 1 1717 " + host
	txt := name + ` 120 IN TXT "http_port=1717" "path=/queue/" "version=1.2.3" "more"`
	v4, v6 := host+" 120 IN A 10.0.0.1", host+" 120 IN AAAA fe80::1"
	for test, c := range map[string]struct {
		messages [][]string
		want     string
	}{
		"whole":              {[][]string{{ptr, srv, txt, v4, v6}}, "[{" + id + " http://10.0.0.1:1717/queue [10.0.0.1:1717 [fe80::1%eth0]:1717] 1717 /queue/ 1.2.3 false}]"},
		"in parts":           {[][]string{{ptr}, {v4}, {txt}, {srv}}, "[{" + id + " http://10.0.0.1:1717/queue [10.0.0.1:1717] 1717 /queue/ 1.2.3 false}]"},
		"IPv6 alone":         {[][]string{{ptr, srv, txt, v6}}, "[{" + id + " http://[fe80::1%25eth0]:1717/queue [[fe80::1%eth0]:1717] 1717 /queue/ 1.2.3 false}]"},
		"two interfaces":     {[][]string{{ptr, srv, txt, host + " 120 IN A 172.30.0.1"}, {ptr, srv, txt, v4, host + " 120 IN AAAA fd00::1"}, {ptr, srv, txt, v4}}, "[{" + id + " http://10.0.0.1:1717/queue [10.0.0.1:1717 172.30.0.1:1717 [fd00::1]:1717] 1717 /queue/ 1.2.3 false}]"},
		"in capitals":        {[][]string{{strings.ToUpper(name) + " 120 IN SRV 10 1 1717 " + strings.ToUpper(host), v4}}, "[{" + id + " http://10.0.0.1:1717 [10.0.0.1:1717] 1717 /  false}]"},
		"other service":      {[][]string{{"_ipp._tcp.local. 120 IN PTR printer._ipp._tcp.local.", "printer._ipp._tcp.local. 120 IN SRV 10 1 1717 " + host, v4}}, "[]"},
		"no port":            {[][]string{{ptr, name + " 120 IN SRV 10 1 0 " + host, txt, v4}}, "[]"},
		"no address":         {[][]string{{ptr, srv, txt}}, "[]"},
		"address of another": {[][]string{{ptr, srv, txt, "other.local. 120 IN A 10.0.0.1"}}, "[]"},
		"id with an escape":  {[][]string{{`\027[2J._daybook._tcp.local. 120 IN SRV 10 1 1717 ` + host, v4}}, "[]"},
		"TXT with escapes":   {[][]string{{srv, name + ` 120 IN TXT "version=\027[31m" "path=/\010" "path=//evil.example/"`, v4}}, "[{" + id + " http://10.0.0.1:1717//evil.example [10.0.0.1:1717] 1717 //evil.example/  false}]"},
		"TLS":                {[][]string{{srv, name + ` 120 IN TXT "path=/queue/" "version=1.2.3" "tls=1"`, v4}}, "[{" + id + " https://10.0.0.1:1717/queue [10.0.0.1:1717] 1717 /queue/ 1.2.3 true}]"},
		"TLS of no form":     {[][]string{{srv, name + ` 120 IN TXT "tls=yes"`, v4}}, "[{" + id + " http://10.0.0.1:1717 [10.0.0.1:1717] 1717 /  false}]"},
	} {
		a := newAnswers()
		for _, message := range c.messages {
			m := &dns.Msg{}
			for i, text := range message {
				r, err := dns.NewRR(text)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				if i%2 == 0 {
					m.Answer = append(m.Answer, r)
				} else {
					m.Extra = append(m.Extra, r)
				}
			}
			a.take(m, "eth0")
		}
		if got := fmt.Sprint(a.found()); got != c.want {
			t.Errorf("%s: %s, want %s", test, got, c.want)
		}
	}
}

// TestTakeIsBounded: whatever the number of answers, the tables stay bounded.
func TestTakeIsBounded(t *testing.T) {
	a := newAnswers()
	for n := range 2 * maxFound {
		m := &dns.Msg{}
		for _, text := range []string{
			fmt.Sprintf("s%d._daybook._tcp.local. 120 IN SRV 10 1 1717 h%d.local.", n, n), fmt.Sprintf("h%d.local. 120 IN A 10.0.0.1", n),
			fmt.Sprintf("h0.local. 120 IN A 10.1.%d.%d", n/256, n%256),
		} {
			r, err := dns.NewRR(text)
			if err != nil {
				t.Fatal(err)
			}
			m.Answer = append(m.Answer, r)
		}
		a.take(m, "eth0")
	}
	if len(a.instances) > maxFound || len(a.hosts) > maxFound || len(a.hosts["h0.local."]) > maxAddresses || len(a.questions().Question) > 20 {
		t.Errorf("%d instances, %d hosts, %d addresses", len(a.instances), len(a.hosts), len(a.hosts["h0.local."]))
	}
}

// TestQuestionsAreRepeated: a question is sent again if it was lost, or if a responder did not answer it.
func TestQuestionsAreRepeated(t *testing.T) {
	responder, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer responder.Close()
	loopback, err := net.InterfaceByIndex(1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	a := newAnswers()
	asked := make(chan error, 1)
	go func() {
		asked <- a.ask(ctx, loopback, "udp4", responder.LocalAddr().(*net.UDPAddr), 40*time.Millisecond)
	}()
	packet := make([]byte, 9000)
	for range 2 { // these are lost
		if _, _, err := responder.ReadFromUDP(packet); err != nil {
			t.Fatal(err)
		}
	}
	n, from, err := responder.ReadFromUDP(packet)
	if err != nil {
		t.Fatal(err)
	}
	var question, answer dns.Msg
	if err := question.Unpack(packet[:n]); err != nil || len(question.Question) != 1 || question.Question[0].Name != "_daybook._tcp.local." {
		t.Fatalf("asked %v, %v", question.Question, err)
	}
	answer.SetReply(&question)
	for _, text := range []string{id + "._daybook._tcp.local. 120 IN SRV 10 1 1717 h.local.", "h.local. 120 IN A 10.0.0.1"} {
		r, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		answer.Answer = append(answer.Answer, r)
	}
	text, err := answer.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := responder.WriteToUDP(text, from); err != nil {
		t.Fatal(err)
	}
	for len(a.found()) == 0 {
		if _, _, err := responder.ReadFromUDP(packet); err != nil { // a question that was sent after the answer
			t.Fatal(err)
		}
	}
	end()
	if err := <-asked; err != nil {
		t.Error(err)
	}
	if found := a.found(); len(found) != 1 || found[0].ID != id {
		t.Errorf("found %+v", found)
	}
}

// TestQuestions: the questions include each server's missing records.
func TestQuestions(t *testing.T) {
	a := newAnswers()
	for _, c := range []struct{ answer, want string }{
		{"", "PTR"},
		{"_daybook._tcp.local. 120 IN PTR s._daybook._tcp.local.", "PTR SRV TXT"},
		{"s._daybook._tcp.local. 120 IN SRV 10 1 1717 h.local.", "PTR A AAAA"},
		{"h.local. 120 IN A 10.0.0.1", "PTR"},
	} {
		if c.answer != "" {
			r, err := dns.NewRR(c.answer)
			if err != nil {
				t.Fatal(err)
			}
			a.take(&dns.Msg{Answer: []dns.RR{r}}, "eth0")
		}
		var types []string
		for _, q := range a.questions().Question {
			types = append(types, dns.TypeToString[q.Qtype])
		}
		if got := strings.Join(types, " "); got != c.want {
			t.Errorf("after %q: %s, want %s", c.answer, got, c.want)
		}
	}
}

// fakeMachine is a machine whose interfaces a test changes.
type fakeMachine struct {
	mu         sync.Mutex
	interfaces map[string][]string // addresses by name; nil: the interface is down
	responding map[string]int      // responders by name
}

func (f *fakeMachine) machine() machine {
	return machine{
		choose: func(names []string) (list []net.Interface, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for i, name := range slices.Sorted(maps.Keys(f.interfaces)) {
				if len(names) == 0 || slices.Contains(names, name) {
					list = append(list, net.Interface{Index: i + 1, Name: name})
				}
			}
			if len(names) > 0 && len(list) == 0 {
				err = fmt.Errorf("interface %s is missing", names[0])
			}
			return list, err
		},
		address: func(i *net.Interface) (list []netip.Addr) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, text := range f.interfaces[i.Name] {
				list = append(list, netip.MustParseAddr(text))
			}
			return list
		},
		respond: func(z *zone) (responder, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.responding[z.of.Name]++
			return &fakeResponder{f, z.of.Name}, nil
		},
	}
}

type fakeResponder struct {
	of   *fakeMachine
	name string
}

func (r *fakeResponder) Shutdown() error {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.of.responding[r.name]--; r.of.responding[r.name] == 0 {
		delete(r.of.responding, r.name)
	}
	return nil
}

// TestAnnouncementFollowsInterfaces: a server that was started before its network is announced when an interface
// appears. Its responders follow the interfaces and their families of addresses.
func TestAnnouncementFollowsInterfaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeMachine{responding: map[string]int{}}
		var log bytes.Buffer
		a, err := announce(Server{ID: id, Port: 1, Addr: netip.IPv6Unspecified(), Wait: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}, f.machine())
		if err != nil {
			t.Fatal(err)
		}
		step := func(what string, interfaces map[string][]string, want string) {
			t.Helper()
			f.mu.Lock()
			f.interfaces = interfaces
			f.mu.Unlock()
			time.Sleep(lookEvery)
			synctest.Wait()
			if got := fmt.Sprint(a.Interfaces(), f.responding); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		step("no interface", nil, "[] map[]")
		step("without an address", map[string][]string{"eth0": {}}, "[] map[]")
		step("up", map[string][]string{"eth0": {"10.0.0.1"}}, "[eth0] map[eth0:1]")
		step("another address", map[string][]string{"eth0": {"10.0.0.2"}}, "[eth0] map[eth0:1]")
		step("IPv6 too", map[string][]string{"eth0": {"10.0.0.2", "fd00::1"}}, "[eth0] map[eth0:1]")
		step("a second one", map[string][]string{"eth0": {"10.0.0.2", "fd00::1"}, "wlan0": {"10.1.0.1"}}, "[eth0 wlan0] map[eth0:1 wlan0:1]")
		step("the first is gone", map[string][]string{"wlan0": {"10.1.0.1"}}, "[wlan0] map[wlan0:1]")
		step("all are gone", nil, "[] map[]")
		step("and back", map[string][]string{"eth0": {"10.0.0.1"}}, "[eth0] map[eth0:1]")
		if err := a.Close(); err != nil || len(f.responding) > 0 {
			t.Error(err, f.responding)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 2 {
			t.Errorf("%d warnings: %s", n, log.String())
		}
	})
}

// TestAnnouncementOfNamedInterfaces: without Wait, a missing named interface is an error. With Wait, the remaining ones
// are used.
func TestAnnouncementOfNamedInterfaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeMachine{responding: map[string]int{}, interfaces: map[string][]string{"eth0": {"10.0.0.1"}, "eth2": {"10.2.0.1"}}}
		s := Server{ID: id, Port: 1, Addr: netip.IPv4Unspecified(), Interfaces: []string{"eth0", "eth1"}}
		if _, err := announce(s, f.machine()); err == nil || !strings.Contains(err.Error(), "eth1 is missing") || len(f.responding) > 0 {
			t.Error(err, f.responding)
		}
		s.Wait = true
		a, err := announce(s, f.machine())
		if err != nil || fmt.Sprint(a.Interfaces()) != "[eth0]" {
			t.Fatal(err)
		}
		f.mu.Lock()
		f.interfaces["eth1"] = []string{"10.1.0.1"}
		f.mu.Unlock()
		time.Sleep(lookEvery)
		synctest.Wait()
		if got := fmt.Sprint(a.Interfaces()); got != "[eth0 eth1]" {
			t.Error(got)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnnounceRefuses(t *testing.T) {
	for name, s := range map[string]Server{
		"no id":         {Addr: netip.IPv4Unspecified()},
		"id with a dot": {ID: "a.b", Addr: netip.IPv4Unspecified()},
		"no interface":  {ID: id, Port: 1, Addr: netip.IPv4Unspecified(), Interfaces: []string{"nothere0"}},
		"no address":    {ID: id, Port: 1, Addr: netip.MustParseAddr("192.0.2.1")},
	} {
		if a, err := Announce(s); err == nil {
			t.Errorf("%s: announced on %v", name, a.Interfaces())
			a.Close()
		}
	}
	if _, err := Browse(context.Background(), Query{Interfaces: []string{"nothere0"}}); err == nil || !strings.Contains(err.Error(), "there is no interface nothere0") {
		t.Errorf("browsed on an interface that does not exist: %v", err)
	}
}
