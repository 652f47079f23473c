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

// openSealer is a sealer that decrypts any bytes to themselves.
type openSealer struct{}

func (openSealer) Seal(text secret.Text, _ string) ([]byte, error) { return []byte(text.Reveal()), nil }
func (openSealer) Open(sealed []byte, _ string) (secret.Text, error) {
	return secret.New(string(sealed)), nil
}

// FuzzTokens checks that no state and no cookie causes a panic, even if every seal is accepted. A
// value that is accepted decodes to its parts.
func FuzzTokens(f *testing.F) {
	now := time.Unix(1_000_000, 0)
	s := &Service{Sealer: openSealer{}, Now: func() time.Time { return now }, Random: strings.NewReader(strings.Repeat("x", 1000))}
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
		if flow, err := flowID(secret.New(raw)); err == nil && !strings.EqualFold(raw[:64], hex.EncodeToString(flow[:])) {
			t.Errorf("%q names the flow %x", raw, flow)
		}
	})
}
