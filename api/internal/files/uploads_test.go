package files

import (
	"encoding/base64"
	"strings"
	"testing"
)

// FuzzWantedBlob: any metadata gives a digest or an error.
func FuzzWantedBlob(f *testing.F) {
	f.Add("filename YQ==,address " + base64.StdEncoding.EncodeToString([]byte("sha256:"+strings.Repeat("a1", 32))))
	f.Add(",, address ,address !")
	f.Fuzz(func(t *testing.T, meta string) {
		want, err := wantedBlob(meta)
		if (want.SHA256 != nil || want.SHA1 != nil) && (err != nil || !strings.Contains(meta, "address")) {
			t.Errorf("%q wants %v, %v", meta, want, err)
		}
	})
}
