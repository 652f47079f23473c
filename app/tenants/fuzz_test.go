// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/secret"
)

// open takes any bytes for sealed ones: what a seal would stop is let in.
type open struct{}

func (open) Seal(text secret.Text, _ string) ([]byte, error) { return []byte(text.Reveal()), nil }
func (open) Open(sealed []byte, _ string) (secret.Text, error) {
	return secret.New(string(sealed)), nil
}

// FuzzTokens: neither a link's state nor a cookie brings the service down, not
// even behind a seal that lets everything in, and what is taken is what was made.
func FuzzTokens(f *testing.F) {
	now := time.Unix(1_000_000, 0)
	s := &Service{Sealer: open{}, Now: func() time.Time { return now }, Random: strings.NewReader(strings.Repeat("x", 1000))}
	good, err := s.sealState("account", now.Add(time.Minute))
	if err != nil {
		f.Fatal(err)
	}
	if who, err := s.openState(good); err != nil || who != "account" {
		f.Fatalf("%q, %v", who, err)
	}
	for _, seed := range []string{"", "x", good, good + "=", strings.Repeat("0", 64) + ".x", ".", "\x00", base64.RawURLEncoding.EncodeToString([]byte("a b 9223372036854775808"))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if who, err := s.openState(raw); err == nil {
			plain, _ := base64.RawURLEncoding.DecodeString(raw)
			if parts := strings.Split(string(plain), " "); len(parts) != 3 || parts[1] != string(who) {
				t.Errorf("%q is the state of %q", raw, who)
			}
		}
		if flow, err := flowOf(secret.New(raw)); err == nil && !strings.EqualFold(raw[:64], hex.EncodeToString(flow[:])) {
			t.Errorf("%q names the flow %x", raw, flow)
		}
	})
}
