package job

import "testing"

// TestQuota: a document and a summary read back as the quota, and have one form only.
func TestQuota(t *testing.T) {
	for _, q := range []Quota{{Unfinished: 1}, {Queues: MaxQuota}, {1 << 40, 7, 1 << 49, 0, 3, 0}, {Bytes: 1, Sessions: 2, IdempotencyKeys: MaxQuota, Sweeps: 100}} {
		got, err := DecodeQuota(q.Document())
		if err != nil || got != q || ParseQuotaSummary(q.Summary()) != q {
			t.Errorf("%+v reads back as %+v, %v, and from its summary as %+v", q, got, err, ParseQuotaSummary(q.Summary()))
		}
		p := PutDocument{Kind: QuotaDocument, Name: "acme", Document: q.Document(), Summary: q.Summary()}
		if err := quotaRules.Check(&p); err != nil {
			t.Error(err)
		}
		of, other := p, p
		of.Client, other.Summary = "acme", "9/9/0/0/0/0"
		if quotaRules.Check(&of) == nil || quotaRules.Check(&other) == nil {
			t.Error("a quota of a client, or with another summary, is taken")
		}
	}
	for _, wrong := range []string{"", "unfinished=0", "queues=-1", "queues=1 unfinished=1", "unfinished=1 more=1", "unfinished=1000000000000001", "queues=1 queues=1", "unfinished=01"} {
		if q, err := DecodeQuota([]byte(wrong)); err == nil {
			t.Errorf("%q is taken for the quota %+v", wrong, q)
		}
	}
}
