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

// openSealer is a sealer that does not encrypt, and opens any bytes.
type openSealer struct{}

func (openSealer) Seal(text secret.Text, _ string) ([]byte, error) { return []byte(text.Reveal()), nil }
func (openSealer) Open(sealed []byte, _ string) (secret.Text, error) {
	return secret.New(string(sealed)), nil
}

// FuzzTokens checks that no state and no cookie causes a panic, even if every seal is accepted. An
// accepted state must contain the returned account. An accepted cookie must contain the returned id
// of the flow.
func FuzzTokens(f *testing.F) {
	now := time.Unix(1_000_000, 0)
	service := &Service{Sealer: openSealer{}, Now: func() time.Time { return now }, Random: strings.NewReader(strings.Repeat("x", 1000))}
	state, err := service.sealState("account", now.Add(time.Minute))
	if err != nil {
		f.Fatal(err)
	}
	if account, err := service.openState(state); err != nil || account != "account" {
		f.Fatalf("the state of the account was opened as %q, %v", account, err)
	}
	for _, seed := range []string{"", "x", state, state + "=", strings.Repeat("0", 64) + ".x", ".", "\x00", base64.RawURLEncoding.EncodeToString([]byte("a b 9223372036854775808"))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if account, err := service.openState(raw); err == nil {
			plaintext, _ := base64.RawURLEncoding.DecodeString(raw)
			if parts := strings.Split(string(plaintext), " "); len(parts) != 3 || parts[1] != string(account) {
				t.Errorf("the state %q was opened as the account %q, which it does not contain", raw, account)
			}
		}
		if id, err := flowID(secret.New(raw)); err == nil && !strings.EqualFold(raw[:64], hex.EncodeToString(id[:])) {
			t.Errorf("the cookie %q names the flow %x, which it does not contain", raw, id)
		}
	})
}
